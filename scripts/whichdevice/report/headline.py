"""The first screen: the answer in words, and the board of workloads against devices, both of table `board` alone.

A sentence names a device alone only where its interval lies apart from all others; where intervals overlap, it names
the set. All numbers are from the table.
"""

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from whichdevice.numbers import compact, price, seconds
from whichdevice.report.advice import about
from whichdevice.report.best_devices import Phrase
from whichdevice.report.numbers import Number, cell_number
from whichdevice.tables.board import DOES_NOT_FIT, FORECAST, MEASURED, WORK
from whichdevice.tables.measured import OPERATIONS

NAMED = 4  # devices in a sentence; the board has all
STEP = ("step_ms", "low_ms", "high_ms")
COST = ("usd_per_million_examples", "usd_low", "usd_high")
SHORT = {"float32": "fp32", "tf32": "tf32", "mixed_bfloat16": "bf16", "mixed_float16": "fp16"}
SHADED = (("speed", "throughput", True), ("cost", COST[0], False))
SHOWN = {"speed": ("throughput", "throughput_low", "throughput_high"), "cost": COST}


def headline(board: pd.DataFrame, compared: list[str]) -> list[Phrase]:
    """Sentences: what was measured, what is forecast, what is cheapest, the other workloads, what contradicts.

    `compared`: the decision rule's sentences, where several devices were measured on the same work, else empty.
    """
    works = [rows for _, rows in board.groupby(WORK, dropna=False, sort=False)]
    if not works:
        return [["Nothing was measured yet, and nothing was forecast."]]
    main = min(works, key=_rank)
    found: list[Phrase] = []
    if compared:
        found.append([f"Measured: {' '.join(compared)}"])
    elif (board["evidence"] == MEASURED).any():
        found.append(_measured(main if (main["evidence"] == MEASURED).any() else _first_measured(works)))
    else:
        found.append(["Nothing was measured yet."])
    found += [_forecast(main), _cheapest(main), _others([rows for rows in works if rows is not main])]
    return [phrase for phrase in [*found, *_contradictions(board)] if phrase]


def _rank(rows: pd.DataFrame) -> tuple[bool, bool, bool]:
    """Work that trains comes first, that with a forecast and that which was measured."""
    evidence = set(rows["evidence"])
    return bool(rows["unit"].isin(OPERATIONS).any()), FORECAST not in evidence, MEASURED not in evidence


def _first_measured(works: list[pd.DataFrame]) -> pd.DataFrame:
    return next(rows for rows in works if (rows["evidence"] == MEASURED).any())


DETAILS = {"predict": "inference", "generate": "a token of each sequence"}


def _measured(rows: pd.DataFrame) -> Phrase:
    """The speed of the fastest measured device."""
    row = rows[rows["evidence"] == MEASURED].sort_values("step_ms", kind="stable").iloc[0]
    verb = {"train": "trains", "predict": "predicts with", "generate": "generates with"}.get(row["mode"], "runs")
    speed = cell_number(row, "throughput")
    if speed is None:
        return [f"Measured: {row['device']} on {row['workload']}."]
    words: Phrase = [f"Measured: {row['device']} {verb} {row['workload']} at ", speed, f" {row['unit']}s/s"]
    low, high = (cell_number(row, f"throughput_{end}") for end in ("low", "high"))
    if low is None or high is None:
        return [*words, ", by one process and so without an interval."]
    return [*words, " [", low, " – ", high, "]", ", an interval too wide to compare with." if row["wide"] else "."]


def candidates(rows: pd.DataFrame, value: str, low: str, high: str) -> pd.DataFrame:
    """The row with the least `value`, and every row whose interval is not wholly above that row's; the least first."""
    known = rows[rows[value].notna() & ~((rows["evidence"] == MEASURED) & rows["wide"].fillna(False))]
    known = known.sort_values(value, kind="stable")
    if known.empty:
        return known
    end = known[high].fillna(known[value]).iloc[0]
    return known[known[low].fillna(known[value]) <= end]


