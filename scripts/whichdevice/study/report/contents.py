"""Collect what the page shows as plain values for the templates, and write the report.

Costs and energy, limits, scaling and forecasts of other devices are sections made here.
"""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import number, percent, price, quality, seconds, size, two
from whichdevice.decide.rows import OPERATIONS
from whichdevice.forecast.joint import read_scorecard
from whichdevice.study.cells import repeat_failed, workflow_command
from whichdevice.study.figures import figure_facts, figure_names
from whichdevice.study.report.cells import cell_table, machine_cards, reproductions
from whichdevice.study.report.numbers import RULE, cell_number, interval, with_setting
from whichdevice.study.report.page import render
from whichdevice.study.report.verdict import BROKEN, first_screen
from whichdevice.study.results import NOTHING, StudyResults
from whichdevice.study.tables.base import device_name, length_words
from whichdevice.study.tables.comparisons import REPLICAS
from whichdevice.study.tables.measured import WORK, at_common_share, enough_repeats, without_rehearsals

SHEET = {"sheet_tflops": "TFLOP/s", "sheet_gbs": "GB/s"}
COST_UNITS = {"usd_per_million": "USD", "joules_per_million": "J"}
MUCH_BLUR = 0.02
WAITS = 0.05  # of a step: less is no waiting
PICTURES = ["speedups", "claims", "training_curves", "worth_it", "cold_start"]  # these first
CATEGORIES = ["Limits"]  # other figures have their own sections
MAX_LISTED = 200


def cost_section(study: StudyResults) -> dict[str, Any]:
    """Everything of the section; `rows` is empty where no device has a price or a meter."""
    return {
        "rows": list(_cost_rows(study.costs)),
        "prices": list(_prices(study)),
        "meters": list(_meters(study)),
        "pipelines": list(_pipelines(study)),
    }


