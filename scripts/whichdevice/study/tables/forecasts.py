"""Make table `forecasts`: forecasts as rows, written and read here."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pandas as pd

from whichdevice.base.errors import StudyError
from whichdevice.decide.prices import hour_of
from whichdevice.forecast.answer import Forecast, forecast_of
from whichdevice.forecast.products import read_compiled
from whichdevice.study.claims import CLAIMED
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import Column, Kind, Sources, table
from whichdevice.study.tables.hardware import Sheet, device_rows

COLUMN_KINDS: Mapping[Any, Kind] = {str: "text", int: "int", float: "float", bool: "flag", tuple: "text"}


def _kind(annotation: Any) -> Kind:
    """The kind of column that holds a field of this type; a tuple is JSON."""
    plain = get_args(annotation)[0] if isinstance(annotation, UnionType) else get_origin(annotation) or annotation
    return COLUMN_KINDS[plain]


COLUMNS: dict[str, Column] = {
    field.name: Column(_kind(field.type), field.metadata["text"]) for field in fields(Forecast)
}
LISTS = [field.name for field in fields(Forecast) if get_origin(field.type) is tuple]
IN_COMMON = ("workload", "batch_size", "sequence_length")  # what a forecast and a measured cell have in common


@makes("one row per step that was counted for a device. Nobody ran them; times are forecasts", COLUMNS)
def make_forecasts(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    of_study = [path for path in sources.compiled_paths if not _is_claimed(path)]
    return forecast_table(of_study, sources.table("summary"), sources.once(device_rows), sources.sheet)


def claimed_forecasts(sources: Sources) -> list[Forecast]:
    """Return the forecasts of published work at its own settings, which are no part of the study's own."""
    return list(_forecasts(path for path in sources.compiled_paths if _is_claimed(path)))


def _is_claimed(path: Path) -> bool:
    return path.parent.name.startswith(CLAIMED)


def forecast_table(
    paths: Iterable[Path], summary: pd.DataFrame, devices: dict[str, str | None], sheet: Sheet
) -> pd.DataFrame:
    """Return a row per compiled record that exists; one that cannot be read is a row with its reason.

    `summary` is the table of measured cells, `devices` the sheet's row of each of the study's devices.
    """
    return write_forecasts(study_forecasts(paths, summary, devices, sheet))


def study_forecasts(
    paths: Iterable[Path], summary: pd.DataFrame, devices: dict[str, str | None], sheet: Sheet
) -> list[Forecast]:
    """Return the forecast of each compiled record that exists, beside what was measured on the same device."""
    return [_priced(_compared(forecast, summary, devices), sheet) for forecast in _forecasts(paths)]


def write_forecasts(forecasts: Iterable[Forecast]) -> pd.DataFrame:
    """Return the table of these forecasts."""
    return table([_as_row(forecast) for forecast in forecasts], COLUMNS)


def _as_row(forecast: Forecast) -> dict[str, Any]:
    row = asdict(forecast)
    return row | {name: json.dumps(row[name]) if row[name] else None for name in LISTS}


def read_forecasts(frame: pd.DataFrame) -> list[Forecast]:
    """Return the forecasts of a table."""
    return [_from_row(row) for row in frame.to_dict("records")]


def _from_row(row: Mapping[Any, Any]) -> Forecast:
    known = {name: row[name] for name in COLUMNS if not pd.isna(row[name])}
    integers = {name: int(known[name]) for name, column in COLUMNS.items() if name in known and column.kind == "int"}
    return Forecast(**known | integers | {name: tuple(json.loads(known[name])) for name in LISTS if name in known})


def _forecasts(paths: Iterable[Path]) -> Iterator[Forecast]:
    for path in paths:
        if not path.is_file():
            continue
        try:
            yield forecast_of(read_compiled(path), path.as_posix())
        except StudyError as error:
            yield Forecast(device=path.parts[-3], status="failed", reason=str(error), record=path.as_posix())


def _compared(forecast: Forecast, summary: pd.DataFrame, devices: dict[str, str | None]) -> Forecast:
    """The forecast beside what was measured on the same device."""
    if not forecast.step_time:
        return forecast
    if forecast.mode == "prefill":
        summary = summary.assign(step_time=summary["prefill_time"])
    cells = summary[summary["step_time"].notna()]
    for name in IN_COMMON:
        value = getattr(forecast, name)
        cells = cells[cells[name].isna() if value is None else (cells[name] == value).fillna(False)]
    here = [name for name, hardware in devices.items() if hardware == forecast.device]
    alike = cells[cells["device"].isin(here) & (cells["precision"] == forecast.precision)]
    alike = alike[(alike["replicas"] == forecast.devices).fillna(False)]
    if alike.empty:
        return forecast
    fastest = float(alike["step_time"].min())
    return replace(forecast, own_step_time=fastest, residual=fastest / forecast.step_time)


def _priced(forecast: Forecast, sheet: Sheet) -> Forecast:
    """The forecast with the price of one hour on all its devices."""
    if not forecast.step_time:
        return forecast
    priced = hour_of(sheet[forecast.device], forecast.devices or 1)
    if priced.usd_per_hour is None:
        return replace(forecast, price=f"no price: the price sheet has none for {forecast.device}")
    return replace(
        forecast, usd_per_hour=priced.usd_per_hour, provider=priced.price.provider, price=priced.price.source
    )  # fmt: skip