def _forecast(rows: pd.DataFrame) -> Phrase:
    expected = rows[rows["evidence"] == FORECAST]
    workload = rows["workload"].iloc[0]
    if expected.empty:
        if (rows["evidence"] == DOES_NOT_FIT).any():
            return [f"Forecast: {workload} fits the memory of no other device of the study."]
        alone = " Which device is best cannot be said." if rows["device"].nunique() < 2 else ""
        return [f"No other device has a forecast.{alone}"]
    if expected["host_decides"].any():
        return _small(expected, workload)
    best = candidates(rows, *STEP)
    names, fresh = _names(best["device"]), best[best["evidence"] == FORECAST]
    if fresh.empty:
        return [f"Forecast: no device of the {_count(expected)} is as fast as {names} on {workload}."]
    if len(fresh) < len(best):
        both = best.loc[best["evidence"] == MEASURED, "device"]
        return [f"Forecast: {_names(fresh['device'])} may be as fast as {_names(both)} or faster; intervals overlap."]
    overlap = "" if len(fresh) == 1 else ", whose intervals overlap"
    return [f"Forecast: {names} is fastest on {workload}{overlap}", *_times(fresh), "."]


def _small(expected: pd.DataFrame, workload: str) -> Phrase:
    """A step so small that the host decides: no device is named the fastest, the least to rent is."""
    which = _count(expected)
    words: Phrase = [f"Forecast: on {workload} any of the {which} will do" if len(expected) > 1 else
                    f"Forecast: {expected['device'].iloc[0]} will do for {workload}"]  # fmt: skip
    words += [*_times(expected), "; a step this small is decided by the host, not by the device."]
    hourly = expected[expected["usd_per_hour"].notna()].sort_values("usd_per_hour", kind="stable")
    rent = None if hourly.empty else cell_number(hourly.iloc[0], "usd_per_hour", price)
    return words if rent is None else [*words, f" Lowest rent: {hourly['device'].iloc[0]}, USD ", rent, " an hour."]


def _times(rows: pd.DataFrame) -> Phrase:
    """By how much these are faster than the baseline, from the lowest end to the highest."""
    known = rows[rows["ratio_low"].notna()]
    if known.empty:
        return []
    low = cell_number(known.sort_values("ratio_low").iloc[0], "ratio_low", about)
    high = cell_number(known.sort_values("ratio_high").iloc[-1], "ratio_high", about)
    assert low is not None and high is not None
    return [", ", low, " to ", high, f" times as fast as {known['baseline'].iloc[0]}"]


def _cheapest(rows: pd.DataFrame) -> Phrase:
    expected = rows[rows["evidence"] == FORECAST]
    best = candidates(rows, *COST)
    if best.empty or expected["host_decides"].any():
        return []
    ends = best.assign(low=best[COST[1]].fillna(best[COST[0]]), high=best[COST[2]].fillna(best[COST[0]]))
    low = cell_number(ends.sort_values("low").iloc[0], "low")
    high = cell_number(ends.sort_values("high").iloc[-1], "high")
    assert low is not None and high is not None
    unpriced = rows["step_ms"].notna() & rows[COST[0]].isna()
    among = " of those with a price" if unpriced.any() else ""
    words: Phrase = [f"Cheapest{among}: {_names(best['device'])}, USD ", low]
    if high != low:
        words += [" to ", high]
    return [*words, f" for a million {rows['unit'].iloc[0]}s."]


def _others(works: Iterable[pd.DataFrame]) -> Phrase:
    """In how many of the other workloads what holds."""
    counts: dict[str, list[str]] = {}
    for rows in works:
        counts.setdefault(_outcome(rows), []).append(str(rows["workload"].iloc[0]))
    words = [f"{outcome} in {_names(dict.fromkeys(names), 'and')}" for outcome, names in counts.items() if outcome]
    return [f"Elsewhere: {'; '.join(words)}."] if words else []


def _outcome(rows: pd.DataFrame) -> str:
    expected = rows[rows["evidence"] == FORECAST]
    if expected.empty:
        return ""
    if expected["host_decides"].any():
        return "the host decides"
    best = candidates(rows, *STEP)
    if (best["evidence"] == FORECAST).all():
        return f"{_names(best['device'])} fastest by forecast"
    return "no forecast is surely faster"


def _contradictions(board: pd.DataFrame) -> list[Phrase]:
    found: list[Phrase] = []
    for _, row in board[board["contradicts"].fillna(False)].iterrows():
        residual = cell_number(row, "residual")
        assert residual is not None
        what = f"{row['device']} contradicts its forecast on {row['workload']}: measured step time is "
        found.append([what, residual, " times the forecast, outside its interval. Trust what was measured."])
    return found


def _count(expected: pd.DataFrame) -> str:
    kinds = [name for kind, name in (("gpu", "GPUs"), ("tpu", "TPUs")) if (expected["kind"] == kind).any()]
    return f"{expected['device'].nunique()} forecast {' and '.join(kinds)}"