def _cost_rows(costs: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Return each device's settings that take least money, then those that take least energy, by piece of work."""
    cells = at_common_share(without_rehearsals(costs))
    size = cells["batch_size"].where(cells["unit"].isin(OPERATIONS), 0)
    for _, work in cells.groupby([*(cells[name] for name in [*WORK, "model"]), size], dropna=False, sort=False):
        for quantity, n in (("usd_per_million", "n"), ("joules_per_million", "n_metered")):
            known = work[work[quantity].notna()]
            known = known[enough_repeats(known[n], known["device"])]
            least = known.loc[known.groupby("device", sort=False)[quantity].idxmin()]
            yield from (_cost_row(row, quantity, n, least[quantity].min()) for _, row in least.iterrows())


def _cell_words(row: pd.Series) -> str:
    size = {"product": "N{}", "gigabyte": "{} MiB"}.get(row["unit"], "b{}").format(row["batch_size"])
    return f"{row['device']} ({row['backend']}, {size})"


def _cost_row(row: pd.Series, quantity: str, n: str, lowest: float) -> dict[str, Any]:
    return {
        "what": COST_UNITS[quantity],
        "workload": row["workload"],
        "work": ", ".join([row["precision"], *length_words(row)]),
        "where": _cell_words(row),
        "value": cell_number(row, quantity),
        "beside": f"{row['unit']}s " + (interval(row[f"{quantity}_low"], row[f"{quantity}_high"]) or ""),
        "n": row[n],
        "times": f"×{number(row[quantity] / lowest)}" if row[quantity] > lowest else "lowest",
        "source": row["source"] if pd.notna(row["source"]) else "",
    }


def _prices(study: StudyResults) -> Iterator[str]:
    told_once = study.costs.drop_duplicates(["device", "price"])  # several where cards of several names ran
    for device, hour, texts in zip(*(told_once[name] for name in ("device", "usd_per_hour", "price")), strict=True):
        yield f"{device}: {texts}" if pd.isna(hour) else f"{device}: {price(hour)} USD an hour ({texts})"


def _meters(study: StudyResults) -> Iterator[str]:
    for device, rows in study.costs.groupby("device", sort=False):
        texts = "; ".join(dict.fromkeys(rows["meter"].dropna())) or "no meter"
        watts = rows["watts"].dropna()
        text = f"{device}: {texts}"
        if len(watts):
            ends = dict.fromkeys([number(watts.min()), number(watts.max())])
            text += f", {' to '.join(ends)} W over the steady state"
        blur = rows["joules_blur"].max()
        if blur > MUCH_BLUR:
            text += f"; its update time may hide up to {number(min(100, 100 * blur))} % of a reading"
            text += ": take more measure.seconds"
        yield text


def _pipelines(study: StudyResults) -> Iterator[str]:
    """Yield how long the batch of a step takes to be made ready, for each cell whose pipeline was timed apart."""
    for _, row in study.costs[study.costs["pipeline"].notna()].iterrows():
        share = row["pipeline_share"]
        takes = f"{seconds(row['pipeline_time'])} for the batch of a step, {two(100 * share)} % of the step"
        waits = f": the device waits for it {two(100 - 100 / share)} % of the time" if share > 1 + WAITS else ""
        yield f"{row['workload']}, {_cell_words(row)}: {takes}{waits}"


def forecast_section(study: StudyResults) -> dict[str, Any]:
    """Return rows of forecasts, and a line for steps without one; both empty where nothing was counted."""
    forecasts = study.forecasts
    known = forecasts["step_time"].notna()
    return {
        "rows": [_forecast_row(row) for _, row in forecasts[known].iterrows()],
        "missing": list(_without_forecast(forecasts[~known])),
    }


def how_good() -> dict[str, str]:
    """How far forecasts were from published times of models that the fit did not see: the worst of each software."""
    cards = [software["models"] for software in read_scorecard().values() if "models" in software]
    return {
        "rows": str(sum(int(card["rows"]) for card in cards)),
        "median": percent(max(card["median_error"] for card in cards)),
        "held": percent(min(card["held"] for card in cards)),
    }


def _forecast_row(row: pd.Series) -> dict[str, str]:
    letter = "N" if row["module"] == "matmul" else "b"
    work = ", ".join([f"{letter}{row['batch_size']}", *length_words(row)])
    return {
        "device": device_name(row),
        "step": f"{row['workload']} {row['precision']} {work}",
        "time": seconds(row["step_time"]),
        "interval": f"{seconds(row['step_time_low'])} – {seconds(row['step_time_high'])}",
        "throughput": "" if pd.isna(row["throughput"]) else f"{number(row['throughput'])} {row['unit']}/s",
        "residual": "" if pd.isna(row["residual"]) else f"×{number(row['residual'])}",
        "memory": f"{_gib(row['memory_needed'])} of {_gib(row['memory_available'])}",
        "fits": "fits" if row["status"] == "ok" else "does not fit",
        "largest": "" if pd.isna(row["largest_batch"]) else f"{row['largest_batch']:,}",
        "price": "" if pd.isna(row["usd_per_hour"]) else price(row["usd_per_hour"]),
        "note": "; ".join(_notes(row)),
    }


def _notes(row: pd.Series) -> list[str]:
    """Return in what the step differs from the device's, and what makes its interval wider."""
    step = [] if pd.isna(row["step_notes"]) else json.loads(row["step_notes"])
    return [*step, *([] if pd.isna(row["note"]) else [str(row["note"])])]


def _gib(value: float) -> str:
    """Bytes in the binary unit that suits them, or a dash where they are unknown."""
    return "–" if pd.isna(value) else size(value)


def _without_forecast(rows: pd.DataFrame) -> Iterator[str]:
    """One line per reason."""
    for reason, group in rows.groupby(rows["reason"].fillna("no reason given"), sort=False):
        yield f"{len(group)} programs on {', '.join(group['device'].dropna().unique())}: {reason}"


def limit_rows(study: StudyResults) -> list[dict[str, Any]]:
    """Every device, backend and number format with a measured product or stream."""
    return [_limit_row(row) for _, row in study.limits.iterrows()]


def _limit_row(row: pd.Series) -> dict[str, Any]:
    sheet = row["sheet_source"] if pd.notna(row["sheet_source"]) else None  # without a row: why it is not taken
    if pd.notna(row["sheet"]):
        texts = [f"{number(row[name])} {unit}" for name, unit in SHEET.items() if pd.notna(row[name])]
        sheet = f"{row['sheet']}: {', '.join(texts) or 'no peak in this format'}"
    return {
        **{name: row[name] for name in ("device", "backend", "product")},
        "device_name": row["device_name"] if pd.notna(row["device_name"]) else "",
        "peak": cell_number(row, "peak_tflops"),
        "peak_interval": interval(row["peak_tflops_low"], row["peak_tflops_high"]),
        "peak_size": row["peak_size"] if pd.notna(row["peak_size"]) else "–",
        "bandwidth": cell_number(row, "bandwidth_gbs"),
        "bandwidth_interval": interval(row["bandwidth_gbs_low"], row["bandwidth_gbs_high"]),
        "ridge": cell_number(row, "ridge"),
        "sheet": sheet or "none named or recognised",
        "of_sheet": cell_number(row, "peak_of_sheet", percent),
        "note": row["note"] if pd.notna(row["note"]) else None,
    }


def scaling_rows(study: StudyResults) -> list[dict[str, Any]]:
    """Every comparison of more replicas with fewer."""
    return [_scaling_row(row) for _, row in study.comparisons[study.comparisons["axis"] == REPLICAS].iterrows()]


def _scaling_row(row: pd.Series) -> dict[str, Any]:
    sizes = dict.fromkeys([row["baseline_batch_size"], row["batch_size"]])
    ends = (row[f"ratio{end}"] * row["baseline_replicas"] / row["replicas"] for end in ("", "_low", "_high"))
    efficiency, low, high = ends
    return {
        **{name: row[name] for name in ("workload", "n")},
        "note": with_setting("" if pd.isna(row["note"]) else row["note"], row) or None,
        "devices": f"{row['baseline_device']} → {row['device']}",
        "settings": " · ".join([row["backend"], row["precision"]]),
        "replicas": f"{row['baseline']} → {row['compared']}",
        "batch_size": " → ".join(map(str, sizes)),
        "ratio": cell_number(row, "ratio"),
        "ratio_interval": interval(row["ratio_low"], row["ratio_high"]),
        "efficiency": cell_number({"efficiency": efficiency}, "efficiency"),
        "efficiency_interval": interval(low, high),
    }


def contents(study: StudyResults, figures_folder: Path, page: Path) -> dict[str, Any]:
    """Everything that the template of `page` needs."""
    drawn = list(_figures(figures_folder, workflow_command(study.study, "figures")))
    figures = [figure for figure in drawn if not figure["blank"]]
    shown = _shown(study, figures)
    blank = [f"“{figure['title']}”" for figure in drawn if figure["blank"] and shown.get(figure["category"], True)]
    kinds = dict.fromkeys(device.kind for device in study.study.devices.values())
    cells, cards = cell_table(study), machine_cards(study.runs)
    how = reproductions(study, page, {key: card.number for key, card in cards.items()})
    for row in cells["rows"]:
        if row.get("key") in how:
            row["card"] = how[row["key"]]
    return {
        "study": study.study,
        "rule": RULE,
        "scaling": scaling_rows(study),
        "costs": cost_section(study),
        "limits": limit_rows(study),
        "first": first_screen(study),
        "cells": cells,
        "figures": figures,
        "shown": shown,
        "not_shown": [*(name for name in shown if not shown[name]), *blank],
        "how_good": how_good(),
        "categories": CATEGORIES,
        "forecasts": forecast_section(study),
        "published": published_rows(study),
        "cards": list(cards.values()),
        "broken": _broken(study.runs),
        "retry": repeat_failed(study.study),
        "config": yaml.safe_dump(study.study.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
        "again": [workflow_command(study.study, kind, again=True) for kind in kinds],
        "make": {target: workflow_command(study.study, target) for target in ("all", "compiled")},
        "updated": study.runs["started"].dropna().max() if study.runs["started"].notna().any() else None,
    }


def _shown(study: StudyResults, figures: list[dict[str, Any]]) -> dict[str, bool]:
    """The sections that need data, and whether each has some."""
    drawn = {figure["category"] for figure in figures}
    costs = study.costs[["usd_per_million", "joules_per_million", "pipeline"]]
    return {
        "Cost and energy": bool(costs.notna().any(axis=None)),
        "Limits": "Limits" in drawn or not study.limits.empty,
        "Forecasts": not study.forecasts.empty,
        "Scaling": bool((study.comparisons["axis"] == REPLICAS).any()),
    }


def _figures(folder: Path, command: str) -> Iterator[dict[str, Any]]:
    """Each figure as a data address: nothing in it can run or reach out, and no two share identifiers."""
    for name in sorted(figure_names(), key=lambda name: [*PICTURES, name].index(name)):
        facts = figure_facts(name)
        path = folder / f"{name}.svg"
        try:
            data = base64.b64encode(path.read_bytes()).decode("ascii")
        except OSError as error:
            raise StudyError(f"no figure {path}; make it: {command}") from error
        address = f"data:image/svg+xml;base64,{data}"
        yield {"name": name, **facts._asdict(), "address": address, "blank": NOTHING.encode() in path.read_bytes()}


def published_rows(study: StudyResults) -> list[dict[str, Any]]:
    """Each published figure beside the forecast on the same device, and what was measured here of the same work."""
    shown = study.published["published_device"].notna() | (study.published["evidence"] == "measured")
    return [_published(row) for _, row in study.published[shown].iterrows()]


def _published(row: pd.Series) -> dict[str, Any]:
    """Return the texts of a row, empty where a number is missing."""
    letter = "N" if row["workload"] == "matmul" else "b"
    size = "" if pd.isna(row["published_batch_size"]) else f" {letter}{row['published_batch_size']}"
    fine = row["unit"] == "fraction" or "loss" in row["metric"]
    written = quality if fine else number
    known = pd.notna(row["ours"])
    return {
        **{name: "" if pd.isna(row[name]) else row[name] for name in ("source", "date", "caveat", "cause")},
        "what": f"{row['workload']}{size}: {str(row['metric']).replace('_', ' ')}",
        "their_device": "" if pd.isna(row["published_device"]) else row["published_device"],
        "value": _amount(row["value"], row["unit"], written),
        "disputed": row["standing"] == "disputed",
        "ours": _amount(row["ours"], row["unit"], written),
        "ends": interval(row["ours_low"], row["ours_high"], seconds if row["unit"] == "s" else number) or "",
        "where": f"{row['device']}, {row['evidence']} in {row['precision'].replace('_', ' ')}" if known else "",
        "ratio": f"×{number(row['ratio'])}" if pd.notna(row["ratio"]) else "",
    }


def _amount(value: Any, unit: Any, written: Callable[[float], str]) -> str:
    if pd.isna(value):
        return ""
    return seconds(value) if unit == "s" else f"{written(value)} {'' if pd.isna(unit) else unit}".strip()


def _broken(runs: pd.DataFrame) -> dict[str, Any]:
    bad = runs[runs["status"].isin([*BROKEN, "refused"])]
    rows = [
        (row["run"], str(row["status"]).replace("_", " "), row["reason"]) for _, row in bad.head(MAX_LISTED).iterrows()
    ]
    refused = int((bad["status"] == "refused").sum())
    tried = int((runs["status"] != "not_measured").sum())
    return {"rows": rows, "count": len(bad), "failed": len(bad) - refused, "refused": refused, "tried": tried}


def write_report(config_path: Path, tables_folder: Path, figures_folder: Path, out_html: Path) -> None:
    """Write the report of a study, one file that needs nothing else. Raises StudyError naming what is missing."""
    values = contents(StudyResults(config_path, tables_folder), Path(figures_folder), Path(out_html))
    render("template.html", Path(out_html), **values)
