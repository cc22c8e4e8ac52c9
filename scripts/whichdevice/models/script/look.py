"""Ordinary training scripts as models: a script runs until its training starts and is stopped there; nothing trains.

    found = known(address) or probe(address)  # in another process, which leaves what it found on disk

How a script is stopped is in `run.py`. What it does before its training (files, downloads, prints) happens as
written.
"""

import faulthandler
import hashlib
import json
import multiprocessing
import os
import platform
import re
import signal
import subprocess
import sys
import time
import traceback
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter

from whichdevice.base.code_hash import code_hash
from whichdevice.base.errors import StudyError
from whichdevice.base.files import RETURNED, package_first, write_atomically
from whichdevice.base.identity import installed_versions
from whichdevice.base.memory import memory_within, most_to_compute, peak_memory
from whichdevice.models.address import Address, read_address
from whichdevice.models.declaration import Declaration
from whichdevice.models.framework import TORCH, framework_in
from whichdevice.models.model_file import Adapter, error_line
from whichdevice.models.pipeline import rates
from whichdevice.models.script.found import AS_WRITTEN, COUNTER, HOST, RECORDER, SHARED, Conditions, Found, Script
from whichdevice.models.script.frames import is_own
from whichdevice.models.script.run import WATCH_IT, ScriptRun
from whichdevice.models.script.text import is_script

FOLDER = Path("results/ask/scripts")  # what was found in scripts, by a hash of files, arguments and versions
KEPT_SECONDS = 30 * 86400.0
MOST_SECONDS = 600.0  # that a script may take before its training
END_SECONDS = 5.0  # before the end of these, when it writes where it is
FRAME = re.compile(r'File "(.+)", line (\d+) in ')
MAX_GPUS = 8  # that a script sees
MIN_BYTES, MAX_BYTES = 2**31, 6e9  # of a process that computes a step: what a framework takes; what a user may miss
OWN = "this error is the script's own: mend it there, or give its arguments after --"
LESS = "let it do less before, by arguments after --"
KILLED = "killed (signal 9) before its training started: where memory ran out, read less of its data first"
LIBRARY = "{name} raised it: see whether that version fits the other packages here, and what the script gives it"
PACKAGES = ("site-packages", "dist-packages")  # folders of libraries
NOT_NAMED = ("torch", "keras", "tensorflow", "jax", "jaxlib", "flax", "numpy")  # errors there are of what they get
VERSIONS = ("keras", "tensorflow", "torch", "transformers", "lightning", "jax", "flax", "optax", "equinox", "dm-haiku")
QUIETLY = {  # a search for TPUs takes a minute
    "MPLBACKEND": "Agg", "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu", "PYTHONHASHSEED": "0", **RETURNED,
}  # fmt: skip


def trains(address: Address) -> bool:
    """Whether an address is a training script's."""
    return address.kind == "file" and address.path is not None and is_script(address.path)


def known(address: Address, variant: str = "") -> Found | None:
    """Return what an earlier run of this script found, with these files, arguments and versions."""
    with suppress(OSError, ValueError):
        return TypeAdapter(Found).validate_json(_kept(address, variant).read_bytes())
    return None


def keep(address: Address, found: Found, variant: str = "") -> None:
    """Write what was found in a script, for `known`; what was found a month ago goes."""
    for file in FOLDER.glob("*"):
        with suppress(OSError):  # another call has removed it
            if time.time() - file.stat().st_mtime > KEPT_SECONDS:
                file.unlink()
    write_atomically(json.dumps(asdict(found)), _kept(address, variant))


def keep_watched(script: Script, folder: Path) -> str:
    """Keep what was recorded of a loop that is no script; return a file in a folder that stands for it."""
    text = f'"""A step that was watched: {script.recorded.trace.digest()}"""\nimport torch\n\noptimizer.step()\n'
    path = folder / f"watched_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    write_atomically(text, path)
    address = read_address(str(path))
    keep(address, script.found)
    _keep_record(script, _kept(address, suffix=".trace"))
    return str(path)


def _keep_record(script: Script, path: Path) -> None:
    recorded = script.recorded
    record = {name: value for name, value in vars(recorded).items() if name != "trace"}
    record |= {"trace": recorded.trace.digest()} if hasattr(recorded, "trace") else {}
    write_atomically(json.dumps(record), path)


@dataclass(frozen=True)
class Failure:
    """The end of a run in which no training started."""

    cause: str  # in one line
    advice: str = ""  # what to do, where the cause alone does not say it
    needs_values: bool = False  # whether the script may come further where its first step is computed

    def __str__(self) -> str:
        return f"{self.cause}; {self.advice}" if self.advice else self.cause


def probe(address: Address) -> Found:
    """Run the script in another process until its training starts, and keep what was found.

    Where the script's code fails in a first step that is not computed, as one that reads values may, it runs again and
    computes that step. Raises StudyError in one line where it fails, ends or takes too long before.
    """
    end = time.monotonic() + MOST_SECONDS
    failure = _failure(address, AS_WRITTEN, end)
    if failure is not None and failure.needs_values:
        computed = _failure(address, Conditions(values=True), end)
        if computed is not None and computed.cause == failure.cause:
            failure = replace(failure, advice=computed.advice or OWN)
    training = known(address)
    if training is None:
        raise StudyError(str(failure))
    if training.keeps != "batch" or training.asks != 1:
        training = _on_two(address, training)
        keep(address, training)
    return training


