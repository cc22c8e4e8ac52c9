"""Collect what the page shows as plain values for the templates, and write the report."""

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from whichdevice.errors import StudyError
from whichdevice.figures import FEW_POINTS, figure_facts, figure_names
from whichdevice.report.advice import advice, rules_of_thumb, uncompared
from whichdevice.report.cells import cell_table, machine_cards, reproductions
from whichdevice.report.compare import compared_with
from whichdevice.report.costs import cost_section
from whichdevice.report.first_screen import grid, headline
from whichdevice.report.numbers import RULE, cell_number, interval, number, percent, seconds, share, with_setting
from whichdevice.report.other_evidence import audit_section, forecast_section, how_good
from whichdevice.report.page import render, render_markdown, table_library
from whichdevice.report.statements import BROKEN, answers, statements
from whichdevice.report.verdict import compared_words, verdict_section
from whichdevice.results import StudyResults
from whichdevice.study_runs import repeat_failed, workflow_command
from whichdevice.tables.base import length_words
from whichdevice.tables.make import TABLES
from whichdevice.tables.measured import is_rehearsal


def limit_rows(study: StudyResults) -> list[dict[str, Any]]:
    """Every device, backend and number format with a measured product or stream."""
    return [_limit_row(row) for _, row in study.limits.iterrows()]


def utilisation(row: pd.Series) -> dict[str, Any]:
    """Return model FLOP utilisation against the measured peak and against the sheet's."""
    sheet = None if pd.isna(row["mfu_sheet"]) else f"{percent(row['mfu_sheet'])} of sheet"
    return {"mfu": cell_number(row, "mfu", percent), "mfu_sheet": sheet}


def _limit_row(row: pd.Series) -> dict[str, Any]:
    sheet = row["sheet_source"] if pd.notna(row["sheet_source"]) else None  # without a row: why it is not taken
    if pd.notna(row["sheet"]):
        told = [f"{number(row[name])} {unit}" for name, unit in SHEET.items() if pd.notna(row[name])]
        sheet = f"{row['sheet']}: {', '.join(told) or 'no peak in this format'}"
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


SHEET = {"sheet_tflops": "TFLOP/s", "sheet_gbs": "GB/s"}


def scaling_rows(study: StudyResults) -> list[dict[str, Any]]:
    """Every row, rehearsals on virtual replicas last and without an efficiency."""
    rows = study.scaling.assign(rehearsal=is_rehearsal(study.scaling)).sort_values("rehearsal", kind="stable")
    return [_scaling_row(row) for _, row in rows.iterrows()]


def _scaling_row(row: pd.Series) -> dict[str, Any]:
    sizes = dict.fromkeys([row["baseline_batch_size"], row["batch_size"]])
    loop = [] if row["loop"] == "epoch" else [f"loop {row['loop']}"]
    return {
        **{name: row[name] for name in ("workload", "scaling", "n")},
        "note": with_setting("" if pd.isna(row["note"]) else row["note"], row) or None,
        "devices": f"{row['baseline']} → {row['device']}",
        "settings": " · ".join([row["backend"], row["precision"], *loop]),
        "replicas": f"{row['baseline_replicas']} → {row['replicas']}",
        "batch_size": " → ".join(map(str, sizes)),
        "ratio": cell_number(row, "ratio"),
        "ratio_interval": interval(row["ratio_low"], row["ratio_high"]),
        "efficiency": None if row["rehearsal"] else cell_number(row, "efficiency"),
        "efficiency_interval": interval(row["efficiency_low"], row["efficiency_high"]),
    }


def inference_rows(study: StudyResults) -> list[dict[str, Any]]:
    """A row for each measured cell of mode predict; empty where there is none."""
    return [_inference_row(row) for _, row in study.inference.iterrows()]


def _inference_row(row: pd.Series) -> dict[str, Any]:
    settings = [row["backend"], row["precision"], *length_words(row), *(["fit"] if row["loop"] == "fit" else [])]
    return {
        "workload": row["workload"],
        "device": row["device"],
        "settings": " · ".join(map(str, settings)),
        "batch_size": f"{row['batch_size']}",
        "p50": _milliseconds(row["latency_p50"]),
        "p50_interval": interval(row["latency_p50_low"], row["latency_p50_high"], _milliseconds),
        "p99": _milliseconds(row["latency_p99"]),
        "throughput": number(row["throughput"]),
        "throughput_interval": interval(row["throughput_low"], row["throughput_high"]),
        "first": _known(row["first_step"]),
        "n": f"{row['n_timed']}",
    }


def _milliseconds(value: float) -> str:
    return _known(value / 1e3)


def _known(value: float) -> str:
    return "–" if pd.isna(value) else seconds(value)


CATEGORIES = ["Speed", "Limits", "Learning"]  # other figures have their own sections
MOST_LISTED = 200


