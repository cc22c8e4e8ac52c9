"""The factors of a TPU's first estimate: `python -m fit.tpu`.

The estimate is fitted to published steps on TPUs (steps.py) and to the forecasts of libtpu's programs (time_model.py):
fit/data/tpu_programs.json.gz has steps of this project's workloads as XLA makes them for a GPU and libtpu for v5e and
v6e. Models, chips and sources are left out in turn.
Published steps are of several chips: the variances of the fit are theirs. How far the estimate of one device is off
comes from programs, and from how far the forecasts of the compiler's own programs are.
fit/data/tpu_published.csv has published shares of a TPU's peak in training language models (dense decoders, bfloat16,
MaxText with recomputation). Each stands for the time of a step whose trace is known: fit/data/tpu_traces.json.gz.
`make forecasts` calls it, after it has written the constants of libtpu's programs.
"""

import gzip
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fit.fitting import Published, Row, constants_of, write
from fit.kinds import kinds, write_kinds, write_page
from fit.steps import read_steps
from fit.validation import LEFT_OUT, MISSED, PRIOR_MODELS, Forecasts, left_out, models_left_out
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast import tpu
from whichdevice.forecast.joint import SCORECARD, read_scorecard
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.time_model import CONSTANTS, Peaks, like, read_constants, seconds_by_class
from whichdevice.forecast.work import Work
from whichdevice.study.tables.base import read_rows

DATA = Path(__file__).parent / "data"
PROGRAMS, TRACES = DATA / "tpu_programs.json.gz", DATA / "tpu_traces.json.gz"
PUBLISHED = DATA / "tpu_published.csv"
EXACT, ESTIMATE, PYTORCH = "xla on TPU", "xla of a GPU on TPU", "PyTorch on TPU"
HELD = 0.8  # share of values that an interval is meant to hold
Z80 = 1.2816
# Rows of PyTorch's own software on TPUs are missing: what a port to JAX reaches, or PyTorch/XLA in its place.
PYTORCH_SD = 0.3
OVERLAP = 0.2  # of a collective's time over one link, what is not hidden; from 0 to 0.3 the rows are met as well
MIN_WIDTH = 0.75  # so that what one device has of its own is never all
COMPILER = "libtpu"  # with the step, the source of what is no published time but the forecast of its program


def programs() -> list[Row]:
    """Every step of which both programs are known, with the forecast of libtpu's as its time."""
    steps, sheet, exact = json.loads(gzip.decompress(PROGRAMS.read_bytes())), hardware_rows(), read_constants()[EXACT]
    rows = []
    for step in steps:
        work, name = tpu.of_program(Work.from_dict(step["gpu"])), step["name"]
        mode = "predict" if "predict" in name else "train"
        for device, digest in step["tpu"].items():
            peaks = Peaks.of(sheet[device])
            seconds = sum(seconds_by_class(Work.from_dict(digest["work"]), peaks, exact["factors"]).values())
            source, model = f"{COMPILER}: {name}", Path(name.partition(",")[0]).stem
            rows.append(Row(source, device, seconds, 1, model, name, mode, work, peaks))
    return rows


@dataclass(frozen=True)
class Share:
    """One published share of the peak, and the step that stands for it."""

    chip: str
    model: str
    source: str
    share: float  # of the bfloat16 peak, recomputation not counted
    trace: str


def shares() -> Iterator[Share]:
    """Rows of fit/data/tpu_published.csv."""
    for row in read_rows(PUBLISHED):
        yield Share(row["device"], row["model"], row["source"], float(row["share"]), row["trace"])


def language_models(rows: Sequence[Share], factors: Mapping[str, float]) -> np.ndarray:
    """The factor of products, of each row, with which the whole step takes the published time."""
    traces, sheet = json.loads(gzip.decompress(TRACES.read_bytes())), hardware_rows()
    needed = []
    for row in rows:
        peaks, trace = Peaks.of(sheet[row.chip]), traces[row.trace]
        seconds = trace["model_operations"] / (row.share * peaks.operations["half"])
        parts = seconds_by_class(
            tpu.of_trace(Work.from_dict(trace["work"]), row.chip), peaks, factors | {"product": 1.0}
        )
        products = sum(value for name, value in parts.items() if like(name, factors) == "product")
        needed.append((seconds - sum(parts.values()) + products) / products)
    return np.array(needed)


