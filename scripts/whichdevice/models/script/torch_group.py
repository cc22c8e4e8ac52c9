"""A stand-in for the group of processes of a PyTorch script, of which one alone runs: what is sent comes back.

with ExitStack() as names:
    for owner, name, function in group_names(lambda: 4):
        names.enter_context(replaced(owner, name, function))
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch


class Done:
    """Stands for a transfer that has ended."""

    def wait(self, *_: Any) -> bool:
        """Return that it is over."""
        return True

    is_completed = is_success = wait


def group_names(world: Callable[[], int]) -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield modules, names in them and the functions that stand for these, in a group of so many processes."""
    import torch.distributed.nn

    gathering: dict[str, Callable[..., Any]] = dict.fromkeys(
        ("all_gather", "gather"), partial(_gathered_from_all, world)
    )

    for name, function in EXCHANGES.items():
        yield torch.distributed, name, function
    for owner in (torch.distributed.nn, torch.distributed.nn.functional):
        for name, function in {**WITH_GRADIENTS, **gathering}.items():
            yield owner, name, function


def _done(*_: Any, **__: Any) -> Done:
    return Done()


def _first(given: Any, *_: Any, **__: Any) -> Any:
    return given


def _second(_: Any, given: Any, *__: Any, **___: Any) -> Any:
    return given


def _gathered_from_all(world: Callable[[], int], given: Any, *_: Any, **__: Any) -> tuple[Any, ...]:
    """What each process gives, as far as its shape goes."""
    return (given,) * world()


def _listed(parts: list[Any], given: Any, *_: Any, **__: Any) -> Done:
    """Put what a process gives into a list for all."""
    parts[:] = [given] * max(1, len(parts))
    return Done()


def _gathered(given: Any, parts: list[Any] | None = None, *_: Any, **named: Any) -> Done:
    """Put it into a list that only one process has."""
    for outputs in (parts, *(value for name, value in named.items() if name.endswith("gather_list"))):
        if outputs:
            outputs[0] = given
    return Done()


def _copied(output: torch.Tensor, given: Any, *_: Any, **__: Any) -> Done:
    """Copy a tensor, or the first of a list, into another one of as many numbers."""
    given = given[0] if isinstance(given, list | tuple) else given
    if given is not None and output.numel() == given.numel():
        with torch.no_grad():
            output.copy_(given.reshape(output.shape))
    return Done()


def _scattered(output: Any, parts: Any = None, *_: Any, scatter_list: Any = None, **__: Any) -> Done:
    return _copied(output, parts or scatter_list)


def _all_listed(outputs: list[Any], given: list[Any], *_: Any, **__: Any) -> Done:
    outputs[:] = given
    return Done()


def _world(*_: Any, **__: Any) -> Any:
    return torch.distributed.group.WORLD


EXCHANGES: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys((
        "all_reduce", "reduce", "broadcast", "barrier", "monitored_barrier", "broadcast_object_list", "send", "recv",
        "isend", "irecv",
    ), _done),
    **dict.fromkeys(("all_gather", "all_gather_object", "scatter_object_list"), _listed),
    **dict.fromkeys((
        "all_gather_into_tensor", "reduce_scatter_tensor", "reduce_scatter", "all_to_all_single",
    ), _copied),
    **dict.fromkeys(("gather", "gather_object"), _gathered),
    "scatter": _scattered, "all_to_all": _all_listed, "new_group": _world,
    "new_subgroups": lambda *_, **__: (_world(), [_world()]),
}  # fmt: skip
WITH_GRADIENTS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("all_reduce", "reduce", "broadcast"), _first), "all_to_all_single": _second,
    "reduce_scatter": lambda _, parts, *__, **___: parts[0], "all_to_all": lambda _, parts, *__, **___: tuple(parts),
}  # fmt: skip
