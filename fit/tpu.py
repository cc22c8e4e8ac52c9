"""The factors of a TPU's first estimate: `python -m fit.tpu`.

fit/data/tpu_programs.json.gz has steps of this project's workloads as XLA makes them for a GPU and libtpu for v5e and
v6e; the estimate is fitted to the forecast of libtpu's program (time_model.py), each step left out in turn.
fit/data/tpu_published.csv has published shares of a TPU's peak in training language models (dense decoders, bfloat16,
MaxText with recomputation). Each stands for the time of a step whose trace is known: fit/data/tpu_traces.json.gz.
`make forecasts` calls it, after it has written the constants of libtpu's programs.
"""

import csv
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fit.fitting import write
from whichdevice.config.hardware import hardware_rows
from whichdevice.forecast import tpu
from whichdevice.forecast.joint import SCORECARD, read_scorecard
from whichdevice.forecast.time_model import CONSTANTS, Peaks, at_peaks, like, pace_of, read_constants, seconds_by_class
from whichdevice.forecast.work import Work

DATA = Path(__file__).parent / "data"
PROGRAMS, TRACES = DATA / "tpu_programs.json.gz", DATA / "tpu_traces.json.gz"
PUBLISHED = DATA / "tpu_published.csv"
EXACT, ESTIMATE, PYTORCH = "xla on TPU", "xla of a GPU on TPU", "PyTorch on TPU"
# Where the fit starts, and how far (log) it is held there: by so many log units of misfit for one of its spreads.
PRIOR: Mapping[str, tuple[float, float]] = {
    "product": (1.05, 0.15),
    "convolution": (1.1, 0.3),
    "grouped convolution": (1.9, 0.3),
    "recurrent": (1.1, 0.3),
    "bytes of product": (0.5, 0.5),
    "bytes of convolution": (0.5, 0.5),
    "bytes of recurrent": (0.3, 0.7),
    "memory": (0.5, 0.5),
    "gather and scatter": (0.1, 1.0),
    "launch": (5e-6, 0.5),
    "launch of recurrent": (1.5e-6, 0.5),
}
PULL, ROBUST = 0.1, 0.2
HELD = 0.8  # share of values that an interval is meant to hold
Z80 = 1.2816
# Rows of PyTorch's own software on TPUs are missing: what a port to JAX reaches, or PyTorch/XLA in its place.
PYTORCH_SD = 0.3
OVERLAP = 0.2  # of a collective's time over one link, what is not hidden; from 0 to 0.3 the rows are met as well


@dataclass(frozen=True)
class Program:
    """One step on one chip: its work at the sheet's peaks by class, and the forecast of libtpu's program."""

    name: str
    device: str
    at_peaks: Mapping[str, float]
    seconds: float


def programs() -> list[Program]:
    """Every step of which both programs are known."""
    rows, sheet, exact = json.loads(gzip.decompress(PROGRAMS.read_bytes())), hardware_rows(), read_constants()[EXACT]
    pairs = []
    for row in rows:
        work = tpu.of_program(Work.from_dict(row["gpu"]))
        for device, digest in row["tpu"].items():
            peaks = Peaks.of(sheet[device])
            seconds = sum(seconds_by_class(Work.from_dict(digest["work"]), peaks, exact["factors"]).values())
            pairs.append(Program(row["name"], device, paced(at_peaks(work, peaks), peaks, exact), seconds))
    return pairs


def paced(parts: Mapping[str, float], peaks: Peaks, exact: Mapping[str, Any]) -> dict[str, float]:
    """Seconds by class of the fit, times the chip's clock or bandwidth of libtpu's programs."""
    known, sums = dict.fromkeys(PRIOR, 1.0), dict.fromkeys(PRIOR, 0.0)
    for name, seconds in parts.items():
        sums[like(name, known)] += seconds * exact["factors"].get(pace_of(peaks.chip, name), 1.0)
    return sums


def factors_of(some: Sequence[Program]) -> np.ndarray:
    """Factors in the order of PRIOR: robust least squares of log residuals, held to where they start."""
    centre, spread = np.log([start for start, _ in PRIOR.values()]), np.array([held for _, held in PRIOR.values()])
    at_peaks = np.array([list(program.at_peaks.values()) for program in some])
    measured = np.log([program.seconds for program in some])
    logs, hold = centre.copy(), PULL**2 / spread**2
    for _ in range(60):
        parts = at_peaks * np.exp(logs)
        slope, misses = parts / parts.sum(axis=1)[:, None], np.log(parts.sum(axis=1)) - measured
        trust = 1 / np.sqrt(1 + (misses / ROBUST) ** 2)
        square = slope.T @ (slope * trust[:, None]) + np.diag(hold)
        logs = logs - np.clip(np.linalg.solve(square, slope.T @ (trust * misses) + hold * (logs - centre)), -0.5, 0.5)
    return np.exp(logs)


def left_out(some: Sequence[Program]) -> np.ndarray:
    """Logs of estimate over libtpu's forecast, a step left out of the fit for all of its chips."""
    logs = np.zeros(len(some))
    for name in {program.name for program in some}:
        factors = factors_of([program for program in some if program.name != name])
        for place, program in enumerate(some):
            if program.name == name:
                logs[place] = math.log(np.array(list(program.at_peaks.values())) @ factors / program.seconds)
    return logs