def by_chip(rows: Sequence[Share], logs: np.ndarray, chosen: np.ndarray) -> tuple[float, dict[str, float]]:
    """Mean of the chips, and each chip's offset from it; a chip's models weigh the same."""
    chips: dict[str, dict[str, list[float]]] = {}
    for place in np.flatnonzero(chosen):
        chips.setdefault(rows[place].chip, {}).setdefault(rows[place].model, []).append(float(logs[place]))
    means = {chip: float(np.mean([np.mean(factors) for factors in models.values()])) for chip, models in chips.items()}
    centre = float(np.mean(list(means.values())))
    return centre, {chip: mean - centre for chip, mean in means.items()}


def misses(rows: Sequence[Share], logs: np.ndarray, group: str) -> np.ndarray:
    """Logs of forecast over published factor, with the row's model, chip or source left out."""
    missed = np.zeros(len(rows))
    for place, row in enumerate(rows):
        chosen = np.array([getattr(other, group) != getattr(row, group) for other in rows])
        centre, chips = by_chip(rows, logs, chosen)
        missed[place] = centre + chips.get(row.chip, 0.0) - logs[place]
    return missed


def card_of(logs: np.ndarray, groups: int, sd: float) -> dict[str, float]:
    """How far estimates are off: the scorecard's numbers; `sd` is what an interval is made of."""
    errors = np.abs(logs)
    return {
        "rows": len(logs),
        "groups": groups,
        "median_error": round(float(np.expm1(np.median(errors))), 3),
        "within": round(float(np.exp(np.quantile(errors, HELD))), 3),
        "stated": round(math.exp(Z80 * sd), 3),
        "held": round(float(np.mean(errors <= Z80 * sd)), 3),
    }


Card = dict[str, dict[str, dict[str, float]]]


def fitted_estimates() -> tuple[dict[str, Any], Card, dict[str, Forecasts]]:
    """Constants of both estimates by their name, their part of the scorecard, and forecasts by what was left out."""
    published = Published([*programs(), *(step.row() for step in read_steps() if step.is_evidence)])
    whole = published.fit()
    models = models_left_out(published, whole)
    estimate = constants_of(published, whole, {ESTIMATE: {"other": 1.0}})[ESTIMATE]
    pytorch, language = of_language_models(estimate)
    error = compilers_error()
    estimate |= {"alone": alone(models, np.ones(len(models.rows), dtype=bool), error)}
    groups = {"models": "model", "a chip": "chip", "a source": "source_group"}
    left = {name: left_out(published, LEFT_OUT[name](published.rows), whole) for name in ("a chip", "a source")}
    found = {name: narrowed(left.get(name, models), models, group, error) for name, group in groups.items()}
    steps = {name: found[name].of(lambda row: not is_program(row)) for name in groups}
    of_programs = found["models"].of(is_program)
    card = {name: scored(forecasts, groups[name]) for name, forecasts in steps.items()}
    card |= {"a program": scored(of_programs, "question")}
    return {ESTIMATE: estimate, PYTORCH: pytorch}, {ESTIMATE: card, PYTORCH: language}, steps


def is_program(row: Row) -> bool:
    """Return whether its time is the forecast of libtpu's program."""
    return row.source_group.startswith(COMPILER)


def compilers_error() -> float:
    """Return the log spread of published times around forecasts of libtpu's programs, their models left out."""
    return math.log(read_scorecard()[EXACT]["models"]["within"]) / Z80


def alone(models: Forecasts, chosen: np.ndarray, error: float) -> dict[str, float]:
    """Return by family how much narrower or wider the estimate of one device is than variances say.

    From the chosen programs, which were forecast without their models; `error` is the compiler's own. A family with few
    programs is drawn to the mean of all, `other`; each model counts the same.
    """
    squares = np.minimum(np.abs(models.logs / models.sd), MISSED) ** 2 + (error / models.sd) ** 2
    found: dict[str, dict[str, list[float]]] = {}
    for row, square, its in zip(models.rows, squares, chosen, strict=True):
        if its and is_program(row):
            found.setdefault(row.family, {}).setdefault(row.model, []).append(float(square))
    families = {family: [float(np.mean(each)) for each in its.values()] for family, its in found.items()}
    other = float(np.mean([square for each in families.values() for square in each]))
    wide = {"other": other} | {
        family: (sum(each) + PRIOR_MODELS * other) / (len(each) + PRIOR_MODELS)
        for family, each in sorted(families.items())
    }
    return {family: float(f"{max(MIN_WIDTH, math.sqrt(square)):.4g}") for family, square in wide.items()}