def _names(devices: Iterable[str], word: str = "or") -> str:
    """`T4, L4 or A10G`; of many the first few."""
    names = list(devices)
    if len(names) > NAMED:
        return f"{', '.join(names[: NAMED - 1])} {word} {len(names) - NAMED + 1} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"


def grid(board: pd.DataFrame) -> dict[str, Any]:
    """Columns and rows of the board; a cell is None where table `board` has no row for it."""
    measured = board.loc[board["evidence"] == MEASURED, "device"].drop_duplicates().tolist()
    place = board["step_ms"].groupby([board[name] for name in WORK], dropna=False).rank()
    rest = board[~board["device"].isin(measured)]
    order = place.loc[rest.index].groupby(rest["device"]).mean().sort_values(kind="stable", na_position="last")
    columns = [*measured, *order.index]
    works = board.groupby(WORK, dropna=False, sort=False)
    return {
        "columns": [_column(board[board["device"] == name]) for name in columns],
        "rows": [_row(rows, columns) for _, rows in works],
        "priced": bool(board[COST[0]].notna().any()),
        "wide": bool(board["wide"].fillna(False).any()),
        "host": bool(board["host_decides"].fillna(False).any()),
    }


def _column(rows: pd.DataFrame) -> dict[str, Any]:
    first = rows.iloc[0]
    priced = rows[rows["usd_per_hour"].notna()]
    measured = bool((rows["evidence"] == MEASURED).any())
    return {
        "device": first["device"],
        "kind": first["kind"],
        "evidence": MEASURED if measured else FORECAST,
        "hour": None if priced.empty else cell_number(priced.iloc[0], "usd_per_hour", price),
    }


def _row(rows: pd.DataFrame, columns: list[str]) -> dict[str, Any]:
    first = rows.iloc[0]
    shades = {name: _shades(rows[column], more) for name, column, more in SHADED}
    cells = {}
    for place, row in rows.iterrows():
        cells[row["device"]] = _cell(row, {name: shades[name].get(place) for name in shades})
    operation = first["unit"] in OPERATIONS
    details = [f"{'N' if operation else 'batch'} {first['batch']}"]
    details += [] if pd.isna(first["sequence_length"]) else [f"length {first['sequence_length']}"]
    details += [DETAILS[first["mode"]]] if first["mode"] in DETAILS else []
    unit = rows["unit"].dropna()
    return {
        "workload": first["workload"],
        "unit": f"{unit.iloc[0]}s" if len(unit) else "steps",
        "details": details,
        "host": bool(rows["host_decides"].fillna(False).any()),
        "cells": [cells.get(name) for name in columns],
    }


def _shades(values: pd.Series, more: bool) -> dict[Any, int]:
    """Per cent of colour from the worst, 0, to the best, 100, on a logarithmic scale."""
    logs = values[values > 0].map(math.log)
    if logs.empty:
        return {}
    spread = logs.max() - logs.min() or 1.0
    return {
        place: round(100 * ((log - logs.min()) if more else (logs.max() - log)) / spread) for place, log in logs.items()
    }


def _cell(row: pd.Series, shades: dict[str, int | None]) -> dict[str, Any]:
    ends = {name: [cell_number(row, each, compact) for each in columns] for name, columns in SHOWN.items()}
    return {
        "evidence": row["evidence"],
        "speed": ends["speed"][0],
        "speed_interval": _both(ends["speed"][1:]),
        "cost": ends["cost"][0],
        "cost_interval": _both(ends["cost"][1:]),
        "step": _ms(row, "step_ms"),
        "step_interval": _both([_ms(row, "low_ms"), _ms(row, "high_ms")]),
        "n": None if pd.isna(row["n"]) else int(row["n"]),
        "format": SHORT.get(row["precision"], row["precision"]),
        "wide": bool(row["wide"]) if pd.notna(row["wide"]) else False,
        "ratio": cell_number(row, "ratio"),
        "forecast": _ms(row, "forecast_ms"),
        "residual": cell_number(row, "residual"),
        "contradicts": bool(row["contradicts"]) if pd.notna(row["contradicts"]) else False,
        "note": "" if pd.isna(row["note"]) else str(row["note"]),
        **{f"{name}_shade": shade for name, shade in shades.items()},
    }


def _ms(row: pd.Series, column: str) -> Number | None:
    value = row[column]
    return None if pd.isna(value) else Number(float(value), seconds(float(value) / 1e3))


def _both(ends: list[Number | None]) -> list[Number] | None:
    found = [end for end in ends if end is not None]
    return found if len(found) == 2 else None
