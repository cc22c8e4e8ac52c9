"""Run a training script as Python would until its training starts, whoever imports the framework that trains.

    script = ScriptRun(Path("train.py")).result(["--epochs", "3"])

The script runs in a thread. Each framework has a watcher, which is attached when the script, a library or another file
of the script imports the framework. It calls `run.stop(...)` where the first step begins. That call never returns: the
thread waits for ever, so the script's `finally:`, `except BaseException:` and context managers stay idle, and nothing
of the user's is written. This thread goes on with the script's own objects.

The one place where public names of other packages are replaced, here and in the watchers, while a script runs:
`signal.signal` (a thread may not), `atexit.register` (the script's own handlers would write), `ArgumentParser.error`
(its message), and what `Watcher.replace` names.
"""

import argparse
import atexit
import builtins
import io
import os
import random
import re
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, chdir, contextmanager
from functools import wraps
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NoReturn

import numpy as np

from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import StudyError
from whichdevice.models.address import Address, file_address
from whichdevice.models.framework import JAX, KERAS, TORCH, framework_of
from whichdevice.models.model_file import error_line
from whichdevice.models.script.found import AS_WRITTEN, Conditions, Script
from whichdevice.models.script.frames import is_own
from whichdevice.models.script.stand_ins import FirstFinder, Silent, StandIns

NAME_IT = "give its arguments after --, or name the file that trains"
WATCH_IT = "put its step into `with whichdevice.watch(model, optimizer) as step:` and call `step.ask()` after it"
SEED = 0  # of random numbers, where the script sets no seed
NVIDIA_SMI = "nvidia-smi"
SILENT_LOGGERS = {"WANDB_MODE": "disabled", "COMET_MODE": "disabled", "NEPTUNE_MODE": "debug"}  # nothing is sent
GPUS = re.compile(r"gpu|cuda device|rank|world.size", re.IGNORECASE)  # in the message of a library that misses some
STACK_BYTES = 2**26  # of the script's thread
WATCHERS = {  # by package, the module with its `Watcher`
    KERAS: "watch_keras", "tf_keras": "watch_keras", "tensorflow": "watch_tensorflow",
    JAX: "watch_jax", "flax.jax_utils": "watch_jax",
    TORCH: "watch_torch",
    "lightning": "watch_torch", "pytorch_lightning": "watch_torch", "lightning.fabric": "watch_torch",
    "deepspeed": "watch_torch", "transformers.training_args": "watch_torch",
    "torch.utils.tensorboard": "watch_torch", "tensorboardX": "watch_torch",
}  # fmt: skip


Result = Callable[[], Script] | StudyError  # of a run: what makes the script's functions, or why nothing does