def _on_two(address: Address, training: Found) -> Found:
    """Return what was found with what two GPUs share, as a run on two shows it."""
    gpus, first = 2 * training.conditions.gpus, recording(address)[1]
    if not first["compares"]:  # a library's trainer shares examples out, or its number of processes is fixed
        return training
    try:
        other, recorded = recording(address, gpus=gpus)
    except StudyError:
        return training
    if other.batch_size < training.batch_size:
        note = SHARED.format(batch=training.batch_size)
        notes = (note,) if recorded.get("parallel", True) else ()  # else it counts devices, and trains on one
        return replace(training, keeps="batch", asks=1, notes=(*training.notes, *notes))
    steps = first["steps"]
    if first["joins"] and steps is not None and steps == recorded["steps"]:
        return replace(training, keeps="steps")
    return training


def seconds_here(address: Address) -> float:
    """Return the seconds of a script's step on this machine, where it trains for a few; loaders' are apart.

    Raises StudyError where it fails.
    """
    return float(recording(address, timed=True, values=True)[1]["seconds"])


def recording(address: Address, **changes: Any) -> tuple[Found, dict[str, Any]]:
    """Return what was found in a script, and what was recorded of its step as data, in other conditions perhaps.

    The script runs again where that is not known yet. Raises StudyError where it fails so.
    """
    first = known(address)
    conditions = replace(AS_WRITTEN if first is None else first.conditions, **changes)
    variant = ""
    if first is not None and conditions != first.conditions:
        variant = hashlib.sha256(repr(conditions).encode()).hexdigest()[:8]
    if known(address, variant) is None:
        failure = _failure(address, conditions, time.monotonic() + MOST_SECONDS, variant)
        if failure is not None:
            raise StudyError(str(failure))
    training = known(address, variant)
    assert training is not None
    return training, json.loads(_kept(address, variant, ".trace").read_text(encoding="utf-8"))


def _failure(address: Address, conditions: Conditions, end: float, variant: str = "") -> Failure | None:
    """Run the script in another process until its training starts, or a time; return why it did not start."""
    for suffix in (".failed", ".stuck"):
        _kept(address, suffix=suffix).unlink(missing_ok=True)
    line = ""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, address.text, json.dumps(asdict(conditions)), str(end), variant],
            env=os.environ | QUIETLY | package_first(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=max(0.0, end - time.monotonic()),
            check=False,
        )
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            line = last_line(_kept(address, suffix=".stuck").read_text(encoding="utf-8"), address)
        return Failure(f"{address.label}: its training did not start within {MOST_SECONDS:g} s{line}", LESS)
    if known(address, variant) is not None:
        return None
    if done.returncode == -signal.SIGKILL:
        return Failure(f"{address.label}: {KILLED}")
    with suppress(OSError, ValueError):
        return Failure(**json.loads(_kept(address, suffix=".failed").read_text(encoding="utf-8")))
    lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
    return Failure(lines[-1] if lines else f"{address.label}: ended with exit code {done.returncode}")


@dataclass(frozen=True)
class ScriptAdapter(Adapter):
    """The adapter of a script; `found` is None before `probe` found what its training is."""

    found: Found | None = None


def script_adapter(address: Address) -> ScriptAdapter:
    """Return the adapter of a script, which has no functions: its step is the one that was recorded.

    Before `probe` found what its training is, its declaration has a fault that says so.
    """
    training = known(address)

    def load() -> NoReturn:
        raise StudyError(f"{address.label}: a script is recorded as it trains; `whichdevice ask` times it here")

    if training is not None:
        return ScriptAdapter(address, training.declaration(), load, training)
    assert address.path is not None
    unknown = Declaration(
        fault=f"was not looked at yet: whichdevice ask {address.label} runs it until it trains",
        framework=framework_in([address.path, *address.files()]),
    )
    return ScriptAdapter(address, unknown, load)


def _kept(address: Address, variant: str = "", suffix: str = ".json") -> Path:
    """The file of what was found: its name is a hash of the script's files, arguments, versions, Python and machine.

    With another suffix it is of what was recorded of its step (.trace), of why no training started (.failed), or of
    where the script was when its time was nearly over (.stuck).
    """
    digest = hashlib.sha256(repr((address.arguments, _software())).encode())
    for path in address.files():
        digest.update(path.name.encode() + path.read_bytes())
    return FOLDER / f"{digest.hexdigest()[:16]}{variant and f'-{variant}'}{suffix}"


@cache
def _software() -> tuple[object, ...]:
    """Return what a record depends on besides the script: versions, this package's code, the machine."""
    watchers = ("watch_keras", "watch_tensorflow", "watch_torch", "watch_jax")
    code = code_hash(RECORDER, COUNTER, *(f"whichdevice.models.script.{name}" for name in ("look", *watchers)))
    versions = tuple(installed_versions(VERSIONS).items())
    return code, versions, platform.python_version(), platform.node(), os.cpu_count()


