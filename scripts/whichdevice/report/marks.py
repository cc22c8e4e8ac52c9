"""The marks beside the verdict: what it does not hold for, and on what it rests."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from whichdevice.records.results_folder import measured_elsewhere
from whichdevice.report.headline import BROKEN
from whichdevice.results import StudyResults
from whichdevice.tables.base import CELL
from whichdevice.tables.measured import measured_values, setting_text
from whichdevice.workflow_command import repeat_failed, workflow_command


class Mark(NamedTuple):
    """A few words, what to do about it, and whether it limits what the verdict is good for."""

    title: str
    text: str = ""
    command: str | None = None
    warning: bool = False


CONDITIONS = {
    "code_hash": "code of this project",
    "versions": "library versions",
    "python": "Python",
    "driver": "driver",
    "threads": "thread counts",
    "source": "data source",
    "data_checksum": "data",
    "flags": "settings of the framework",
    "device_name": "device",
    "cpu": "processor",
    "machine": "machine",
}  # columns of `measured_values`
NOT_MEASURING = r"\b(?:whichdevice|snakemake) [^;]*"  # of `versions`: no measured process runs their code as such


def marks(study: StudyResults) -> list[Mark]:
    """What was not measured first, then what limits the rest, then on what it rests."""
    return [*_absent(study), *_data(study), *_unlike(study), *_mixed(study), *_broken(study), *_basis(study)]


def _absent(study: StudyResults) -> Iterator[Mark]:
    for device, command in study.absent.items():
        rows = study.runs[study.runs["device"] == device]
        if len(rows) and (rows["status"] == "not_measured").all():
            reason = str(rows["reason"].iloc[0]).split("; ")[0]
            yield Mark(f"{device} not measured", reason, command, True)
        elif len(rows):
            worst = str(rows["status"].iloc[0]).replace("_", " ")
            yield Mark(f"{device} not measured", f"its runs: {worst}", command, True)


def _data(study: StudyResults) -> Iterator[Mark]:
    if "standin" in study.sources:
        whole = "" if len(study.sources) == 1 else f" for {', '.join(study.sources['standin'])}"
        yield Mark(f"Stand-in data{whole}", "times count, accuracies say nothing", None, True)


def _unlike(study: StudyResults) -> Iterator[Mark]:
    """Workloads that stand for several models, of which only alike ones are compared."""
    own = ["workload", "sequence_length"]
    for (workload, _), rows in measured_values(study.runs).groupby(own, dropna=False, sort=False):
        models = rows.groupby("model", sort=False)["device"].unique()
        if len(models) > 1:
            setting_text = "; ".join(f"{name} on {', '.join(devices)}" for name, devices in models.items())
            yield Mark(f"{workload} is several models", f"not compared with each other: {setting_text}", None, True)


def _mixed(study: StudyResults) -> Iterator[Mark]:
    """Cells whose repeats were not measured under the same conditions, such as before and after an update."""
    good = measured_values(study.runs)
    versions = good["versions"].str.replace(NOT_MEASURING, "", regex=True)
    cells = good.assign(versions=versions).groupby(CELL, dropna=False, sort=False)
    kinds = cells[list(CONDITIONS)].nunique()
    mixed = kinds[(kinds > 1).any(axis=1)]
    if mixed.empty:
        return
    what = ", ".join(words for column, words in CONDITIONS.items() if (mixed[column] > 1).any())
    own = study.study.devices.keys() - measured_elsewhere(Path(study.study.root))
    here = own.issuperset(mixed.index.get_level_values("device"))
    again = workflow_command(study.study, "all", "--forcerun measure") if here else None
    yield Mark(f"{len(mixed)} of {len(kinds)} cells mix repeats", f"measured with other {what}", again, True)


def _broken(study: StudyResults) -> Iterator[Mark]:
    tried = study.attempted
    failed, refused = int(tried["status"].isin(BROKEN).sum()), int((tried["status"] == "refused").sum())
    if failed:
        yield Mark(f"{failed} of {len(tried)} runs failed", "", None, True)
    if refused:
        yield Mark(
            f"{refused} runs refused",
            "they did not fit this host; those that fit by then are tried again by",
            repeat_failed(study.study),
            True,
        )
    disturbed = int(study.measured["n_disturbed"].fillna(0).sum())
    if disturbed:
        good = int(study.measured["n_timed"].sum())
        yield Mark(f"{disturbed} of {good} timed runs disturbed", "the machine was busy; they count", None, True)


def _basis(study: StudyResults) -> Iterator[Mark]:
    good = measured_values(study.runs)
    if good.empty:
        return
    place = setting_text(good["machine"].nunique(), good["sitting"].nunique())
    yield Mark(place[0].upper() + place[1:], "another machine may answer otherwise" if "one machine" in place else "")
    counts = sorted({int(n) for n in study.measured["n_timed"]})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    yield Mark(f"n = {many}", "processes behind each number" + ("; one gives no interval" if counts[0] == 1 else ""))
