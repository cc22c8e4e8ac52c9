"""The step of a script of Keras, TensorFlow or JAX: the sum of the programs of a period (models/script/programs.py).

The script's child process counts them; other batches lie on the line through the two that it counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.forecast.count.kept import OneSize, StepCount, one_size
from whichdevice.forecast.count.recurrent import recurrent_layers
from whichdevice.forecast.count.stablehlo import count_program, parsed_program
from whichdevice.forecast.work import Item, Precision, Total, Work

__all__ = ["count_program", "parsed_program", "recurrent_layers", "step_count", "step_of_batch"]

ONE_BATCH = "its step is of {size} examples alone: change its batch in the script, or by its arguments after --"


def step_count(
    programs: Mapping[Any, float], size: int, held: float, recurrent: Sequence[Any], keras: bool,
    notes: Sequence[str],
) -> StepCount:
    """Return the count of a step of so many examples, by how often each program runs in it.

    `held` are the bytes of all its arguments. A step whose programs are of one batch has one size.
    """
    sizes = [_sum(programs, {one: one.counted for one in programs}, size, held, recurrent)]
    has_batch = any(one.rows for one in programs)
    if has_batch and all(one.twice is not None for one in programs):
        added = [(one.function, one.twice.arguments - one.counted.arguments) for one in programs]
        more = sum(dict(sorted(added, key=lambda pair: pair[1])).values())  # of each function at its largest
        sizes.append(_sum(programs, {one: one.twice for one in programs}, 2 * size, held + more, recurrent))
    trained = sum({one.function: one.trained for one in programs}.values())
    state = sum({one.function: one.state for one in programs if one.trained}.values())
    return StepCount(
        sizes=sizes, weights=trained, optimizer=max(0.0, state - trained),
        gradients=trained, arrays=sum(one.arrays for one in programs), keras=keras, units=float(size),
        unit="example" if has_batch else "step", notes=list(notes),
    )  # fmt: skip


def _sum(
    programs: Mapping[Any, float], counted: Mapping[Any, Any], size: int, held: float, recurrent: Sequence[Any]
) -> OneSize:
    """Sum the kernels of programs; of their memory the most counts."""
    totals = {"gpu": Total(), "tpu": Total()}
    for program, times in programs.items():
        step = SimpleNamespace(counted=lambda one=program: counted[one], recurrent=recurrent if program.trained else ())
        one, _ = one_size(step, size, "float32", "train")
        for name, total in totals.items():
            work = Work.from_dict(getattr(one, name))
            for item in work.items:
                if item.kind != "collective":  # gradients are exchanged by as many devices as are asked for
                    total.put(item, times)
            total.unknown_loops += work.unknown_loops
            total.unknown_calls += work.unknown_calls
    works = {name: total.work("gpu").digest() for name, total in totals.items()}
    made = max(one.results for one in counted.values())
    return OneSize(batch=size, **works, lasting=held + made, temporary=max(one.temporary for one in counted.values()))


def step_of_batch(count: StepCount, batch: int, half: bool) -> StepCount:
    """Return the count of a step of another batch, and of twice of it; `half`: in 16 bits, else as the script is.

    Raises StudyError where the script's step is of one batch.
    """
    sizes = [_at(count, size) for size in (batch, 2 * batch)] if len(count.sizes) > 1 else count.sizes
    if sizes[0].batch != batch:
        raise StudyError(ONE_BATCH.format(size=sizes[0].batch))
    sizes = [one.model_copy(update={name: _in_format(getattr(one, name), half) for name in ("gpu", "tpu")})
             for one in sizes]  # fmt: skip
    return count.model_copy(update={"sizes": sizes, "units": float(batch)})


def _at(count: StepCount, batch: int) -> OneSize:
    first, second = count.sizes
    place = (batch - first.batch) / (second.batch - first.batch)
    if not place:
        return first

    def line(name: str) -> float:
        begin, end = getattr(first, name), getattr(second, name)
        return float(max(0.0, begin + (end - begin) * place))

    works = {name: _between(Work.from_dict(getattr(first, name)), Work.from_dict(getattr(second, name)), place)
             for name in ("gpu", "tpu")}  # fmt: skip
    return OneSize(batch=batch, **works, lasting=line("lasting"), temporary=line("temporary"))


def _between(first: Work, second: Work, place: float) -> dict[str, Any]:
    """Return the work on the line through two: the kernels of the first one; all of a kind grow by the same factor."""
    sums = [_sums(work) for work in (first, second)]
    items = list[Item]()
    for item in first.items:
        key = item.kind, item.precision
        pairs = zip(sums[0][key], sums[1].get(key, sums[0][key]), strict=True)
        operations, nbytes, count = (max(0.0, 1 + (end / begin - 1) * place) if begin else 1.0 for begin, end in pairs)
        if count:
            moved = item.bytes * nbytes / count
            done = item.operations * operations / count
            items.append(replace(item, operations=done, bytes=moved, count=item.count * count))
    return replace(first, items=tuple(items)).digest()


def _sums(work: Work) -> dict[Any, tuple[float, float, float]]:
    sums = dict[Any, tuple[float, float, float]]()
    for item in work.items:
        before = sums.get((item.kind, item.precision), (0.0, 0.0, 0.0))
        added = item.operations * item.count, item.bytes * item.count, item.count
        sums[item.kind, item.precision] = tuple(a + b for a, b in zip(before, added, strict=True))  # type: ignore[assignment]
    return sums


def _in_format(digest: dict[str, Any], half: bool) -> dict[str, Any]:
    """Products in the format that is asked for: float32 where a device has no 16 bits, bfloat16 on a TPU."""
    work = Work.from_dict(digest)
    wanted: Precision = "half" if half else "float32"
    items = (replace(item, precision=wanted) if item.precision else item for item in work.items)
    return replace(work, items=tuple(items)).digest()