@dataclass(frozen=True)
class Published:
    """One published share of the peak, and the step that stands for it."""

    chip: str
    model: str
    source: str
    share: float  # of the bfloat16 peak, recomputation not counted
    trace: str


def published() -> Iterator[Published]:
    """Rows of fit/data/tpu_published.csv."""
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield Published(row["device"], row["model"], row["source"], float(row["share"]), row["trace"])


def language_models(rows: Sequence[Published], factors: Mapping[str, float]) -> np.ndarray:
    """The factor of products, of each row, with which the whole step takes the published time."""
    traces, sheet = json.loads(gzip.decompress(TRACES.read_bytes())), hardware_rows()
    needed = []
    for row in rows:
        peaks, trace = Peaks.of(sheet[row.chip]), traces[row.trace]
        seconds = trace["model_operations"] / (row.share * peaks.operations["half"])
        parts = seconds_by_class(tpu.of_trace(Work.from_dict(trace["work"])), peaks, factors | {"product": 1.0})
        products = sum(value for name, value in parts.items() if like(name, factors) == "product")
        needed.append((seconds - sum(parts.values()) + products) / products)
    return np.array(needed)


def by_chip(rows: Sequence[Published], logs: np.ndarray, chosen: np.ndarray) -> tuple[float, dict[str, float]]:
    """Mean of the chips, and each chip's offset from it; a chip's models weigh the same."""
    chips: dict[str, dict[str, list[float]]] = {}
    for place in np.flatnonzero(chosen):
        chips.setdefault(rows[place].chip, {}).setdefault(rows[place].model, []).append(float(logs[place]))
    means = {chip: float(np.mean([np.mean(factors) for factors in models.values()])) for chip, models in chips.items()}
    centre = float(np.mean(list(means.values())))
    return centre, {chip: mean - centre for chip, mean in means.items()}


def misses(rows: Sequence[Published], logs: np.ndarray, group: str) -> np.ndarray:
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


def constants_of(
    factors: Mapping[str, float], sd: float, families: Sequence[str], timed: Sequence[str]
) -> dict[str, Any]:
    """Constants of one software: those of libtpu's programs with other factors and a wider question."""
    exact = read_constants()[EXACT]
    kept = {name: value for name, value in exact["factors"].items() if " of TPU" in name or name == "collective"}
    variances = exact["variances"] | {"question": float(f"{exact['variances']['question'] + sd**2:.5g}")}
    return exact | {
        "factors": {"sheet": 1.0, **kept, **{name: float(f"{value:.4g}") for name, value in factors.items()}},
        "fitted": ["sheet", "collective", *factors, *(name for name in exact["fitted"] if " of TPU" in name)],
        "variances": variances,
        "families": {name: exact["family"] for name in families},
        "timed": sorted(timed),
    }


FAMILIES = ("convolutions", "few kernels", "memory", "products", "products of patches", "embeddings")


def fitted_estimates() -> tuple[dict[str, Any], dict[str, dict[str, dict[str, float]]]]:
    """Constants of both estimates by their name, and their part of the scorecard."""
    some, exact = programs(), read_constants()[EXACT]
    constants: dict[str, Any] = {}
    card: dict[str, dict[str, dict[str, float]]] = {}
    logs = left_out(some)
    sd = float(np.sqrt(np.mean(np.clip(logs, -0.6, 0.6) ** 2)))
    fitted = dict(zip(PRIOR, map(float, factors_of(some)), strict=True))
    constants[ESTIMATE] = constants_of(fitted, sd, FAMILIES, exact["timed"])
    card[ESTIMATE] = {"a program": card_of(logs, len({program.name for program in some}), sd)}

    rows = list(published())
    fitted["collective"] = OVERLAP
    shares = np.log(language_models(rows, constants[ESTIMATE]["factors"] | fitted))
    centre, chips = by_chip(rows, shares, np.ones(len(rows), dtype=bool))
    of_models = misses(rows, shares, "model")
    model_sd = float(np.sqrt(np.mean(of_models**2)))
    clocks = {f"clock of {chip}": math.exp(offset) for chip, offset in chips.items()}
    pytorch = constants_of(
        fitted | {"product": math.exp(centre), **clocks}, math.hypot(sd, PYTORCH_SD), FAMILIES, list(chips)
    )
    pytorch["families"]["products with fused attention"] = exact["family"]
    constants[PYTORCH] = pytorch
    card[PYTORCH] = {
        name: card_of(misses(rows, shares, group), len({getattr(row, group) for row in rows}), model_sd)
        for name, group in (("models", "model"), ("a chip", "chip"), ("a source", "source"))
    }
    return constants, card


def main() -> None:
    """Write the constants of both estimates, and their part of the scorecard."""
    constants, card = fitted_estimates()
    write({**read_constants(), **constants}, CONSTANTS)
    write({**read_scorecard(), **card}, SCORECARD)
    print(json.dumps(card, indent=1))


if __name__ == "__main__":
    main()
