"""The report's first screen: the answer of every workload, what limits it, and measured devices by the decision rule.

Answers are those of `whichdevice.decide`, which a terminal shows too; nothing here prices, compares or decides.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.base.numbers import number
from whichdevice.decide import Answer, table, words
from whichdevice.study.report.chart import chart
from whichdevice.study.report.live import live_data
from whichdevice.study.report.numbers import alike, interval, undecided_words, verdict_words, with_setting
from whichdevice.study.results import StudyResults
from whichdevice.study.study_cells import repeat_failed, workflow_command
from whichdevice.study.tables.base import CELL, length_words, share_words
from whichdevice.study.tables.batch_sizes import CROSSOVER, ONE_FASTER, ONE_SIZE, OWN_BEST, SEVERAL
from whichdevice.study.tables.costs import LESS, MORE
from whichdevice.study.tables.decision_rule import SAME
from whichdevice.study.tables.measured import WORK, measured_values, setting_text, timed

BROKEN = ["failed", "timed_out", "out_of_memory", "unreadable"]
SOURCES = {
    "standin": "generated stand-ins of the same shapes and sizes: times count, accuracies mean nothing",
    "files": "the original files",
    "tfds": "downloaded by TensorFlow Datasets",
}
# Columns of `measured_values` that are the same in all repeats of a cell that was measured in one go.
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
}
NOT_MEASURING = r"\b(?:whichdevice|snakemake) [^;]*"  # of `versions`: no measured process runs their code as such


def first_screen(study: StudyResults) -> dict[str, Any]:
    """Sentences, a row for each workload, each answer in full, and what to keep in mind."""
    return {
        "lead": table.study_lines(study.answers),
        "head": table.study_head(),
        "rows": table.study_rows(study.answers),
        "answers": [answer_parts(answer) for answer in table.by_stake(study.answers)],
        "facts": list(facts(study)),
        "compared": compared(study),
    }


def answer_parts(answer: Answer, everything: bool = True) -> dict[str, Any]:
    """One answer as a page shows it."""
    return {
        "title": words.title(answer),
        "lines": words.lines(answer),
        "head": table.head(answer, energy=True),
        "cells": table.cells(answer, everything, energy=True),
        "chart": chart(answer),
        "live": live_data(answer) if answer.pick is not None and len(answer.options) > 1 else None,
        "notes": [*filter(None, [table.folded(answer, everything)]), *words.notes(answer)],
        "lasting": words.lasting_notes(answer),
    }


class Fact(NamedTuple):
    """A sentence on the study, a command that goes with it, and whether it limits what the answer is good for."""

    text: str
    command: str | None = None
    warning: bool = False


def facts(study: StudyResults) -> Iterator[Fact]:
    """Return what was measured where and on which data, how noisy that was, what failed, and what was not measured."""
    yield from _absent(study)
    yield from _broken(study)
    for source, datasets in study.sources.items():
        yield Fact(f"Data: {', '.join(datasets)}: {SOURCES.get(source, source)}.", None, source == "standin")
    yield from _several_models(study)
    yield from _mixed(study)
    yield from _measured(study)


def _absent(study: StudyResults) -> Iterator[Fact]:
    for device, command in study.absent.items():
        rows = study.runs[study.runs["device"] == device]
        if len(rows) and (rows["status"] == "not_measured").all():
            reason = str(rows["reason"].iloc[0]).split("; ")[0]
            where = ", on a host that has one" if reason.startswith("no ") else ""
            yield Fact(f"Not measured: {device} ({reason}). To measure it{where}:", command, True)
        elif len(rows):
            worst = str(rows["status"].iloc[0]).replace("_", " ")
            yield Fact(f"Not measured: {device} (its runs: {worst}).", command, True)
    here = [name for name in study.devices if name not in study.other_machines]
    waiting = study.runs[(study.runs["status"] == "not_measured") & study.runs["device"].isin(here)]
    for kind, rows in waiting.groupby("kind", sort=False):
        yield Fact(f"{len(rows)} runs on {kind} have no record yet.", workflow_command(study.study, str(kind)), True)


def _broken(study: StudyResults) -> Iterator[Fact]:
    """Refused runs are counted apart: they did not fail, and are tried again only where they now fit."""
    tried = study.attempted
    failed, refused = int(tried["status"].isin(BROKEN).sum()), int((tried["status"] == "refused").sum())
    if failed:
        yield Fact(f"{failed} of {len(tried)} runs failed. Repeat:", repeat_failed(study.study), True)
    if refused:
        text = f"{refused} refused: did not fit this host. To try again those that fit by then:"
        yield Fact(text, repeat_failed(study.study), True)


def _several_models(study: StudyResults) -> Iterator[Fact]:
    """Workloads whose name means several models; only the same model is compared."""
    good, same = measured_values(study.runs), ["workload", "sequence_length"]
    for (workload, _), rows in good.groupby(same, dropna=False, sort=False):
        models = rows.groupby("model", sort=False)["device"].unique()
        if len(models) > 1:
            listed = "; ".join(f"{name} on {', '.join(devices)}" for name, devices in models.items())
            yield Fact(f"{workload} is several models, not compared with each other: {listed}.", None, True)


def _mixed(study: StudyResults) -> Iterator[Fact]:
    """Cells whose repeats were not measured under the same conditions, such as before and after an update."""
    good = measured_values(study.runs)
    cells = good.assign(versions=good["versions"].str.replace(NOT_MEASURING, "", regex=True))
    kinds = cells.groupby(CELL, dropna=False, sort=False)[list(CONDITIONS)].nunique()
    mixed = kinds[(kinds > 1).any(axis=1)]
    if len(mixed):
        what = ", ".join(text for column, text in CONDITIONS.items() if (mixed[column] > 1).any())
        on_this_machine = study.study.devices.keys() - study.other_machines
        here = on_this_machine.issuperset(mixed.index.get_level_values("device"))
        again = workflow_command(study.study, again=True) if here else None
        yield Fact(f"{len(mixed)} of {len(kinds)} cells mix repeats measured with other {what}.", again, True)


def _measured(study: StudyResults) -> Iterator[Fact]:
    if study.measured.empty:
        yield Fact("Nothing was measured yet.", workflow_command(study.study), True)
        return
    for device in study.devices:
        cells = study.measured[study.measured["device"] == device]
        good = timed(study.runs[study.runs["device"] == device])
        names = ", ".join(good["device_name"].dropna().unique()) or "device unnamed"
        workloads = cells["workload"].nunique()
        yield Fact(f"Measured on {device} ({names}): {len(good)} runs of {len(cells)} cells in {workloads} workloads.")
    values = measured_values(study.runs)
    counts = sorted({int(n) for n in study.measured["n_timed"]})
    processes = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    setting = setting_text(values["machine"].nunique(), values["session"].nunique())
    yield Fact(f"Measured in {setting}; n = {processes} processes behind each number.")
    for column, text in COUNTED.items():
        if count := int(study.measured[column].fillna(0).sum()):
            yield Fact(f"{count} of these runs {text}; they are counted.", None, column == "n_disturbed")
    middle = study.measured[["sd_between", "sd_within"]].median()
    if middle.notna().all():
        between, within = (number(100 * value) for value in middle)
        yield Fact(
            f"Noise, median over cells: processes of a cell differ by {between} % (standard deviation) beyond what the "
            f"{within} % between the windows of one process explain."
        )


COUNTED = {
    "n_disturbed": "were disturbed: other work, or a changed speed",
    "n_trending": "were still getting slower or faster when time was up",
    "n_untested": "had too few windows to test whether step times had settled",
}


def compared(study: StudyResults) -> list[list[str]]:
    """Measured devices, then backends, by the decision rule: work, what, against what, by batch size."""
    rows_found = []
    for _, rows in study.fastest.groupby([*WORK, "model"], dropna=False, sort=False):
        if rows["device"].nunique() < 2:
            continue
        best = rows[rows["device"] == rows["lowest"]].iloc[0]
        for _, row in rows[rows["device"] != rows["lowest"]].iterrows():
            sizes = "; ".join(dict.fromkeys(by_batch_size(study.crossover, best, str(row["device"]))))
            if pd.isna(row["ratio"]):
                against = "no repeat of the same work in common"
            else:
                against = _ratio_words(row, f"times the time of {best['device']}")
            rows_found.append([_work(best), str(row["device"]), against, sizes])
    rows = study.speedups[study.speedups["comparison"] == "backend"]
    rows = rows.sort_values(["fraction", "batch_size"], ascending=False, kind="stable")
    one = ["workload", "compared", "device", "sequence_length"]
    for _, row in rows.drop_duplicates(one).sort_index().iterrows():
        against = _ratio_words(row, f"times as fast as {row['baseline']}")
        where = f"{row['device']}, batch {row['batch_size']}"
        rows_found.append([_work(row), str(row["compared"]), f"{against} ({where})", ""])
    return rows_found


def _work(row: pd.Series) -> str:
    return " · ".join([str(row["workload"]), str(row["precision"]), *length_words(row), *share_words(row)])


def _ratio_words(row: pd.Series, times: str) -> str:
    """A ratio with its interval and what the decision rule says of it."""
    judged = {MORE: "slower", LESS: "faster"}.get(str(row["verdict"]), verdict_words(row))
    bounds = interval(row["ratio_low"], row["ratio_high"]) or "(no interval)"
    return f"{number(row['ratio'])} {bounds} {times}: {with_setting(judged, row)}, n = {row['n']}"


def by_batch_size(crossover: pd.DataFrame, work: pd.Series, other: str) -> Iterator[str]:
    """Which of two devices is faster at which batch sizes; with own best settings, where these were compared."""
    both = {str(work["device"]), other}
    rows = crossover[alike(crossover, work, [*WORK, "model", "fraction"])]
    rows = rows[[{first, second} == both for first, second in zip(rows["first"], rows["second"], strict=True)]]
    of_best = rows[rows["comparison"] == OWN_BEST]
    for _, row in (of_best if len(of_best) else rows).iterrows():
        yield size_words(row)


def size_words(row: pd.Series) -> str:
    """One row of table `crossover` in words."""
    sizes = str(row["sizes"]).split()
    if row["verdict"] in (CROSSOVER, SEVERAL):
        between = f"measured at {row['size_below']} and {row['size_above']}"
        several = ", one of several changes" if row["verdict"] == SEVERAL else ""
        at = f"about {about(row['crossover'])} ({between})"
        return f"{row['faster_above']} from {at}, below {row['faster_below']}{several}"
    if row["verdict"] == ONE_SIZE:
        return f"one size compared, {sizes[0]}"
    if row["verdict"] == ONE_FASTER:
        return f"{row['faster']} at every size, {sizes[0]} to {sizes[-1]}"
    rest = SAME if pd.isna(row["undecided"]) else undecided_words(row["n_to_decide"])
    if pd.notna(row["faster"]):
        return f"{row['faster']} at {str(row['faster_at']).replace(' ', ', ')}; else {rest}"
    return f"{rest} at every size"


def about(value: float) -> str:
    """A batch size between measured ones: more digits would promise too much."""
    return number(float(f"{value:.{2 if value < 100 else 3}g}"))
