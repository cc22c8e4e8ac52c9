"""Collect what the page shows as plain values for the templates, and write the report.

Costs and energy, limits, scaling and forecasts of other devices are sections made here.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import number, percent, price, quality, seconds, size, two
from whichdevice.forecast.joint import read_scorecard
from whichdevice.study.figures import figure_facts, figure_names
from whichdevice.study.report.cells import cell_table, machine_cards, reproductions
from whichdevice.study.report.compare import compared_with
from whichdevice.study.report.numbers import (
    RULE,
    cell_number,
    interval,
    verdict_words,
    with_setting,
)
from whichdevice.study.report.page import render
from whichdevice.study.report.verdict import BROKEN, first_screen
from whichdevice.study.results import NOTHING, StudyResults
from whichdevice.study.study_cells import repeat_failed, workflow_command
from whichdevice.study.tables.base import device_name, length_words, share_words
from whichdevice.study.tables.costs import JOULES, LESS, MORE, USD
from whichdevice.study.tables.measured import OPERATIONS, WORK, is_rehearsal

SHEET = {"sheet_tflops": "TFLOP/s", "sheet_gbs": "GB/s"}
COST_UNITS = {USD: "USD", JOULES: "J"}
MUCH_BLUR = 0.02
WAITS = 0.05  # of a step: less is no waiting
WRITTEN = {"epochs": number, "seconds": seconds, "seconds_from_start": seconds, "usd": number, "joules": number}
PICTURES = ["speedups", "worth_it", "throughput", "training_curves", "cold_start", "claims"]  # these first
CATEGORIES = ["Limits"]  # other figures have their own sections
MAX_LISTED = 200


def cost_section(study: StudyResults) -> dict[str, Any]:
    """Everything of the section; `rows` is empty where no device has a price or a meter."""
    return {
        "rows": [_cost_row(row) for rows in _together(study.cost_choices) for _, row in rows.iterrows()],
        "prices": list(_prices(study)),
        "meters": list(_meters(study)),
        "pipelines": list(_pipelines(study)),
        "targets": [_target_row(row) for _, row in study.time_to_target.iterrows() if pd.notna(row["target"])],
        "untargeted": list(_untargeted(study.time_to_target)),
    }


def _together(choices: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each piece of work, money before energy."""
    size = choices["batch_size"].where(choices["unit"].isin(OPERATIONS), 0)
    for _, work in choices.groupby([*(choices[name] for name in [*WORK, "model"]), size], dropna=False, sort=False):
        yield from (rows for _, rows in work.groupby("quantity", sort=False))


def _cell_words(row: pd.Series) -> str:
    size = {"product": "N{}", "gigabyte": "{} MiB"}.get(row["unit"], "b{}").format(row["batch_size"])
    return f"{row['device']} ({row['backend']}, {size})"


