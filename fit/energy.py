"""Watts of a board: fits decide/energy.py to measured runs and writes docs/reference/energy-validation.md.

fit/data/energy_serving.csv and energy_diffusion.csv hold measured runs of ML.ENERGY's leaderboard
(ml-energy/leaderboard@0cd52dab, public/data/tasks): language models served by vLLM, one token after another, and models
of images and videos, whose steps are whole passes. Watts are of all GPUs together, without the host.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fit.fitting import DATA
from fit.generated import DOCS, SCORES, percent, put_lines, score_cells, table
from fit.scores import each_left_out, score, spread_of
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.energy import MAX_SHARE, POWER_CONSTANTS, terms
from whichdevice.study.tables.base import read_rows

PAGE = DOCS / "reference" / "energy-validation.md"
BYTES = {"bfloat16": 2.0, "fp8": 1.0, "mxfp4": 0.55}  # of a weight
PATCH = 16  # pixels of a picture along a side of one token: latents of 8, patches of 2
FRAMES = 4  # of a video in one token
GUIDED = 2  # passes of a step: with the prompt and without
RIDGE = 1e-3


@dataclass(frozen=True)
class Run:
    """A measured run: the shares of the sheet's peaks that it reaches, and of its boards' watts."""

    task: str
    model: str
    chip: str
    devices: int
    decodes: bool
    operations: float
    nbytes: float
    share: float


def runs() -> list[Run]:
    """Return all measured runs."""
    return [*_served(), *_diffused()]


def _served() -> Iterator[Run]:
    """Runs of language models. A batch touches the experts that its tokens are sent to, and of a dense model all."""
    sheet = hardware_rows()
    for line in read_rows(DATA / "energy_serving.csv"):
        row, devices = sheet[line["device"]], int(line["devices"])
        total, active = float(line["billions"]) * 1e9, float(line["active_billions"]) * 1e9
        peak = (row.half_dense_tflops or 0.0) * (2 if line["weights"] == "fp8" else 1) * 1e12
        touched = total * (1 - (1 - active / total) ** float(line["batch"])) if active < total else total
        rate = touched * BYTES[line["weights"]] / devices / (float(line["token_ms"]) / 1e3)
        work = float(line["tokens_per_s"]) * 2 * active / devices
        yield _run(line, True, work / peak, rate / (row.mem_bw_gbs or 1.0) / 1e9, row.power_w or 1.0)


def _diffused() -> Iterator[Run]:
    """Runs of images and videos; attention over all tokens counts, too."""
    sheet = hardware_rows()
    for line in read_rows(DATA / "energy_diffusion.csv"):
        row, devices, seconds = sheet[line["device"]], int(line["devices"]), float(line["batch_s"])
        weights, steps = float(line["billions"]) * 1e9, int(line["steps"])
        tokens = int(line["height"]) / PATCH * int(line["width"]) / PATCH
        tokens *= int(line["frames"]) / FRAMES if line["task"] == "text-to-video" else 1
        layers = 28 if weights < 3e9 else 40
        width = math.sqrt(weights / 12 / layers)
        one = (2 * weights * tokens + 4 * tokens**2 * width * layers) * GUIDED
        work = one * steps * int(line["batch"]) / seconds / devices
        rate = 2 * weights * steps / seconds / devices
        peak, bandwidth = (row.half_dense_tflops or 0.0) * 1e12, (row.mem_bw_gbs or 1.0) * 1e9
        yield _run(line, False, work / peak, rate / bandwidth, row.power_w or 1.0)


def _run(line: dict[str, str], decodes: bool, operations: float, nbytes: float, power: float) -> Run:
    devices = int(line["devices"])
    share = float(line["watts"]) / devices / power
    return Run(line["task"], line["model"], line["device"], devices, decodes, operations, nbytes, share)


def matrix_of(some: Sequence[Run]) -> np.ndarray:
    """Return the terms that the fit takes [runs, terms]."""
    return np.array([terms(run.decodes, run.operations, run.nbytes, run.devices) for run in some])


def fitted(matrix: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Return the weights of the terms for these runs, each of which counts the same."""
    square = matrix.T @ matrix + RIDGE * np.eye(matrix.shape[1])
    return np.linalg.solve(square, matrix.T @ np.log(share / (MAX_SHARE - share)))


def left_out(everything: Sequence[Run], key: Callable[[Run], str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the log of forecast over measured of each run, whose group the fit did not see.

    Then the same by the naive rule: the median share of all others.
    """
    matrix, share = matrix_of(everything), np.array([run.share for run in everything])

    def missed(out: np.ndarray) -> list[np.ndarray]:
        forecast = MAX_SHARE / (1 + np.exp(-matrix @ fitted(matrix[~out], share[~out])))
        return [np.log(forecast / share), np.log(np.median(share[~out]) / share)]

    forecast, naive = each_left_out([key(run) for run in everything], missed)
    return forecast, naive


KEYS: dict[str, Callable[[Run], str]] = {
    "a model": lambda run: run.model, "a chip": lambda run: run.chip, "a kind of task": lambda run: run.task,
}  # fmt: skip


def main() -> None:
    """Write constants and page."""
    everything = runs()
    errors = {name: left_out(everything, key) for name, key in KEYS.items()}
    log_sd = spread_of(errors["a model"][0])
    ends = {
        name: [_ends([getattr(run, part) for run in everything if run.decodes == decodes])
               for part in ("operations", "nbytes")]
        for name, decodes in (("passes", False), ("decodes", True))
    }  # fmt: skip
    weights = fitted(matrix_of(everything), np.array([run.share for run in everything]))
    constants = {"weights": [float(f"{weight:.5g}") for weight in weights], "log_sd": float(f"{log_sd:.4g}"), **ends}
    POWER_CONSTANTS.write_text(json.dumps(constants, indent=1) + "\n", encoding="utf-8")
    put_lines(PAGE, "make forecasts", _page(everything, errors, log_sd))


def _ends(values: list[float]) -> list[float]:
    """Return the range that counts as measured: all but the outermost runs."""
    return [float(f"{end:.4g}") for end in np.quantile(values, [0.01, 0.99])]


def _page(everything: Sequence[Run], errors: dict[str, tuple[np.ndarray, np.ndarray]], sd: float) -> Iterator[str]:
    """The generated part of the page; `sd` is the log spread that is stated."""
    lines = []
    for name, (logs, naive) in errors.items():
        its = score(logs, sd, [KEYS[name](run) for run in everything])
        lines.append([name, *score_cells(its), percent(score(naive)["median_error"])])
    yield from table(("left out", *SCORES, "naive rule: median"), lines)
    yield from ("", "With models left out, by task and chip:", "")
    logs, groups = errors["a model"][0], np.array([f"{run.task} on {run.chip}" for run in everything])
    lines = [[name, *score_cells(score(logs[groups == name], sd))] for name in sorted(set(groups))]
    yield from table(("task and chip", *SCORES), lines)


if __name__ == "__main__":
    main()