def last_line(stack: str, address: Address) -> str:
    """Return the innermost line of one's own files in what `faulthandler` writes, as ` (line 12)`; else ''."""
    files = {str(file.resolve()): file.name for file in (address.path, *address.files()) if file is not None}
    for name, line in FRAME.findall(stack):
        if name in files:
            prefix = "" if address.path is not None and name == str(address.path.resolve()) else f"{files[name]}, "
            return f" ({prefix}line {line})"
    return ""


def is_scripts_own(error: BaseException, path: Path) -> bool:
    """Return whether computing a step would not mend an error: a file, a name or a key is missing."""
    if isinstance(error, KeyError):
        last = traceback.extract_tb(error.__traceback__)[-1:]
        return isinstance(next(iter(error.args), None), str) and all(is_own(frame.filename, path) for frame in last)
    return isinstance(error, OSError | NameError | ImportError)


def library_of(error: BaseException, path: Path) -> str | None:
    """Return the name and version of the library that raised an error; None: the script or a framework did."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    for file in reversed(frames):
        parts = Path(file).parts
        place = next((place + 1 for place, part in enumerate(parts) if part in PACKAGES), len(parts))
        name = "".join(parts[place : place + 1]).removesuffix(".py")
        if name and name not in (*NOT_NAMED, "whichdevice"):
            with suppress(metadata.PackageNotFoundError):
                return f"{name} {metadata.version(name)}"
            return name
        if is_own(file, path):
            break
    return None


def main() -> NoReturn:
    """Run one script and write what was found: `python -m whichdevice.models.script.look ADDRESS [CONDITIONS [END]]`.

    The process ends at once: neither the script's threads nor its exit handlers run on.
    """
    address = read_address(sys.argv[1])
    assert address.path is not None
    if sys.argv[3:]:
        _say_where(address, max(1.0, float(sys.argv[3]) - END_SECONDS - time.monotonic()))
    variant = sys.argv[4] if sys.argv[4:] else ""
    run = ScriptRun(address.path, conditions=Conditions(**json.loads(sys.argv[2])) if sys.argv[2:] else AS_WRITTEN)
    if (gpus := run.conditions.gpus) > 1:  # so many devices of JAX
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={gpus}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would hide the last line
            _look(address, run, variant)
    except BaseException as error:
        failure = _failure_of(error, address, run)
        write_atomically(json.dumps(asdict(failure)), _kept(address, suffix=".failed"))
        print(failure, file=sys.stderr)
        _end(1)
    _end(0)


def _say_where(address: Address, seconds: float) -> None:
    """Write where the script is after some seconds."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = _kept(address, suffix=".stuck")
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)  # open until the process ends
    faulthandler.dump_traceback_later(seconds, file=descriptor)


def _end(status: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _failure_of(error: BaseException, address: Address, run: ScriptRun) -> Failure:
    """Return an error as what failed, also a framework's, where a part of the script's model fails."""
    text = str(error) if isinstance(error, StudyError) else f"{address.label}: {error_line(error, address)}"
    if isinstance(error, StudyError) and error.__cause__ is None:
        return Failure(text)
    cause = error.__cause__ or error
    library = library_of(cause, run.path)
    advice = LIBRARY.format(name=library) if library else ""
    if not run.without_values:
        return Failure(text, advice)
    if is_scripts_own(cause, run.path):
        return Failure(text, advice or OWN)
    return Failure(text, WATCH_IT if TORCH in sys.modules else advice, needs_values=True)


def _look(address: Address, run: ScriptRun, variant: str) -> None:
    sys.addaudithook(run.audit)
    conditions = run.conditions
    try:
        with memory_within(most_to_compute(MAX_BYTES, MIN_BYTES) if conditions.values else None):
            script = run.result(address.arguments)
    except StudyError:
        if not run.may_want_gpus or conditions.gpus >= MAX_GPUS:
            raise
        for child in multiprocessing.active_children():
            child.kill()
        # a script for several GPUs may refuse to run on fewer
        again = json.dumps(asdict(replace(conditions, gpus=2 * conditions.gpus)))
        os.execv(sys.executable, [sys.executable, "-m", __spec__.name, sys.argv[1], again, *sys.argv[3:]])  # nosec B606  # the interpreter that runs this
    training = replace(script.found, conditions=conditions)
    sys.modules["__main__"] = run.main  # where workers of a loader find the script's classes
    try:
        if not variant:
            size = getattr(script.recorded, "loads", None) or training.batch_size
            training = replace(training, pipeline=tuple(rates(script.batches, size)))
    except Exception as error:  # of the script's own data set
        note = f"Its input pipeline fails here and is not timed: {error_line(error, address)}."
        training = replace(training, notes=(*training.notes, note))
    if training.framework == TORCH:  # else each process that counts its step would import PyTorch for that
        import_module(HOST).measure("eager")
    training = replace(training, memory=peak_memory())
    _keep_record(script, _kept(address, variant, ".trace"))
    keep(address, training, variant)


if __name__ == "__main__":
    main()