def narrowed(found: Forecasts, models: Forecasts, group: str, error: float) -> Forecasts:
    """Return forecasts with the widths of the other groups' programs; `models` are those of `models_left_out`."""
    shared = found.sd_shared.copy()
    groups, of_models = (np.array([getattr(row, group) for row in each.rows]) for each in (found, models))
    for left in sorted({getattr(row, group) for row in found.rows if is_program(row)}):
        known = alone(models, of_models != left, error)
        for place in map(int, np.flatnonzero(groups == left)):
            row, own = found.rows[place], float(found.sd_own[place]) ** 2
            if is_program(row):
                wide = known.get(row.family, known["other"]) ** 2 * (shared[place] ** 2 + own)
                shared[place] = math.sqrt(max(0.0, wide - own))
    return replace(found, sd_shared=shared)


def of_language_models(estimate: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Constants of a PyTorch model on a TPU, and the scorecard of language models.

    They are those of the estimate with the clocks of language models, and a wider question.
    """
    rows = list(shares())
    factors = {name: value for name, value in estimate["factors"].items() if not name.startswith("clock of")}
    factors |= {"collective": OVERLAP}
    needed = np.log(language_models(rows, factors))
    centre, chips = by_chip(rows, needed, np.ones(len(rows), dtype=bool))
    clocks = {f"clock of {chip}": math.exp(offset) for chip, offset in chips.items()}
    factors |= {name: float(f"{value:.4g}") for name, value in {"product": math.exp(centre), **clocks}.items()}
    question = float(f"{estimate['variances']['question'] + PYTORCH_SD**2:.5g}")
    families = estimate["families"] | {"products with fused attention": estimate["family"]}
    constants = dict(estimate) | {
        "factors": factors,
        "fitted": sorted({*estimate["fitted"], "product", "collective", *clocks}),
        "variances": estimate["variances"] | {"question": question},
        "families": families,
        "timed": sorted(chips),
    }
    sd = float(np.sqrt(np.mean(misses(rows, needed, "model") ** 2)))
    return constants, {
        name: card_of(misses(rows, needed, group), len({getattr(row, group) for row in rows}), sd)
        for name, group in (("models", "model"), ("a chip", "chip"), ("a source", "source"))
    }


def recount() -> None:
    """Count the steps of PROGRAMS anew, whose names say what they are; what libtpu made of them stays."""
    from fit.__main__ import count_of

    steps = json.loads(gzip.decompress(PROGRAMS.read_bytes()))
    for step in steps:
        print(step["name"], flush=True)
        name, precision, batch, rest = step["name"].split(", ", 3)
        mode, _, options = rest.partition(", ")
        module = str(DATA.parent.parent / name) if name.endswith(".py") else name
        asked = ProgramRequest(
            device="H100 SXM", workload=name, module=module, precision=precision, batch_size=int(batch), mode=mode,
            options=json.loads(options or "{}"),
        )  # fmt: skip
        size = count_of(asked).sizes[0]
        step["gpu"], step["counted"] = size.tpu, {"lasting": size.lasting, "temporary": size.temporary}
    PROGRAMS.write_bytes(gzip.compress(json.dumps(steps, separators=(",", ":")).encode(), mtime=0))


def main() -> None:
    """Write the constants of both estimates, their part of the scorecard, decisions between kinds, and their page."""
    if "--rebuild" in sys.argv:
        recount()
    constants, card, steps = fitted_estimates()
    write({**read_constants(), **constants}, CONSTANTS)
    write({**read_scorecard(), **card}, SCORECARD)
    decided = kinds(steps["models"])
    write_kinds(decided)
    write_page(steps, card[ESTIMATE], decided)
    print(json.dumps({**card, "kinds": decided}, indent=1))


def scored(found: Forecasts, group: str) -> dict[str, float]:
    """Return the scorecard's numbers of forecasts that were left out."""
    numbers = ("median_error", "within", "stated", "held")
    sizes = {"rows": len(found.rows), "groups": len({getattr(row, group) for row in found.rows})}
    return sizes | {name: round(getattr(found, name), 3) for name in numbers}


if __name__ == "__main__":
    main()
