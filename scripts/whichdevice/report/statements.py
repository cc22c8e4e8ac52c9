"""State the study in plain words, each sentence made from numbers of the tables."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.numbers import number, quality, seconds
from whichdevice.report.numbers import alike, interval, verdict_words
from whichdevice.results import StudyResults
from whichdevice.study_cells import repeat_failed, workflow_command
from whichdevice.tables.base import diverged_words, epochs_words, length_words, repeats_words, share_words
from whichdevice.tables.decision_rule import SLOWER
from whichdevice.tables.measured import enough_repeats, timed, without_rehearsals, without_self_checks
from whichdevice.tables.noise_floor import SAME_TWICE

UNTOLD = "; too wide to show that there is no false alarm"
BROKEN = ["failed", "timed_out", "out_of_memory", "unreadable"]
SOURCES = {
    "standin": "generated stand-ins of the same shapes and sizes: times count, accuracies say nothing about real data",
    "files": "the original files",
    "tfds": "downloaded by TensorFlow Datasets",
}
# Axis to what keeps its ratios apart.
COMPARED: dict[str, list[str]] = {"device": [], "backend": ["device"], "loop": ["device", "backend"]}


def noise_floor(study: StudyResults) -> Iterator[tuple[str, bool]]:
    """A sentence for each device that measured a self-check, and whether the check went wrong."""
    for device, rows in study.noise_floor.groupby("device", sort=False):
        parts = [_check_words(row) for _, row in rows.iterrows()]
        width = rows["median_half_width"].iloc[0]
        if pd.notna(width):
            parts.append(f"half of this device's intervals are within ±{number(100 * width)} %")
        yield f"Noise floor of this study ({device}): {'; '.join(parts)}.", not rows["passed"].fillna(True).all()


def _check_words(row: pd.Series) -> str:
    found = f"{number(row['ratio'])} {interval(row['ratio_low'], row['ratio_high']) or '(no interval)'}"
    disturbed = f", {row['n_disturbed']} of the runs disturbed" if row["n_disturbed"] else ""
    judged = f"{row['verdict']}, n = {row['n']}{disturbed}"
    if row["comparison"] == SAME_TWICE:
        wrong = UNTOLD if pd.isna(row["passed"]) else "" if row["passed"] else "; a false alarm"
        return f"the same cell twice gave {found} ({judged}{wrong})"
    slower = f"{100 * (1 / row['expected'] - 1):.3g}"
    was = "could not be tested" if row["n"] == 1 else "was found" if row["verdict"] == SLOWER else "was not found"
    return f"a planted slowdown of {slower} %, true ratio {number(row['expected'])}, gave {found} and {was} ({judged})"


class Statement(NamedTuple):
    """A sentence, and a command to go with it."""

    text: str
    command: str | None = None
    warning: bool = False


def statements(study: StudyResults) -> list[Statement]:
    """What was measured where and on which data, what failed, and what was not measured."""
    return [*_measured(study), *_noise(study), *_floor(study), *_data(study), *_broken(study), *_absent(study)]


def _measured(study: StudyResults) -> Iterator[Statement]:
    if study.measured.empty:
        yield Statement("Nothing was measured yet.", workflow_command(study.study), True)
    for device in study.devices:
        cells = study.measured[study.measured["device"] == device]
        studied = without_self_checks(study.runs)
        good = timed(studied[studied["device"] == device])
        names = ", ".join(good["device_name"].dropna().unique()) or "device unnamed"
        workloads = cells["workload"].nunique()
        text = f"Measured on {device} ({names}): {len(good)} runs of {len(cells)} cells in {workloads} workloads."
        yield Statement(text)
    disturbed = int(study.measured["n_disturbed"].fillna(0).sum())
    if disturbed:
        yield Statement(
            f"{disturbed} of these runs were marked disturbed (other work, or a changed speed); they are counted.",
            None,
            True,
        )


def _floor(study: StudyResults) -> Iterator[Statement]:
    for text, wrong in noise_floor(study):
        yield Statement(text, None, wrong)
    trending = int(study.measured["n_trending"].fillna(0).sum())
    if trending:
        words = "run was" if trending == 1 else "runs were"
        yield Statement(
            f"{trending} {words} still getting slower or faster when time was up; they are counted.", None, True
        )
    untested = int(study.measured["n_untested"].fillna(0).sum())
    if untested:
        yield Statement(
            f"{untested} of the runs had too few windows, of slow steps or of plain fit, to test whether step times "
            "had settled; they are counted."
        )


def _noise(study: StudyResults) -> Iterator[Statement]:
    """How far apart processes and windows are, over all cells."""
    middle = study.measured[["sd_between", "sd_within"]].median()
    if middle.notna().all():
        between, within = (number(100 * value) for value in middle)
        yield Statement(
            f"Noise, median over cells: processes of a cell differ by {between} % (standard deviation) beyond what the "
            f"{within} % between the windows of one process explain."
        )


def _data(study: StudyResults) -> Iterator[Statement]:
    for source, datasets in study.sources.items():
        yield Statement(f"Data: {', '.join(datasets)}: {SOURCES.get(source, source)}.", None, source == "standin")


def _broken(study: StudyResults) -> Iterator[Statement]:
    """Count refused runs apart: they did not fail, and are tried again only where they now fit."""
    tried = study.attempted
    failed, refused = int(tried["status"].isin(BROKEN).sum()), int((tried["status"] == "refused").sum())
    if failed:
        yield Statement(f"{failed} of {len(tried)} runs failed. Repeat:", repeat_failed(study.study), True)
    if refused:
        text = f"{refused} refused: did not fit this host. The reasons are below. To try again those that fit by then:"
        yield Statement(text, repeat_failed(study.study), True)


def _absent(study: StudyResults) -> Iterator[Statement]:
    for device, command in study.absent.items():
        rows = study.runs[study.runs["device"] == device]
        if (rows["status"] == "not_measured").all() and len(rows):
            reason = str(rows["reason"].iloc[0]).split("; ")[0]
            where = ", on a host that has one" if reason.startswith("no ") else ""
            yield Statement(f"Not measured: {device} ({reason}). To measure it{where}:", command, True)
    here = [name for name in study.devices if name not in study.other_machines]
    waiting = study.runs[(study.runs["status"] == "not_measured") & study.runs["device"].isin(here)]
    for kind, rows in waiting.groupby("kind", sort=False):
        yield Statement(
            f"{len(rows)} runs on {kind} have no record yet.", workflow_command(study.study, str(kind)), True
        )


def answers(study: StudyResults) -> list[dict[str, Any]]:
    """Per workload and sequence length: the cell of highest throughput; how devices, backends and loops compare."""
    cells = without_rehearsals(study.measured)
    return [
        _answer(study, str(workload), own)
        for (workload, _), own in cells.groupby(["workload", "sequence_length"], dropna=False, sort=False)
    ]


def _answer(study: StudyResults, workload: str, cells: pd.DataFrame) -> dict[str, Any]:
    cells = cells[cells["fraction"] == cells["fraction"].max()]
    product = cells["unit"].iloc[0] == "product"
    column = "tflops" if product else "throughput"
    if cells[column].isna().all():
        return {"workload": workload, "speed": "no speed", "where": "", "ratios": []}
    complete = cells[cells[column].notna()]
    complete = complete[enough_repeats(complete["n_timed"], complete["device"])]
    best = complete.iloc[int(complete[column].astype("float64").argmax())]
    unit = "TFLOP/s" if product else f"{best['unit']}s/s"
    scale = best[column] / best["throughput"]  # the interval of TFLOP/s is the interval of products per second, scaled
    bounds = interval(best["throughput_low"] * scale, best["throughput_high"] * scale)
    found = study.speedups[alike(study.speedups, best, ["workload", "sequence_length"])]
    size = {"product": "N = {}", "gigabyte": "{} MiB arrays"}.get(best["unit"], "batch {}").format(best["batch_size"])
    words = ", ".join([best["backend"], best["precision"], size, *length_words(best), *repeats_words(best)])
    return {
        "workload": workload,
        "speed": f"{number(best[column])} {unit}",
        "interval": bounds,
        "n": int(best["n_timed"]),
        "where": f"{best['device']}, {words}",
        "epoch": None if pd.isna(best["epoch_time"]) else f"epoch {seconds(best['epoch_time'])} (computed)",
        "quality": _quality(best),
        "ratios": list(_ratios(found)),
    }


def _quality(cell: pd.Series) -> str | None:
    """What the cell's learning runs reached: accuracy where it has one, else the validation loss."""
    column, name = "validation_metric", f"validation {cell['metric']}"
    if pd.isna(cell[column]):
        column, name = "validation_loss", "validation loss"
    if pd.isna(cell[column]):
        return ", ".join(diverged_words(cell)) or None
    reached = f"{name} {quality(cell[column])} after {epochs_words(cell)}"
    return ", ".join([reached, *share_words(cell), *diverged_words(cell)])


def _ratios(found: pd.DataFrame) -> Iterator[str]:
    """Devices, backends and loops against their baselines, at the largest batch and share of the data that both ran."""
    for axis, apart in COMPARED.items():
        own = found[found["comparison"] == axis].sort_values(["fraction", "batch_size"], ascending=False, kind="stable")
        for _, row in own.drop_duplicates(["compared", *apart]).sort_index().iterrows():
            bounds = interval(row["ratio_low"], row["ratio_high"])
            named = "loop " if axis == "loop" else ""
            ratio = f"{named}{row['compared']} / {row['baseline']} = {number(row['ratio'])} {bounds or '(no interval)'}"
            size = "N" if row["quantity"] == "tflops" else "batch"
            words = [str(row[name]) for name in ("device", "backend", "precision") if name != axis]
            words += [f"loop {row['loop']}"] if axis != "loop" and row["loop"] != "epoch" else []
            where = ", ".join(words) + (f"; {row['setting']}" if axis == "device" else "")
            yield f"{ratio} at {size} {row['batch_size']}, n = {row['n']} ({where}): {verdict_words(row)}"
