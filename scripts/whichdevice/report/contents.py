"""What the page shows, as plain values for the template."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from whichdevice.errors import StudyError
from whichdevice.figures import FEW_POINTS, figure_facts, figure_names
from whichdevice.report.advice import advice, uncompared
from whichdevice.report.audit import audit_section
from whichdevice.report.cells import cell_table
from whichdevice.report.compared_with import compared_with
from whichdevice.report.costs import cost_section
from whichdevice.report.first_screen import grid, headline
from whichdevice.report.forecasts import forecast_section, how_good
from whichdevice.report.headline import BROKEN, answers, statements
from whichdevice.report.inference import inference_rows
from whichdevice.report.lead import compared_words, verdict_section
from whichdevice.report.limits import limit_rows
from whichdevice.report.machines import machine_cards
from whichdevice.report.numbers import number, share
from whichdevice.report.reproduce import reproductions
from whichdevice.report.rules_of_thumb import rules_of_thumb
from whichdevice.report.scaling import scaling_rows
from whichdevice.report.verdicts import RULE
from whichdevice.results import StudyResults
from whichdevice.tables.make import TABLES
from whichdevice.workflow_command import repeat_failed, workflow_command

CATEGORIES = ["Speed", "Limits", "Learning"]  # figures of other ones stand in sections of their own
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