class ScriptRun:
    """One run of a script until its training starts."""

    def __init__(self, path: Path, conditions: Conditions = AS_WRITTEN) -> None:
        self.path, self.conditions = path.absolute(), conditions
        self.counts_gpus = False  # whether the script asked how many there are
        self.over = False  # from then on the watchers let everything pass
        self.exited = False  # whether the script ended itself, by SystemExit
        self.main = sys.modules["__main__"]  # the script as a module
        self.watchers: dict[str, Watcher] = {}  # by module
        self.loaders: dict[tuple[str, int], Any] = {}  # by the file and line where a loop began to go over them
        self.periods: Any = None  # of its training, by whichever watcher sees it first
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._lock, self._done, self._process = threading.Lock(), threading.Event(), os.getpid()

    def stop(self, result: Result) -> NoReturn:
        """End the script here, whichever of its threads this is. What `result` makes is made in the first thread."""
        if os.getpid() != self._process:  # a fork of the script's
            os._exit(1)
        with self._lock:
            if self._result is None:
                self._result, self.over = result, True
        self._done.set()
        while True:
            threading.Event().wait()

    def watcher(self, package: str) -> "Watcher":
        """The watcher of a package that is imported."""
        module = WATCHERS[package]
        if module not in self.watchers:
            self.watchers[module] = import_module(f"whichdevice.models.script.{module}").Watching(self)
        return self.watchers[module]

    @property
    def without_values(self) -> bool:
        """Return whether a training has started whose step is not computed."""
        return any(watcher.without_values for watcher in self.watchers.values())

    @property
    def may_want_gpus(self) -> bool:
        """Return whether it counted its GPUs and ended or raised before its training, as where it wants more."""
        if not self.counts_gpus or self._result is not None or any(part.trains for part in self.watchers.values()):
            return False
        cause = None if self._error is None else self._error.__cause__
        if self._error is None or isinstance(cause, SystemExit):
            return True
        if cause is None or isinstance(cause, OSError | NameError | ImportError):
            return False
        frames = traceback.extract_tb(cause.__traceback__)
        return is_own(frames[-1].filename, self.path) or GPUS.search(str(cause)) is not None

    def attach(self, package: str) -> None:
        """Watch a framework that was just imported."""
        watcher = self.watcher(package)
        if not self.over:
            watcher.attach(sys.modules[package])

    def _stand_in(self, package: str) -> Mapping[str, Any]:
        import_module(TORCH)  # a script may import it later
        return self.watcher(TORCH).stand_in(package)

    def result(self, arguments: Sequence[str]) -> Script:
        """Run the script; raises StudyError where it fails, ends or trains in a way that is not known."""
        self._watch(arguments)
        if isinstance(self._result, StudyError):
            raise self._result
        return self._ended() if self._result is None else self._result()

    def _watch(self, arguments: Sequence[str]) -> None:
        imported = [name for name in WATCHERS if name in sys.modules]
        for name in imported:
            self.watcher(name)
        thread = threading.Thread(target=self._run, args=(imported,), daemon=True)
        size = threading.stack_size(STACK_BYTES)
        random.seed(SEED)  # what is found must not depend on a draw: sizes of a batch, labels in it
        np.random.seed(SEED)
        absent = StandIns(file_address(str(self.path)).files(), self._stand_in)
        with as_main(self.path, arguments), self._harmless(), absent, _Imports(self):
            thread.start()
            threading.stack_size(size)
            self._done.wait()
            self.over, self.main = True, sys.modules["__main__"]
            for watcher in self.watchers.values():
                watcher.detach()
        if self._error is not None and not any(watcher.has_started for watcher in self.watchers.values()):
            raise self._error

    def _ended(self) -> Script:
        framework = framework_of(parsed(self.path.read_bytes()))
        watchers = sorted(self.watchers.items(), key=lambda named: named[0] != WATCHERS[framework])
        for _, watcher in watchers:
            if (script := watcher.ended()) is not None:
                return script
        seen = next((watcher for _, watcher in watchers), None)
        if seen is None:
            raise StudyError(f"{self.path.name}: ended, and nothing imported Keras, PyTorch or JAX: {NAME_IT}")
        add = f", or {WATCH_IT}" if seen.package == "PyTorch" else ""
        raise StudyError(f"{self.path.name}: ended, and {seen.missing} ({seen.package}): {NAME_IT}{add}")

    def _run(self, imported: Sequence[str]) -> None:
        try:
            for name in imported:
                self.attach(name)
            variables = _run_file(self.path)
            for watcher in list(self.watchers.values()):
                watcher.finish(variables)
        except StudyError as error:
            self._error = error
        except SystemExit as error:
            self.exited = True
            if error.code not in (None, 0):
                self._error = self._ended_by(error)
        except BaseException as error:
            address = Address(str(self.path), "file", self.path, root=self.path.parent)
            self._error = StudyError(f"{self.path.name}: {error_line(error, address)}")
            self._error.__cause__ = error
        self._done.set()

    def _ended_by(self, exit_: SystemExit) -> StudyError:
        why = exit_.code if isinstance(exit_.code, str) else f"exit code {exit_.code}"
        advice = f": {NAME_IT}" if exit_.code == 2 else ""  # of argparse, click and others, where arguments are wrong
        error = StudyError(f"{self.path.name}: ended before its training: {why}{advice}")
        error.__cause__ = exit_
        return error

    @contextmanager
    def _harmless(self) -> Iterator[None]:
        """Leave out the handlers of signals and of the exit that the script sets; stop where argparse complains."""
        at_exit = atexit.register

        def register(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
            caller = traceback.extract_stack(limit=2)[0].filename
            return function if is_own(caller, self.path) else at_exit(function, *args, **kwargs)

        def error(_: argparse.ArgumentParser, message: str) -> NoReturn:
            self.stop(StudyError(f"{self.path.name}: ended before its training: {message}: {NAME_IT}"))

        with (
            replaced(signal, "signal", lambda number, _: signal.getsignal(number)),
            replaced(atexit, "register", register),
            replaced(argparse.ArgumentParser, "error", error),
            with_nvidia_smi(),
            with_environment(SILENT_LOGGERS),
        ):
            yield

    def audit(self, event: str, args: tuple[Any, ...]) -> None:
        """Stop where the script starts a file of Python in another process, which nobody would watch."""
        if self.over or event not in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            return
        given = args[1] if event != "os.system" else args[0]
        words = shlex.split(os.fsdecode(given)) if isinstance(given, str | bytes) else [*map(os.fsdecode, given or ())]
        files = [word for word in words if word.endswith(".py") and Path(word).is_file()]
        if files:
            lines = [part.lineno for part in traceback.extract_stack() if part.filename == str(self.path)]
            where = f"{self.path.name}, line {lines[-1]}" if lines else self.path.name
            self.stop(StudyError(f"{where}: it starts {files[0]}: ask about that file itself"))


@contextmanager
def with_nvidia_smi() -> Iterator[None]:
    """Have a program `nvidia-smi` that prints nothing, where there is none: scripts write what it prints to a log."""
    if shutil.which(NVIDIA_SMI):
        yield
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, NVIDIA_SMI)
        program.write_text("#!/bin/sh\n", encoding="utf-8")
        program.chmod(0o755)
        with with_environment({"PATH": folder + os.pathsep + os.environ.get("PATH", os.defpath)}):
            yield


