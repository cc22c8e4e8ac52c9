"""The program that XLA schedules for a GPU, found without making its kernels.

A forecast reads the scheduled program and its buffers. The kernels, which nobody runs here, take more than half of a
compile, and no option of XLA leaves them out. But XLA writes the scheduled program and its buffers into a folder
(`xla_dump_to`) before it makes the first kernel: a process compiles until they are there, and is ended. These processes
are forked from one that has imported JAX alone (multiprocessing's forkserver); the step reaches them as StableHLO
(jax.export), so that its model is built, traced and lowered once for all GPUs.

    portable = Portable.of(step)
    program = schedule_step(portable, find_target("L4"), "float32", 64)
"""

import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from whichdevice.base.errors import StudyError
from whichdevice.forecast.products import Mode
from whichdevice.forecast.targets import COMPILER, CompilerMissingError, Target
from whichdevice.forecast.xla.device_memory import MemoryNeed, compiler_error
from whichdevice.forecast.xla.programs import CompiledProgram, Step, describe, placed, require_fit, shardings

LAST = "*memory-usage-report.txt"  # that XLA writes of a scheduled program
BUFFERS = "*after_optimizations-buffer-assignment.txt"
PROGRAM = "*after_optimizations.txt"
POLL_SECONDS = 0.05
CRASHES = (-signal.SIGABRT, -signal.SIGSEGV, 127)  # of XLA and the loader where an allocation is refused, among others
ERROR = "error"  # file of one line: its class, and what it says
ALLOCATION = re.compile(r"^ *allocation \d+: size (\d+)(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Portable:
    """A step as StableHLO for CUDA: bytes of jax.export, arguments and results in a row."""

    module: bytes
    divided: tuple[bool, ...]  # arguments whose first axis is divided over the devices
    outputs: tuple[str, ...]  # "whole" or "batch"
    donated: int  # so many arguments come first, and results take their memory

    @classmethod
    def of(cls, step: Step) -> Self:
        """Trace and lower the step for a GPU. Raises what JAX raises where it cannot be exported."""
        import jax
        from jax import export

        leaves, tree = jax.tree.flatten(step.arguments)
        arguments = enumerate(step.arguments)
        divided = [number in step.batch for number, argument in arguments for _ in jax.tree.leaves(argument)]

        def flat(*given: Any) -> list[Any]:
            return jax.tree.leaves(step.function(*jax.tree.unflatten(tree, given)))

        shape = jax.eval_shape(step.function, *step.arguments)
        exported = export.export(jax.jit(flat), platforms=["cuda"])(*leaves)
        outputs = jax.tree.leaves(jax.tree.broadcast(step.outputs, shape))
        donated = len(jax.tree.leaves(step.arguments[0])) if step.in_place else 0
        return cls(bytes(exported.serialize()), tuple(divided), tuple(outputs), donated)


def schedule_step(
    portable: Portable, target: Target, precision: str, batch: int, mode: Mode = "train"
) -> CompiledProgram:
    """The program of a step on GPUs: its text, and its memory without the kernels' own code.

    Raises StudyError where the compiler fails, CompilerMissingError where it does not load, MemoryError where this host
    has too little memory.
    """
    require_fit(target, precision, batch if any(portable.divided) else None)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__, "jax.export"])
        process = context.Process(target=_compile, args=(portable, target, folder), daemon=True)
        process.start()
        try:
            while not any(folder.glob(LAST)) and process.is_alive():
                time.sleep(POLL_SECONDS)
        finally:
            process.kill()
            process.join()
        if not any(folder.glob(LAST)):
            raise _failure(folder, process.exitcode)
        text = next(folder.glob(PROGRAM)).read_text(encoding="utf-8")
        memory = memory_of(next(folder.glob(BUFFERS)).read_text(encoding="utf-8"))
    return CompiledProgram(target, precision, batch, mode, text, memory, time.monotonic() - started)


def memory_of(buffers: str) -> MemoryNeed:
    """Memory by XLA's list of buffers, as its analysis of the executable has it; constants count as code there."""
    sizes = dict.fromkeys(("arguments", "outputs", "aliased", "temporary", "code"), 0)
    allocations = ALLOCATION.findall(buffers)
    if not allocations:
        raise StudyError("the compiler's list of buffers cannot be read: it may be of another version")
    for size, rest in allocations:
        facts = re.split(r", shape \|.*?\|", rest)  # names of types are no facts
        argument = any(re.search(r", parameter \d+", fact) for fact in facts)
        output = any("maybe-live-out" in fact for fact in facts)
        sizes["arguments"] += argument * int(size)
        sizes["outputs"] += output * int(size)
        sizes["aliased"] += (argument and output) * int(size)
        sizes["temporary"] += any("preallocated-temp" in fact for fact in facts) * int(size)
        sizes["code"] += any(re.search(r", constant\b", fact) for fact in facts) * int(size)
    return MemoryNeed(**sizes)


def _failure(folder: Path, code: int | None) -> Exception:
    try:
        kind, _, said = (folder / ERROR).read_text(encoding="utf-8").partition(" ")
    except OSError:
        limited = resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
        # SIGKILL is the system's: nobody else ends it before the program is there.
        if code == -signal.SIGKILL or (limited and code in CRASHES):
            return MemoryError()
        if code:
            return compiler_error(f"it crashed (exit code {code})")
        return StudyError(f"{COMPILER} wrote no program: is the disk of temporary files full?")
    if kind == CompilerMissingError.__name__:
        return CompilerMissingError(said)
    if kind == MemoryError.__name__:
        return MemoryError()
    return compiler_error(f"{kind}: {said}")


def _compile(portable: Portable, target: Target, folder: Path) -> None:
    """Compile in a process apart until somebody ends it."""
    _end_with_parent()
    try:
        _lowered(portable, target).compile(compiler_options={"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True})
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        (folder / ERROR).write_text(f"{type(error).__name__} {first}", encoding="utf-8")


def _lowered(portable: Portable, target: Target) -> Any:
    """The step placed on a target's devices. Arguments that it does not use take no memory, as in any jax.jit."""
    import jax
    from jax import export

    jax.config.update("jax_platforms", "cpu")
    exported = export.deserialize(bytearray(portable.module))
    where = dict(zip(("whole", "batch"), shardings(describe(target)), strict=True))
    kept = exported.module_kept_var_idx
    places = ["batch" if divided else "whole" for divided in portable.divided]
    given = [placed(exported.in_avals[number], where[places[number]]) for number in kept]

    def call(*values: Any) -> Any:
        known = dict(zip(kept, values, strict=True))
        unused = {number: array for number, array in enumerate(exported.in_avals) if number not in known}
        known |= {number: jax.numpy.zeros(array.shape, array.dtype) for number, array in unused.items()}
        return exported.call(*(known[number] for number in range(len(known))))

    donated = [place for place, number in enumerate(kept) if number < portable.donated]
    outputs = [where[place] for place in portable.outputs]
    return jax.jit(call, donate_argnums=donated, out_shardings=outputs).lower(*given)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
