"""The factors of a TPU's first estimate, and of language models on TPUs: `python -m fit.tpu`.

The estimate is fitted to published steps on TPUs (steps.py) and to the forecasts of libtpu's programs (time_model.py):
fit/data/tpu_programs.json.gz has steps of this project's workloads as XLA makes them for a GPU and libtpu for v5e and
v6e. Published steps are of several chips: the variances of the fit are theirs. How far the estimate of one device is
off comes from programs, and from how far the forecasts of the compiler's own programs are.

fit/data/tpu_published.csv has published shares of a TPU's peak in training language models (dense decoders, bfloat16,
MaxText with recomputation). Each stands for the time of a step whose trace is known: fit/data/tpu_traces.json.gz. All
factors but that of products are the estimate's. How far they are off are these rows' own misses, with models left out;
of other PyTorch models no row is known, and their interval is that of the estimate and of a port.
`make forecasts` calls it, after it has written the constants of libtpu's programs.
"""

import gzip
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fit.counts import count_of, request
from fit.fitting import DATA, Published, Row, constants_of, read_gzip, write
from fit.kinds import KINDS, kinds, write_page
from fit.scores import Z80, each_left_out, rounded, score
from fit.steps import read_steps
from fit.validation import LEFT_OUT, Forecasts, Group, left_out, models_left_out, widened, widths
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast import tpu
from whichdevice.forecast.joint import SCORECARD, Card, read_scorecard, residual
from whichdevice.forecast.time_model import CONSTANTS, Peaks, read_constants, seconds_by_class
from whichdevice.forecast.work import Work
from whichdevice.study.tables.base import read_rows

PROGRAMS, TRACES = DATA / "tpu_programs.json.gz", DATA / "tpu_traces.json.gz"
PUBLISHED = DATA / "tpu_published.csv"
EXACT, ESTIMATE, PYTORCH = "xla on TPU", "xla of a GPU on TPU", "PyTorch on TPU"
PORT_SD = 0.3  # of models without rows: what a port to JAX reaches, or PyTorch/XLA in its place
OVERLAP = 0.2  # of a collective's time over one link, what is not hidden; from 0 to 0.3 the rows are met as well
MIN_WIDTH = 0.75  # of an estimate of one device, so that what the device has of its own is never all
COMPILER = "libtpu"  # with the step, the source of what is no published time but the forecast of its program
GROUPS: Mapping[str, Group] = {
    "models": lambda row: row.model, "a chip": lambda row: row.chip, "a source": lambda row: row.source_group
}  # fmt: skip


def programs() -> list[Row]:
    """Every step of which both programs are known, with the forecast of libtpu's as its time."""
    steps, sheet, exact = read_gzip(PROGRAMS), hardware_rows(), read_constants()[EXACT]
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


def language_models() -> list[Row]:
    """Each published share of the bfloat16 peak as the time of one chip's step; recomputation is no part of a share."""
    traces, sheet, rows = read_gzip(TRACES), hardware_rows(), []
    for line in read_rows(PUBLISHED):
        device, model, trace = line["device"], line["model"], traces[line["trace"]]
        peaks = Peaks.of(sheet[device])
        seconds = trace["model_operations"] / (float(line["share"]) * peaks.operations["half"])
        work = tpu.of_trace(Work.from_dict(trace["work"]), device)
        rows.append(Row(line["source"], device, seconds, 1, model, model, "train", work, peaks))
    return rows


def is_program(row: Row) -> bool:
    """Return whether its time is the forecast of libtpu's program."""
    return row.source_group.startswith(COMPILER)


def fitted_estimates() -> tuple[dict[str, Any], Card, dict[str, Forecasts]]:
    """Constants of both estimates by their name, their part of the scorecard, and forecasts by what was left out."""
    published = Published([*programs(), *(step.row() for step in read_steps() if step.is_evidence)])
    whole = published.fit()
    models = models_left_out(published, whole)
    found = {"models": models} | {
        name: left_out(published, LEFT_OUT[name](published.rows), whole) for name in ("a chip", "a source")
    }
    steps = {name: forecasts.of(lambda row: not is_program(row)) for name, forecasts in found.items()}
    card = {name: forecasts.figures(GROUPS[name]) for name, forecasts in steps.items()}
    of_programs = models.of(is_program)
    compiler = math.log(read_scorecard()[EXACT]["models"]["within"]) / Z80  # how far forecasts of its programs are off
    missed = replace(of_programs, logs=np.hypot(of_programs.logs, compiler))
    alone = widened(of_programs, GROUPS["models"], missed, MIN_WIDTH)
    card["a program"] = alone.figures(lambda row: row.question)
    estimate = constants_of(published, whole, {ESTIMATE: {"other": 1.0}})[ESTIMATE]
    pytorch, language = of_language_models(estimate)
    estimate["alone"] = of_four_digits(widths(missed, None, MIN_WIDTH)[ESTIMATE])
    return {ESTIMATE: estimate, PYTORCH: pytorch}, {ESTIMATE: card, PYTORCH: language}, steps


def of_language_models(estimate: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Constants of a PyTorch model on a TPU, and the scorecard of language models."""
    kept = {name: (value, 0.0) for name, value in estimate["factors"].items() if " of TPU" not in name}
    prior = kept | {"product": (1.2, 0.3), "collective": (OVERLAP, 0.0)}
    published = Published(language_models(), {PYTORCH: prior})
    whole = published.fit()
    found = {name: left_out(published, group, whole) for name, group in GROUPS.items()}
    models, own = found["models"], constants_of(published, whole, {PYTORCH: {"other": 1.0}})[PYTORCH]
    # Of a model without rows: as far off as the estimate of a new model on a new chip, and what a port adds.
    others, new = (residual(each, "", "", "TPU").sd for each in (estimate, own))
    wide = widths(models, least=0.0)[PYTORCH] | {"other": math.hypot(others, PORT_SD) / new}
    clocks = {name: value for name, value in own["factors"].items() if name.startswith("clock of")}
    factors = estimate["factors"] | {name: own["factors"][name] for name in ("product", "collective", *clocks)}
    constants = own | {
        "factors": {name: value for name, value in factors.items() if not name.startswith("clock") or name in clocks},
        "fitted": sorted({*estimate["fitted"], "product", "collective", *clocks} - {"memory", "gather and scatter"}),
        "families": estimate["families"] | own["families"],
        "host": estimate["host"],
        "widths": of_four_digits(wide),
    }
    card = {
        name: widened(forecasts, GROUPS[name], models, least=0.0).figures(GROUPS[name])
        for name, forecasts in found.items()
    }
    peaks = np.log([row.seconds / (row.work.operations / row.peaks.operations["half"]) for row in published.rows])
    names = [row.model for row in published.rows]
    naive = each_left_out(names, lambda out: peaks - np.median(peaks[~out]))
    return constants, card | {"models, by one share of the peak": rounded(score(naive, groups=names))}


def of_four_digits(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return numbers of four digits."""
    return {name: float(f"{value:.4g}") for name, value in numbers.items()}


def recount() -> None:
    """Count the steps of PROGRAMS anew, whose names say what they are; what libtpu made of them stays."""
    steps = read_gzip(PROGRAMS)
    for step in steps:
        print(step["name"], flush=True)
        name, precision, batch, rest = step["name"].split(", ", 3)
        mode, _, options = rest.partition(", ")
        size = count_of(request(name, precision, int(batch), mode, json.loads(options or "{}"))).sizes[0]
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
    write(decided, KINDS)
    write_page(steps, card, decided)


if __name__ == "__main__":
    main()