@contextmanager
def with_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


@contextmanager
def as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Arguments, folder, import path and main module as `python train.py ...` has them, which the script may change."""
    argv, folders, main = sys.argv, list(sys.path), sys.modules["__main__"]
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.absolute().parent))
    try:
        with chdir(Path.cwd()):
            yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = argv, folders, main


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put a value in place of a public attribute and give the attribute back."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class Watcher(ABC):
    """One framework's part of a run: stops the script where its training starts. A module names its own `Watching`."""

    package: ClassVar[str]  # its name

    def __init__(self, run: ScriptRun) -> None:
        self.run = run
        self.replacements = ExitStack()

    @property
    @abstractmethod
    def missing(self) -> str:
        """Return why a script that ended shows no training."""

    @property
    @abstractmethod
    def trains(self) -> bool:
        """Return whether a training has started."""

    @property
    @abstractmethod
    def without_values(self) -> bool:
        """Return whether a training has started that is not computed, which the script's own code may need."""

    @property
    @abstractmethod
    def has_started(self) -> bool:
        """Return whether a period was recorded, after which an error is no matter, or a step, where it exits itself."""

    @abstractmethod
    def attach(self, package: ModuleType) -> None:
        """Watch a package that was just imported, in the thread that imports it; once for each of its names."""

    @abstractmethod
    def ended(self) -> Script | None:
        """Return what a script shows that came to its end; None: no training of this framework."""

    def finish(self, variables: Mapping[str, Any]) -> None:  # noqa: B027 - most have nothing to do
        """Let the script train what it only defines, at its end and in its thread."""

    def stand_in(self, package: str) -> Mapping[str, Any]:
        """Return what stands for a package that is not here."""
        return {}

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Put a value in place of a public attribute until the run is over."""
        self.replacements.enter_context(replaced(owner, name, value))

    def write_nothing(self) -> None:
        """Let the script write nothing of what it writes once it trains: a checkpoint, a log."""
        begin = builtins.open

        @wraps(begin)
        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            writes = not isinstance(file, int) and set(mode) & set("wax")
            return begin(os.devnull if writes else file, mode.replace("x", "w"), *args, **kwargs)

        for owner in (builtins, io):
            self.replace(owner, "open", opened)

    def detach(self) -> None:
        """Give everything back; the script is at its end."""
        self.replacements.close()


class _Imports(FirstFinder):
    """Attaches a run's watchers to frameworks right after their import."""

    def __init__(self, run: ScriptRun) -> None:
        self.run = run

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that the other finders have, with a loader that attaches."""
        if name not in WATCHERS:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Attaching(spec.loader, self.run)
        return spec


class _Attaching(Loader):
    def __init__(self, loader: Loader, run: ScriptRun) -> None:
        self.loader, self.run = loader, run

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.run.attach(module.__name__)


def _run_file(path: Path) -> dict[str, Any]:
    """Run a file as `python FILE` does, an exported notebook too; return its variables."""
    main, text = ModuleType("__main__"), path.read_bytes()
    vars(main).update({"__file__": str(path)} | ({"get_ipython": Silent} if b"get_ipython" in text else {}))
    sys.modules["__main__"] = main
    code = compile(parsed(text), str(path), "exec", dont_inherit=True)
    exec(code, vars(main))  # nosec B102  # the user's own script
    return vars(main)
