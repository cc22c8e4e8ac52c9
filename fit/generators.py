"""Constants of models that make images and videos, and how good their forecasts are: `python -m fit.generators`.

fit/data/generators_published.csv has published seconds of whole images and videos on one GPU. The factors are fitted to
ML.ENERGY's rows alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fit.fitting import DATA, read_priors
from fit.generated import DOCS, percent, put_lines, table, times
from fit.robust import Point, robust_logs
from fit.scores import each_left_out, score, spread_of, weights_of
from fit.serving import write_json
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.serving.generators import GENERATOR_CONSTANTS, SHARP, Generating, whole, work_of
from whichdevice.forecast.time_model import Peaks
from whichdevice.models.diffusion import generator
from whichdevice.study.tables.base import read_rows

PUBLISHED = DATA / "generators_published.csv"
PAGE = DOCS / "reference" / "generators-validation.md"
FITTED = "ML.ENERGY"
PRIOR = read_priors()["generator"]
ROBUST, RESIDUAL = 0.2, 0.15


@dataclass(frozen=True)
class Row:
    """Published seconds of one image or video, of a batch of so many."""

    source: str
    one: Generating
    batch: int
    seconds: float

    @cached_property
    def parts(self) -> dict[str, float]:
        """Seconds of an image before the factors."""
        return {name: seconds / self.batch for name, seconds in self.one.parts(self.batch).items()}


def published() -> list[Row]:
    """Return the rows of the file."""
    sheet = hardware_rows()
    rows = []
    for line in read_rows(PUBLISHED):
        model = generator(line["model"])
        assert model is not None, line["model"]
        steps, height, width = (int(line[name]) for name in ("steps", "height", "width"))
        one = Generating(model, sheet[line["device"]], steps, height, width)
        rows.append(Row(line["source"], one, int(line["batch"]), float(line["seconds"]) / int(line["batch"])))
    return rows


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """Return the factors: robust least squares of log residuals; n rows of a model on a chip weigh as √n."""
    names = list(PRIOR)
    parts = np.array([[row.parts[name] for name in names] for row in rows])
    centre = np.log([PRIOR[name][0] for name in names])
    hold = RESIDUAL**2 / np.array([PRIOR[name][1] for name in names]) ** 2
    weight = weights_of((row.one.model.name, row.one.row.device) for row in rows) ** 0.5

    def at(logs: np.ndarray) -> Point:
        times = parts * np.exp(logs)
        device, host, decode = times[:, :3].sum(axis=1), times[:, 3], times[:, 4]
        longer = (device**SHARP + host**SHARP) ** (1 / SHARP)
        slopes = np.column_stack(
            [times[:, :3] * ((device / longer) ** (SHARP - 1))[:, None], host * (host / longer) ** (SHARP - 1), decode]
        )
        return np.log(longer + decode), slopes / (longer + decode)[:, None]

    measured = np.log([row.seconds for row in rows])
    logs = robust_logs(at, measured, weight, ROBUST, hold, centre, centre, 60)
    return dict(zip(names, map(float, np.exp(logs)), strict=True))


def missed(rows: Sequence[Row], factors: Mapping[str, float]) -> np.ndarray:
    """Return log of published over forecast seconds."""
    return np.log([row.seconds / whole(row.parts, factors) for row in rows])


def left_out(rows: Sequence[Row], group: Callable[[Row], str]) -> np.ndarray:
    """Return log of published over forecast seconds of each row, its group left out of the fit."""

    def its_missed(out: np.ndarray) -> np.ndarray:
        return missed(rows, fit([row for row, is_out in zip(rows, out, strict=True) if not is_out]))

    return each_left_out([group(row) for row in rows], its_missed)


def main() -> None:
    """Fit, write constants and the page."""
    every = published()
    rows, others = ([row for row in every if (row.source == FITTED) == is_fitted] for is_fitted in (True, False))
    factors = fit(rows)
    of_model = left_out(rows, lambda row: row.one.model.name)
    of_chip = left_out(rows, lambda row: row.one.row.device)
    new = missed(others, factors)
    spread = {"model": spread_of(of_model), "chip": max(spread_of(of_chip), spread_of(new))}
    chips = sorted({row.one.row.device for row in rows})
    write_json({"factors": factors, "chips": chips, "sd": spread}, GENERATOR_CONSTANTS)
    scores = {"a model": of_model, "a device": of_chip}
    put_lines(PAGE, "python -m fit.generators", _page(rows, scores, others, new))


def _page(
    rows: Sequence[Row], scores: Mapping[str, np.ndarray], others: Sequence[Row], new: np.ndarray
) -> Iterator[str]:
    naive = percent(score(np.log([row.seconds / _naive(row) for row in rows]))["median_error"])
    cells = []
    for name, logs in scores.items():
        its = score(logs)
        cells.append([name, its["rows"], percent(its["median_error"]), times(its["within"]), naive])
    yield from table(("left out of the fit", "rows", "median error", "80 % were within", "naive rule"), cells)
    yield ""
    cells = []
    for row, log in zip(others, new, strict=True):
        one = row.one
        size = f"{one.width} × {one.height}" + (f" × {one.model.frames}" if one.model.frames > 1 else "")
        name = one.model.name.rpartition("/")[2]
        cells.append([name, one.row.device, one.steps, size, f"{row.seconds:.4g} s", f"{np.exp(log):.2f}"])
    heads = ("others' times, none of them fitted", "device", "steps", "size", "published", "published / forecast")
    yield from table(heads, cells, words=2)


def _naive(row: Row) -> float:
    """All operations at the sheet's peak."""
    made = row.one.model.work(row.one.steps, row.one.height, row.one.width)
    peak = Peaks.of(row.one.row, measured=False).operations["half"]
    return (work_of(made.call).operations * made.calls + work_of(made.decode).operations) / peak


if __name__ == "__main__":
    main()
