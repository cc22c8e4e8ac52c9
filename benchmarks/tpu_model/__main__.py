"""Published TPU step times against the model of docs/tpu-model.md.

python -m benchmarks.tpu_model compiles each program of config/tpu_published.csv once, one process after another, into
results/tpu_model/ (minutes; a second call takes up there), writes validation.csv beside this file and prints the table.
"""

from benchmarks.tpu_model.comparison import Comparison, read, summary, table, written
from benchmarks.tpu_model.compilation import compiled
from benchmarks.tpu_model.published import Row, published_rows
from whichdevice.forecast.device_time import device_time

from whichdevice.errors import StudyError
from whichdevice.forecast.hlo import parse_program
from whichdevice.forecast.targets import device_of, topology_named

Range = tuple[float, float | None, float]  # milliseconds a step; per cent of the bytes


def compared(row: Row, ranges: dict[str, Range | str]) -> Comparison:
    """One row; rows of the same program share its range."""
    slice_ = topology_named(row.topology.replace(":", "-"))
    if row.key not in ranges:
        ranges[row.key] = modelled(row, slice_.chip)
    found = ranges[row.key]
    if isinstance(found, str):
        return Comparison(row.id, slice_.name, row.step_ms, None, None, None, found)
    return Comparison(row.id, slice_.name, row.step_ms, *found)


def modelled(row: Row, chip: str) -> Range | str:
    """The model's answer for a row's program, or why there is none."""
    outcome, text = compiled(row)
    print(f"{row.key}: compiled in {outcome.seconds:.0f} s {outcome.error}", flush=True)
    if outcome.error:
        return outcome.error
    try:
        time = device_time(parse_program(text), device_of(chip))
    except StudyError as error:
        return str(error)
    scale = 1e3 / outcome.steps
    return time.low * scale, None if time.high is None else time.high * scale, 100 * time.timed_share


def main() -> None:
    """Compare every row, in the list's order."""
    ranges: dict[str, Range | str] = {}
    rows = [compared(row, ranges) for row in published_rows()]
    written(rows)
    print("\n".join(table(read())))  # as the docs show it, from the rounded numbers
    print(summary(read()))


if __name__ == "__main__":
    main()
