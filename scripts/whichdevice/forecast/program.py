"""Compile any function for a TPU slice without a TPU, and model its device time.

    from jax import ShapeDtypeStruct
    from whichdevice.forecast.program import compile_step

    step = compile_step(
        lambda state, x: (x @ state).sum(),
        (ShapeDtypeStruct((1024, 1024), "bfloat16"), ShapeDtypeStruct((8192, 1024), "bfloat16")),
        topology="v2-2x2",
        batch=(1,),     # numbers of the arguments whose first axis is divided over the devices; the others are copied
        donate=(),      # numbers of the arguments that the function may overwrite
    )
    step.time.low, step.time.high       # seconds; high is None where the model does not give it
    step.time.at_high.categories        # seconds by kind of work
    step.memory.total                   # bytes on each device
    step.flops                          # operations of the products, all devices

Arguments are trees of jax.ShapeDtypeStruct: nothing is materialised. JAX must not have used a device yet. Raises
OutOfDeviceMemoryError where the program does not fit, CompilerMissingError where there is no libtpu.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from whichdevice.forecast.device_time import DeviceTime, device_time
from whichdevice.forecast.hlo import parse_program
from whichdevice.forecast.memory import MemoryNeed, OutOfDeviceMemoryError, memory_need, out_of_memory
from whichdevice.forecast.seen_as import seen_as
from whichdevice.forecast.topology import Topology, describe, device_of, topology_named
from whichdevice.errors import StudyError

FAR_TOO_LARGE = 2**40  # bytes a device; more than any HBM


@dataclass(frozen=True)
class CompiledStep:
    """What the compiler made of a function, and the model's answer."""

    topology: Topology
    seconds: float  # of compiling
    text: str  # the scheduled program of one device
    memory: MemoryNeed
    time: DeviceTime

    @property
    def flops(self) -> float:
        """Operations of the products in one run, over all devices, each loop by its trip count."""
        return self.time.at_high.flops * self.topology.devices


def compile_step(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    topology: str,
    batch: Sequence[int] = (),
    donate: Sequence[int] = (),
    outputs: Any = None,
) -> CompiledStep:
    """Compile `function(*arguments)` data parallel over the slice; see the top of this module.

    `outputs` is None (the compiler decides) or a prefix of the result's tree with "whole" for what every device holds
    and "batch" for what is divided along its first axis.
    """
    import jax

    slice_ = topology_named(topology)
    whole, divided = _shardings(slice_)
    placed = [
        jax.tree.map(lambda leaf, where=divided if number in batch else whole: _placed(leaf, where), argument)
        for number, argument in enumerate(arguments)
    ]
    for number in batch:
        _check_divisible(jax.tree.leaves(arguments[number]), slice_)
    results = {}
    if outputs is not None:
        results["out_shardings"] = jax.tree.map({"whole": whole, "batch": divided}.__getitem__, outputs)
    with seen_as(slice_):
        lowered = jax.jit(function, donate_argnums=tuple(donate), **results).lower(*placed)
    started = time.monotonic()
    compiled = _compile(lowered)
    seconds = time.monotonic() - started
    text = compiled.as_text()
    modelled = device_time(parse_program(text), device_of(slice_.chip))
    return CompiledStep(slice_, seconds, text, memory_need(compiled.memory_analysis()), modelled)


def available_memory(topology: str) -> float:
    """Bytes of HBM that the compiler leaves to a program on each device: what it says to one that is far too large."""
    import jax

    slice_ = topology_named(topology)
    _, divided = _shardings(slice_)
    array = _placed(jax.ShapeDtypeStruct((slice_.devices * FAR_TOO_LARGE,), "int8"), divided)
    try:
        _compile(jax.jit(lambda x: x + 1).lower(array))
    except OutOfDeviceMemoryError as error:
        return error.available
    raise StudyError(f"{topology}: the compiler does not say how much memory a device has")


def _shardings(slice_: Topology) -> tuple[Any, Any]:
    """Copied to every device, and divided along the first axis."""
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(describe(slice_).devices), ("batch",))
    if mesh.size != slice_.devices:
        raise StudyError(f"{slice_.name}: libtpu gives {mesh.size} devices, {slice_.devices} were expected")
    return NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))


def _placed(leaf: Any, sharding: Any) -> Any:
    import jax

    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _check_divisible(leaves: list[Any], slice_: Topology) -> None:
    for leaf in leaves:
        if leaf.shape[0] % slice_.devices:
            raise StudyError(
                f"batch size {leaf.shape[0]} does not divide over the {slice_.devices} devices of {slice_.name}"
            )


def _compile(lowered: Any) -> Any:
    try:
        return lowered.compile()
    except Exception as error:
        too_large = out_of_memory(str(error))
        if too_large is not None:
            raise too_large from error
        first = next(iter(str(error).strip().splitlines()), "")
        raise StudyError(f"the TPU compiler failed: {type(error).__name__}: {first}") from error
