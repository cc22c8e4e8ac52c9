"""What the page shows, as plain values for the template."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from whichdevice.errors import StudyError
from whichdevice.figures.registry import figure_facts, figure_names
from whichdevice.figures.results import StudyResults
from whichdevice.report.advice import advice, uncompared
from whichdevice.report.compiled import compiled_section
from whichdevice.report.costs import cost_section
from whichdevice.report.headline import BROKEN, RETRY, answers, statements
from whichdevice.report.limits import limit_rows, utilisation
from whichdevice.report.numbers import cell_number, interval, number, seconds, share
from whichdevice.report.rules_of_thumb import rules_of_thumb
from whichdevice.report.scaling import scaling_rows
from whichdevice.report.verdicts import RULE
from whichdevice.tables.write import TABLES

CATEGORIES = ["Speed", "Limits", "Learning"]  # figures of other ones stand in sections of their own
MOST_LISTED = 200
CARD = {
    "device": "Device",
    "device_name": "Device name",
    "device_count": "Devices used",
    "cpu": "Processor",
    "threads": "Threads",
    "host_memory": "Memory",
    "operating_system": "Operating system",
    "driver": "Driver",
    "python": "Python",
    "versions": "Libraries",
    "flags": "Settings",
    "meter": "Energy meter",
    "git_commit": "Commit",
    "code_hash": "Measuring code",
}


def contents(study: StudyResults, figures_folder: Path) -> dict[str, Any]:
    """Everything that the template needs."""
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
        "costs": cost_section(study),
        "limits": limit_rows(study),
        "cells": [_cell(row) for _, row in study.summary.iterrows() if not _is_absent(row)],
        "absent": list(_absent(study.summary)),
        "figures": list(_figures(figures_folder)),
        "categories": CATEGORIES,
        "compiled": compiled_section(study),
        "published": [_published(row) for _, row in study.published.iterrows()],
        "cards": list(_cards(study.runs)),
        "broken": _broken(study.runs),
        "retry": RETRY,
        "config": yaml.safe_dump(study.study.model_dump(mode="json"), sort_keys=False, allow_unicode=True),
        "targets": list(dict.fromkeys(device.kind for device in study.study.devices.values())),
        "columns": {name: [(column, *about) for column, about in columns.items()] for name, columns in TABLES.items()},
        "updated": study.runs["started"].dropna().max() if study.runs["started"].notna().any() else None,
    }


def _is_absent(row: pd.Series) -> bool:
    return str(row["status"]).startswith("not measured")


def _absent(summary: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Cells that nobody measured, one entry for each device and reason."""
    missing = summary[summary["status"].str.startswith("not measured")]
    for (device, status), rows in missing.groupby(["device", "status"], sort=False):
        names = [f"{row['workload']} {_settings(row)} b{row['batch_size']}" for _, row in rows.iterrows()]
        yield {"device": device, "status": status, "count": len(rows), "names": names}


def _settings(row: pd.Series) -> str:
    extras = [f"{row['fraction'] * 100:.3g} % of data"] if row["fraction"] != 1 else []
    extras += [f"loop {row['loop']}"] if row["loop"] != "epoch" else []
    extras += [f"length {row['steps_per_sequence']}"] if pd.notna(row["steps_per_sequence"]) else []
    return " · ".join([row["backend"], row["precision"], *extras])


def _cell(row: pd.Series) -> dict[str, Any]:
    quality = "validation_metric" if pd.notna(row["validation_metric"]) else "validation_loss"
    cold = [row[name] for name in ("start", "load", "build", "first_step")]
    return {
        "device": row["device"],
        "workload": row["workload"],
        "settings": _settings(row),
        "emulated": row["emulated"] if pd.notna(row["emulated"]) else None,
        "batch_size": row["batch_size"],
        "status": row["status"],
        "measured": bool(row["n_ok"] > 0),
        "n": f"{row['n_ok']} of {row['n']}",
        "disturbed": int(row["n_disturbed"]) if pd.notna(row["n_disturbed"]) else 0,
        "trending": int(row["n_trending"]) if pd.notna(row["n_trending"]) else 0,
        "noise": _noise(row),
        "throughput": cell_number(row, "throughput"),
        "throughput_interval": interval(row["throughput_low"], row["throughput_high"]),
        "unit": f"{row['unit']}s/s" if pd.notna(row["unit"]) else "",
        "step_time": cell_number(row, "step_time", seconds),
        "step_time_interval": interval(row["step_time_low"], row["step_time_high"], seconds),
        "tflops": cell_number(row, "tflops"),
        **utilisation(row),
        "epoch_time": cell_number(row, "epoch_time", seconds),
        "learned_epoch_time": cell_number(row, "learned_epoch_time", seconds),
        "quality": cell_number(row, quality, share),
        "quality_name": "validation loss" if quality == "validation_loss" else f"validation {row['metric']}",
        "learned_epochs": row["learned_epochs"] if pd.notna(row["learned_epochs"]) else None,
        "first_step": cell_number(row, "first_step", seconds),
        "start": cell_number(row, "start", seconds),
        "cold_known": all(pd.notna(part) for part in cold),
        "source": row["source"] if pd.notna(row["source"]) else "",
    }


def _noise(row: pd.Series) -> str | None:
    """Noise between and within the cell's processes, in words."""
    if pd.isna(row["sd_within"]):
        return None
    between = "" if pd.isna(row["sd_between"]) else f"{number(100 * row['sd_between'])} % between processes, "
    return f"noise {between}{number(100 * row['sd_within'])} % within"


def _figures(folder: Path) -> Iterator[dict[str, str]]:
    """Each figure as a data address: nothing in it can run or reach out, and no two share identifiers."""
    for name in figure_names():
        facts = figure_facts(name)
        path = folder / f"{name}.svg"
        try:
            data = base64.b64encode(path.read_bytes()).decode("ascii")
        except OSError as error:
            raise StudyError(f"no figure {path}; make it: snakemake --cores 1 figures") from error
        yield {"name": name, **facts._asdict(), "address": f"data:image/svg+xml;base64,{data}"}


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


def _cards(runs: pd.DataFrame) -> Iterator[list[tuple[str, str]]]:
    """One card for each distinct set of machine and software that ran."""
    ran = runs[(runs["status"] != "not_measured") & runs["started"].notna()]
    for _, rows in ran.groupby(list(CARD), sort=False, dropna=False):
        first = rows.iloc[0]
        card = [(title, _written(name, first[name])) for name, title in CARD.items() if pd.notna(first[name])]
        yield [*card, ("Runs", f"{len(rows)}, {rows['started'].min()} to {rows['started'].max()} UTC")]


def _written(name: str, value: Any) -> str:
    return f"{value / 2**30:.1f} GiB" if name == "host_memory" else str(value)


def _broken(runs: pd.DataFrame) -> dict[str, Any]:
    bad = runs[runs["status"].isin([*BROKEN, "refused"])]
    rows = [
        (row["run"], str(row["status"]).replace("_", " "), row["reason"]) for _, row in bad.head(MOST_LISTED).iterrows()
    ]
    refused = int((bad["status"] == "refused").sum())
    tried = int((runs["status"] != "not_measured").sum())
    return {"rows": rows, "count": len(bad), "failed": len(bad) - refused, "refused": refused, "tried": tried}
