"""How to measure one cell again: commands, links to its records and what it ran with."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.report.machines import machine_key
from whichdevice.report.matching import cell_key
from whichdevice.results import StudyResults
from whichdevice.tables.base import CELL
from whichdevice.tables.runs import NOT_MEASURED

SNAKEMAKE = ("snakemake", "--cores", "1")
AGAIN = "again"  # a folder of its own for the run by hand: the study's record stays


class Links:
    """Addresses relative to the page, so that the whole folder can move."""

    def __init__(self, page: Path) -> None:
        self.folder = Path(page).absolute().parent

    def to(self, path: Any) -> str | None:
        """The relative address of a file, or None of what is no file here (a bucket)."""
        text = str(path)
        return None if "://" in text else Path(os.path.relpath(Path(text).absolute(), self.folder)).as_posix()


def reproductions(study: StudyResults, page: Path, cards: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], Any]:
    """For each cell of table `runs` what its card says; `cards` numbers the machines below."""
    links, found = Links(page), {}
    for _, runs in study.runs.groupby(CELL, dropna=False, sort=False):
        first = runs.iloc[0]
        found[cell_key(first)] = _card(study, runs, first, links, cards)
    return found


def _card(
    study: StudyResults, runs: pd.DataFrame, first: pd.Series, links: Links, cards: dict[tuple[Any, ...], int]
) -> dict[str, Any]:
    config = f"{study.study.root}/config.yaml"
    ran = runs[runs["started"].notna() & (runs["status"] != NOT_MEASURED)]
    only = "only={" + ", ".join(f"{axis}: {_yaml(first[axis])}" for axis in CELL if pd.notna(first[axis])) + "}"
    kind = "all" if pd.isna(first["kind"]) else str(first["kind"])
    in_study = ["--configfile", config]
    return {
        "name": " · ".join(str(part) for part in first["run"].split("/")[:3]),
        "workflow": shlex.join([*SNAKEMAKE, kind, *in_study, "--forcerun", "measure", "--config", only]),
        "by_hand": shlex.join(["python", "scripts/measure.py", config, f"{AGAIN}/{first['run']}/record.json"]),
        "then": shlex.join([*SNAKEMAKE, "compare", *in_study, "--config", f"against={AGAIN}"]),
        "config": links.to(study.config_path),
        "records": [
            (f"r{row['repeat']}", str(row["status"]).replace("_", " "), links.to(row["record"]))
            for _, row in ran.iterrows()
        ],
        "machines": sorted({cards[key] for _, row in ran.iterrows() if (key := machine_key(row)) in cards}),
        "facts": [(title, " / ".join(map(str, ran[name].dropna().unique()))) for name, title in FACTS.items()],
    }


FACTS = {
    "device_name": "Device",
    "threads": "Threads",
    "versions": "Libraries",
    "flags": "Settings",
    "git_commit": "Commit",
    "code_hash": "Measuring code",
    "seed": "Seed",
}


def _yaml(value: Any) -> str:
    """A value as YAML takes it on a command line."""
    if isinstance(value, str):
        return value if value.replace("_", "").isalnum() and not value[0].isdigit() else json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