def contents(study: StudyResults, figures_folder: Path, page: Path) -> dict[str, Any]:
    """Everything that the template of `page` needs."""
    drawn = list(_figures(figures_folder, workflow_command(study.study, "figures")))
    shown = _shown(study, [figure for figure in drawn if not figure["few"]])
    few = [f"“{figure['title']}”" for figure in drawn if figure["few"] and shown.get(figure["category"], True)]
    kinds = dict.fromkeys(device.kind for device in study.study.devices.values())
    cells, cards, other = cell_table(study), machine_cards(study.runs), compared_with(study, page)
    how = reproductions(study, page, {key: card.number for key, card in cards.items()})
    for row in cells["rows"]:
        if row.get("key") in how:
            row["card"] = how[row["key"]] | {"compared": (other or {"cells": {}})["cells"].get(row["key"])}
    return {
        "study": study.study,
        "statements": statements(study),
        "answers": answers(study),
        "compared": not study.speedups.empty,
        "rule": RULE,
        "advice": advice(study),
        "uncompared": uncompared(study),
        "rules_of_thumb": rules_of_thumb(study),
        "swept": bool(study.crossover["sizes"].str.contains(" ").any()),  # two devices at two sizes or more
        "scaling": scaling_rows(study),
        "inference": inference_rows(study),
        "costs": cost_section(study),
        "limits": limit_rows(study),
        "first": {"headline": headline(study.board, compared_words(study)), "grid": grid(study.board)},
        "verdict": verdict_section(study),
        "compared_with": other,
        "cells": cells,
        "figures": [figure for figure in drawn if not figure["few"]],
        "shown": shown,
        "not_shown": [*(name for name in shown if not shown[name]), *few],
        "how_good": how_good(),
        "categories": CATEGORIES,
        "forecasts": forecast_section(study),
        "audit": audit_section(study),
        "published": [_published(row) for _, row in study.published.iterrows()],
        "cards": list(cards.values()),
        "broken": _broken(study.runs),
        "left_out": list(study.damaged_artefacts().values())[:MOST_LISTED],
        "retry": repeat_failed(study.study),
        "config": yaml.safe_dump(study.study.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
        "again": [workflow_command(study.study, kind, "--forcerun measure") for kind in kinds],
        "make": {target: workflow_command(study.study, target) for target in ("all", "compiled")},
        "columns": {name: [(column, *about) for column, about in columns.items()] for name, columns in TABLES.items()},
        "updated": study.runs["started"].dropna().max() if study.runs["started"].notna().any() else None,
    }


def _shown(study: StudyResults, figures: list[dict[str, Any]]) -> dict[str, bool]:
    """The sections that need data, and whether each has some."""
    drawn = {figure["category"] for figure in figures}
    return {
        "Cost and energy": "Cost" in drawn or bool(study.cost_choices["value"].notna().any()),
        "Speed": "Speed" in drawn,
        "Limits": "Limits" in drawn or not study.limits.empty,
        "Learning": "Learning" in drawn or bool(study.damaged_artefacts()),
        "Forecasts": not study.forecasts.empty,
        "Scaling": not study.scaling.empty,
        "Inference": not study.inference.empty,
    }


def _figures(folder: Path, command: str) -> Iterator[dict[str, Any]]:
    """Each figure as a data address: nothing in it can run or reach out, and no two share identifiers."""
    for name in figure_names():
        facts = figure_facts(name)
        path = folder / f"{name}.svg"
        try:
            data = base64.b64encode(path.read_bytes()).decode("ascii")
        except OSError as error:
            raise StudyError(f"no figure {path}; make it: {command}") from error
        address = f"data:image/svg+xml;base64,{data}"
        yield {"name": name, **facts._asdict(), "address": address, "few": FEW_POINTS.encode() in path.read_bytes()}


def _published(row: pd.Series) -> dict[str, Any]:
    """Empty texts where a number is missing; the ratio is given only for like things."""
    size = "" if pd.isna(row["published_batch_size"]) else f" b{row['published_batch_size']}"
    told = {name: "" if pd.isna(row[name]) else row[name] for name in ("source", "date", "unit", "caveat", "note")}
    written = share if row["unit"] == "fraction" or "loss" in row["metric"] else number
    where = f"{row['device']}, {row['precision']}, b{row['batch_size']}" if pd.notna(row["measured"]) else ""
    return told | {
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
        (row["run"], str(row["status"]).replace("_", " "), row["reason"]) for _, row in bad.head(MOST_LISTED).iterrows()
    ]
    refused = int((bad["status"] == "refused").sum())
    tried = int((runs["status"] != "not_measured").sum())
    return {"rows": rows, "count": len(bad), "failed": len(bad) - refused, "refused": refused, "tried": tried}


MOST_ROWS = 400  # a code host shows no larger page


def write_report(config_path: Path, tables_folder: Path, figures_folder: Path, out_html: Path) -> None:
    """Write the report of a study: one file of HTML that needs nothing else, and the same as Markdown.

    Raises StudyError naming what is missing.
    """
    out_html = Path(out_html)
    found = contents(StudyResults(config_path, tables_folder), Path(figures_folder), out_html)
    folder = Path(os.path.relpath(Path(figures_folder).absolute(), out_html.absolute().parent)).as_posix()
    commands = "\n".join(found["again"])
    render_markdown(
        "report.md.jinja", out_html.with_suffix(".md"), folder=folder, commands=commands, most=MOST_ROWS, **found
    )
    render("template.html", out_html, library=table_library(), **found)