def _cost_row(row: pd.Series) -> dict[str, Any]:
    words = {MORE: "more", LESS: "less"}
    lowest = row["device"] == row["lowest"]
    return {
        "what": COST_UNITS[row["quantity"]],
        "workload": row["workload"],
        "work": ", ".join([row["precision"], *length_words(row)]),
        "where": _cell_words(row),
        "value": cell_number(row, "value"),
        "beside": f"{row['unit']}s " + (interval(row["value_low"], row["value_high"]) or ""),
        "n": row["n_value"],
        "ratio": cell_number(row, "ratio"),
        "ratio_interval": interval(row["ratio_low"], row["ratio_high"]),
        "verdict": "lowest"
        if lowest
        else with_setting(words.get(row["verdict"], verdict_words(row)), row)
        if pd.notna(row["ratio"])
        else "–",
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
    """How long the batch of a step takes to be made ready, of each cell whose pipeline was timed by itself."""
    for _, row in study.costs[study.costs["pipeline"].notna()].iterrows():
        share, whose = row["pipeline_share"], "its own"
        takes = f"{seconds(row['pipeline_time'])} for the batch of a step, {two(100 * share)} % of the step"
        waits = f": the device waits for it {two(100 - 100 / share)} % of the time" if share > 1 + WAITS else ""
        yield f"{row['workload']}, {_cell_words(row)}, {whose}: {takes}{waits}"


def _target_row(row: pd.Series) -> dict[str, Any]:
    better = "≥" if row["better"] == "higher" else "≤"
    or_more = " or more" if row["n_timed_out"] else ""
    kind, loss = ("validation" if "validation" in row["quantity"] else "training"), "loss" in row["quantity"]
    return {
        "workload": row["workload"],
        "where": f"{row['device']} b{row['batch_size']}",
        "settings": " · ".join([row["backend"], row["precision"], *share_words(row)]),
        "target": f"{kind} {'loss' if loss else row['metric']} {better} {number(row['target'])}",
        "target_source": row["target_source"],
        "reached": f"{row['n_reached']} of {row['n']}",
        "note": f"best {quality(row['best'])} in {row['given_epochs']}{or_more} epochs"
        if row["n_reached"] < row["n"]
        else "",
        "disturbed": ", ".join(
            f"{row[column]} {word}"
            for column, word in (("n_disturbed", "disturbed"), ("n_timed_out", "ran out of time"))
            if row[column]
        ),
        "seeds": "" if row["n_seeds"] == row["n"] else f"{row['n_seeds']} different seeds",
        **{name: _taken(row, name, written) for name, written in WRITTEN.items()},
        "source": row["source"] if pd.notna(row["source"]) else "",
    }


def _taken(row: pd.Series, name: str, written: Any) -> tuple[str, str]:
    """A mean with its interval where every run reached the target; else the median, which may be never."""
    if pd.notna(row[name]):
        return written(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"], written) or ""
    median = row[f"{name}_median"]
    if pd.isna(median):
        return "–", ""
    return ("never", "median") if np.isinf(median) else (written(median), "median")


def _untargeted(table: pd.DataFrame) -> Iterator[str]:
    """Workloads without a target, with what to do about it."""
    for reason, rows in table[table["target"].isna()].groupby("target_source", sort=False):
        yield f"{', '.join(rows['workload'].unique())}: {reason}"


def forecast_section(study: StudyResults) -> dict[str, Any]:
    """Return rows of forecasts, and a line for programs without one; both empty where nothing was compiled."""
    forecasts = study.asked_forecasts
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
    least = "over " if row["memory_is_lower_bound"] is True else ""
    return {
        "device": device_name(row),
        "step": f"{row['workload']} {row['precision']} {work}",
        "time": seconds(row["step_time"]),
        "interval": f"{seconds(row['step_time_low'])} – {seconds(row['step_time_high'])}",
        "throughput": "" if pd.isna(row["throughput"]) else f"{number(row['throughput'])} {row['unit']}/s",
        "residual": "" if pd.isna(row["residual"]) else f"×{number(row['residual'])}",
        "memory": f"{least}{_gib(row['memory_needed'])} of {_gib(row['memory_available'])}",
        "fits": "fits" if row["status"] == "ok" else "does not fit",
        "largest": _largest(row),
        "price": "" if pd.isna(row["usd_per_hour"]) else price(row["usd_per_hour"]),
        "note": "; ".join(_notes(row)),
    }


def _notes(row: pd.Series) -> list[str]:
    """Return in what the step differs from the device's, and what makes its interval wider."""
    step = [] if pd.isna(row["step_notes"]) else json.loads(row["step_notes"])
    return [*step, *([] if pd.isna(row["note"]) else [str(row["note"])])]


def _largest(row: pd.Series) -> str:
    if pd.isna(row["largest_batch"]):
        return ""
    return f"{row['largest_batch']:,}{'' if pd.isna(row['largest_batch_reason']) else ' or more'}"


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
    """Every row, rehearsals on virtual replicas last and without an efficiency."""
    rows = study.scaling.assign(rehearsal=is_rehearsal(study.scaling)).sort_values("rehearsal", kind="stable")
    return [_scaling_row(row) for _, row in rows.iterrows()]


def _scaling_row(row: pd.Series) -> dict[str, Any]:
    sizes = dict.fromkeys([row["baseline_batch_size"], row["batch_size"]])
    return {
        **{name: row[name] for name in ("workload", "scaling", "n")},
        "note": with_setting("" if pd.isna(row["note"]) else row["note"], row) or None,
        "devices": f"{row['baseline']} → {row['device']}",
        "settings": " · ".join([row["backend"], row["precision"]]),
        "replicas": f"{row['baseline_replicas']} → {row['replicas']}",
        "batch_size": " → ".join(map(str, sizes)),
        "ratio": cell_number(row, "ratio"),
        "ratio_interval": interval(row["ratio_low"], row["ratio_high"]),
        "efficiency": None if row["rehearsal"] else cell_number(row, "efficiency"),
        "efficiency_interval": interval(row["efficiency_low"], row["efficiency_high"]),
    }


def contents(study: StudyResults, figures_folder: Path, page: Path) -> dict[str, Any]:
    """Everything that the template of `page` needs."""
    drawn = list(_figures(figures_folder, workflow_command(study.study, "figures")))
    figures = [figure for figure in drawn if not figure["blank"]]
    shown = _shown(study, figures)
    blank = [f"“{figure['title']}”" for figure in drawn if figure["blank"] and shown.get(figure["category"], True)]
    kinds = dict.fromkeys(device.kind for device in study.study.devices.values())
    cells, cards, other = cell_table(study), machine_cards(study.runs), compared_with(study, page)
    how = reproductions(study, page, {key: card.number for key, card in cards.items()})
    for row in cells["rows"]:
        if row.get("key") in how:
            row["card"] = how[row["key"]] | {"compared": (other or {"cells": {}})["cells"].get(row["key"])}
    return {
        "study": study.study,
        "rule": RULE,
        "scaling": scaling_rows(study),
        "costs": cost_section(study),
        "limits": limit_rows(study),
        "first": first_screen(study),
        "compared_with": other,
        "cells": cells,
        "figures": figures,
        "shown": shown,
        "not_shown": [*(name for name in shown if not shown[name]), *blank],
        "how_good": how_good(),
        "categories": CATEGORIES,
        "forecasts": forecast_section(study),
        "published": [_published(row) for _, row in study.published.iterrows()],
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
    return {
        "Cost and energy": bool(study.cost_choices["value"].notna().any() or study.costs["pipeline"].notna().any()),
        "Limits": "Limits" in drawn or not study.limits.empty,
        "Forecasts": not study.forecasts.empty,
        "Scaling": not study.scaling.empty,
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


def _published(row: pd.Series) -> dict[str, Any]:
    """Empty texts where a number is missing; the ratio is given only for like things."""
    size = "" if pd.isna(row["published_batch_size"]) else f" b{row['published_batch_size']}"
    texts = {name: "" if pd.isna(row[name]) else row[name] for name in ("source", "date", "unit", "caveat", "note")}
    written = quality if row["unit"] == "fraction" or "loss" in row["metric"] else number
    where = f"{row['device']}, {row['precision']}, b{row['batch_size']}" if pd.notna(row["measured"]) else ""
    return texts | {
        "what": f"{row['published_workload']}{size}: {str(row['metric']).replace('_', ' ')}",
        "their_device": row["published_device"],
        "value": "" if pd.isna(row["value"]) else written(row["value"]),
        "disputed": row["standing"] == "disputed",
        "measured": "" if pd.isna(row["measured"]) else written(row["measured"]),
        "where": where,
        "n": "" if pd.isna(row["n"]) else f"n = {row['n']}",
        "ratio": "" if pd.isna(row["ratio"]) else f"×{number(row['ratio'])}",
    }


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
