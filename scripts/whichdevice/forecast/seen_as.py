"""While a step is traced, JAX's devices are those of the slice: so that what asks for them gets a TPU's answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whichdevice.forecast.topology import Topology, describe


@contextmanager
def seen_as(slice_: Topology) -> Iterator[None]:
    """`jax.devices()`, `jax.local_devices()` and `jax.default_backend()` answer as on the slice.

    Keras chooses its attention by `jax.devices()[0].platform`, as do many models. Only this public interface is
    changed, and only while it lasts: JAX itself does not read it.
    """
    import jax

    devices = list(describe(slice_).devices)
    answers: dict[str, Any] = {
        "devices": lambda backend=None: devices,
        "local_devices": lambda *_, **__: devices,
        "device_count": lambda backend=None: len(devices),
        "local_device_count": lambda backend=None: len(devices),
        "default_backend": lambda: "tpu",
    }
    own = {name: getattr(jax, name) for name in answers}
    for name, answer in answers.items():
        setattr(jax, name, answer)
    try:
        yield
    finally:
        for name, function in own.items():
            setattr(jax, name, function)
