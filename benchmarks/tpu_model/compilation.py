"""The scheduled program of a published row, compiled once in a process of its own and kept in a folder outside git."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from benchmarks.tpu_model.published import Row, published_rows

from whichdevice.forecast.targets import environment, find_target
from whichdevice.forecast.xla.programs import describe

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "results" / "tpu_model"


@dataclass(frozen=True)
class Compiled:
    """What compiling came to; `error` is empty where it worked, `bytes` is the memory needed on a device.

    `steps` are the steps that one run of the program makes.
    """

    seconds: float
    bytes: int = 0
    error: str = ""
    steps: int = 1


def compiled(row: Row) -> tuple[Compiled, str]:
    """The outcome and the program's text, from the folder or from a new process."""
    outcome = _place(row).with_suffix(".json")
    if not outcome.exists():
        environ = os.environ | environment(["libtpu"])
        command = [sys.executable, "-m", __spec__.name, row.id]
        done = subprocess.run(command, env=environ, cwd=HERE.parents[1], capture_output=True, text=True)
        if not outcome.exists():  # the compiler took the process with it
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            _write(outcome, Compiled(0.0, error=f"process ended with {done.returncode}: {last[:300]}"))
    result = Compiled(**json.loads(outcome.read_text()))
    text = "" if result.error else gzip.decompress(_place(row).with_suffix(".hlo.gz").read_bytes()).decode()
    return result, text


def _place(row: Row) -> Path:
    sources = [HERE / "programs" / f"{row.program}.py", *(HERE / f"{name}.py" for name in ("work", "adam", "fsdp"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    digest.update(f"{version('jax')} {version('libtpu')}".encode())
    return CACHE / f"{row.key}-{digest.hexdigest()[:12]}"


def _write(path: Path, outcome: Compiled) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(outcome)))


def _compile(row: Row) -> None:
    """In the process of its own, whose environment names the topology."""
    devices = describe(find_target(row.topology.replace(":", "-"))).devices
    work = import_module(f"benchmarks.tpu_model.programs.{row.program}").work(devices, row)
    lowered, place = work.lower(), _place(row)
    began = time.monotonic()
    try:
        program = lowered.compile(compiler_options=work.options or None)
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        _write(place.with_suffix(".json"), Compiled(time.monotonic() - began, error=" ".join(lines[:3])[:600]))
        return
    seconds, memory = time.monotonic() - began, program.memory_analysis()
    needed = memory.argument_size_in_bytes + memory.output_size_in_bytes - memory.alias_size_in_bytes
    needed += memory.temp_size_in_bytes + memory.generated_code_size_in_bytes
    place.parent.mkdir(parents=True, exist_ok=True)
    place.with_suffix(".hlo.gz").write_bytes(gzip.compress(program.as_text().encode(), 6))
    _write(place.with_suffix(".json"), Compiled(seconds, needed, steps=work.steps))


if __name__ == "__main__":
    _compile(next(row for row in published_rows() if row.id == sys.argv[1]))
