"""Make table `published`: what somebody published beside the very same work, forecast or measured.

Each figure has the forecast on its own device; then each experiment has a row, without a published number,
for today's devices and for those that measured it. Nothing is scaled: settings are equal, or there is no number.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.answer import Forecast
from whichdevice.forecast.targets import find_target
from whichdevice.study.claims import SPEED, TODAY, Claim, Experiment, experiments
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import Sources, columns_of, table
from whichdevice.study.tables.forecasts import claimed_forecasts
from whichdevice.study.tables.measured import enough_repeats

PUBLISHED_COLUMNS = columns_of("published")
BOUNDS = ("", "_low", "_high")
QUALITY = {  # metrics that depend on the data: column of the summary
    "validation_accuracy": "validation_metric",
    "training_accuracy": "training_metric",
    "validation_loss": "validation_loss",
    "test_loss": "validation_loss",
}
EIGHTY = 1.2816  # spreads from the median to an end of an 80 % interval


@makes("each published figure beside the same work on the same device, and on today's", PUBLISHED_COLUMNS)
def make_published(sources: Sources) -> pd.DataFrame:
    """Return the table of a study: of what it forecasts or measures, and the figures of all sources."""
    return published_table(sources.claimed, sources.table("summary"), sources.once(claimed_forecasts), sources.sheet)


def published_table(
    published: Sequence[Claim], summary: pd.DataFrame, forecasts: Sequence[Forecast], sheet: Mapping[str, HardwareRow]
) -> pd.DataFrame:
    """Return the rows of every experiment."""
    measured = summary[summary["n_timed"].fillna(0) > 0]
    measured = measured[~measured["mode"].isin(["predict", "generate"]) & enough_repeats(measured["n_timed"])]
    fit = [forecast for forecast in forecasts if forecast.status == "ok" and forecast.step_time]
    rows = (row for experiment in experiments(published) for row in _rows(experiment, measured, fit, sheet))
    return table(rows, PUBLISHED_COLUMNS)


def _rows(
    experiment: Experiment, measured: pd.DataFrame, forecasts: Sequence[Forecast], sheet: Mapping[str, HardwareRow]
) -> Iterator[dict[str, Any]]:
    wanted = {(request.device, request.precision, request.batch_size) for request in experiment.requests()}
    of_experiment = {
        forecast.device: forecast
        for forecast in forecasts
        if forecast.module == experiment.first.workload
        and forecast.sequence_length == experiment.first.sequence_length
        and (forecast.device, forecast.precision, forecast.batch_size) in wanted
    }
    cells = measured[_same(experiment, measured)]
    for claim in experiment.claims:
        theirs = _settings(experiment, claim, claim.device_class) | {
            **{name: getattr(claim, name) or None for name in ("device_class", "unit", "caveat")},
            "published_device": claim.device,
            "standing": claim.status or "as published",
            "value": claim.value,
            "cause": claim.cause(sheet),
        }
        ours = _learned(claim, cells)
        if claim.is_timed and claim.hardware in of_experiment:
            ours = _forecast(claim, of_experiment[claim.hardware])
        yield theirs | ours | ({"ratio": ours["ours"] / claim.value} if ours and claim.value else {})
    if (timed := experiment.timed) is not None:
        for _, cell in cells.sort_values("step_time", kind="stable").drop_duplicates("device").iterrows():
            yield _settings(experiment, timed, str(cell["kind"])) | {"unit": timed.unit} | _measured(timed, cell)
        for name in TODAY:
            if name in of_experiment:
                kind = str(of_experiment[name].kind)
                yield _settings(experiment, timed, kind) | {"unit": timed.unit} | _forecast(timed, of_experiment[name])


def _settings(experiment: Experiment, claim: Claim, kind: str) -> dict[str, Any]:
    """Return the settings that were published, for a kind of device."""
    return {
        **{name: getattr(claim, name) for name in ("source", "date", "workload", "metric")},
        "published_batch_size": claim.batch_size,
        "published_sequence_length": claim.sequence_length,
        "published_precision": experiment.format_on(kind),
    }


def _same(experiment: Experiment, cells: pd.DataFrame) -> pd.Series:
    """Return which measured cells have the settings of an experiment."""
    first, lengths = experiment.first, cells["steps_per_sequence"]
    formats = cells["kind"].map(experiment.format_on, na_action="ignore")
    matching = (cells["module"] == first.workload) & (cells["precision"] == formats)
    matching &= cells["batch_size"] == (first.batch_size or math.nan)
    matching &= lengths.isna() if first.sequence_length is None else lengths == first.sequence_length
    return matching.fillna(False).astype(bool)


def _forecast(claim: Claim, forecast: Forecast) -> dict[str, Any]:
    """Return what a forecast says of as many steps as a figure is of."""
    target = find_target(forecast.device, forecast.devices)
    assert forecast.step_time is not None and forecast.batch_size is not None
    times = (forecast.step_time, forecast.step_time_low, forecast.step_time_high)
    if claim.unit == SPEED:  # a call sends off a hundred products, so that the host does not count
        spread = math.exp(EIGHTY * math.hypot(forecast.log_sd_shared or 0.0, forecast.log_sd_own or 0.0))
        middle = forecast.device_time or forecast.step_time
        times = (middle, middle / spread, middle * spread)
    return {
        "device": target.label,
        "kind": target.kind,
        "precision": forecast.precision,
        "batch_size": forecast.batch_size,
        "sequence_length": forecast.sequence_length,
        "evidence": "forecast",
        **_amounts(claim, times, forecast.batch_size, target.devices),
    }


def _measured(claim: Claim, cell: pd.Series) -> dict[str, Any]:
    """Return what a measured cell says of as many steps as a figure is of."""
    times = tuple(float(cell[f"step_time{bound}"]) for bound in BOUNDS)
    return _cell(cell) | {"n": cell["n_timed"]} | _amounts(claim, times, int(cell["batch_size"]), int(cell["replicas"]))


def _cell(cell: pd.Series) -> dict[str, Any]:
    named = {name: cell[name] for name in ("device", "kind", "precision", "batch_size")}
    return named | {"sequence_length": cell["steps_per_sequence"], "data": cell["source"], "evidence": "measured"}


def _amounts(claim: Claim, times: Sequence[float | None], size: int, replicas: int) -> dict[str, Any]:
    """Return a time or speed with its interval, in the unit of a figure; nothing where its steps are not known."""
    if claim.unit == SPEED:
        middle, *ends = (2.0 * size**3 * replicas / 1e12 / time if time else None for time in times)
        times = (middle, *reversed(ends))
    else:
        times = [claim.steps * time if claim.steps and time else None for time in times]
    return {f"ours{bound}": value for bound, value in zip(BOUNDS, times, strict=True)}


def _learned(claim: Claim, cells: pd.DataFrame) -> dict[str, Any]:
    """Return the best quality after as many epochs on all of the real data; nothing where no run has it."""
    column = QUALITY.get(claim.metric)
    if column is None:
        return {}
    real = ~cells["source"].astype("string").str.contains("standin").fillna(True).astype(bool)
    alike = cells[real & (cells["fraction"] == 1.0) & cells[column].notna()]
    if claim.epochs is not None:
        alike = alike[(alike["fewest_epochs"] == claim.epochs) & (alike["learned_epochs"] == claim.epochs)]
    if alike.empty:
        return {}
    cell = alike.sort_values(column, ascending="accuracy" not in claim.metric, kind="stable").iloc[0]
    return _cell(cell) | {"n": cell["n_learned"], "ours": float(cell[column])}
