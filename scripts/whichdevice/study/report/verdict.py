"""The report's first screen: the answer of every workload, what limits it, and measured devices by the decision rule.

`whichdevice.decide` makes the answers, as for a terminal; this module only writes them down.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.base.numbers import number
from whichdevice.decide import Answer, words
from whichdevice.study.cells import repeat_failed, workflow_command
from whichdevice.study.report.chart import chart
from whichdevice.study.report.numbers import interval, verdict_words, with_setting
from whichdevice.study.report.products import typed_parts
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.base import CELL, length_words, share_words
from whichdevice.study.tables.comparisons import BEST
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
        "lead": words.study_lines(study.answers),
        "head": words.study_head(),
        "rows": words.study_rows(study.answers),
        "answers": [answer_parts(answer) for answer in words.by_stake(study.answers)],
        "facts": list(facts(study)),
        "compared": compared(study),
    }


def answer_parts(answer: Answer) -> dict[str, Any]:
    """One answer as a page shows it."""
    return words.page_parts(answer, chart(answer), None if answer.pick is None else typed_parts(answer))


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
    attempted = study.attempted
    failed, refused = int(attempted["status"].isin(BROKEN).sum()), int((attempted["status"] == "refused").sum())
    if failed:
        yield Fact(f"{failed} of {len(attempted)} runs failed. Repeat:", repeat_failed(study.study), True)
    if refused:
        text = f"{refused} refused: did not fit this host. To try again those that fit by then:"
        yield Fact(text, repeat_failed(study.study), True)


def _several_models(study: StudyResults) -> Iterator[Fact]:
    """Workloads whose name means several models; only the same model is compared."""
    good, by_work = measured_values(study.runs), ["workload", "sequence_length"]
    for (workload, _), rows in good.groupby(by_work, dropna=False, sort=False):
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
        conditions = ", ".join(text for column, text in CONDITIONS.items() if (mixed[column] > 1).any())
        on_this_machine = study.study.devices.keys() - study.other_machines
        here = on_this_machine.issuperset(mixed.index.get_level_values("device"))
        again = workflow_command(study.study, again=True) if here else None
        yield Fact(f"{len(mixed)} of {len(kinds)} cells mix repeats measured with other {conditions}.", again, True)


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
    """Measured devices, then backends, by the decision rule: work, what, against what."""
    table_rows, best = [], study.comparisons[study.comparisons["axis"] == BEST]
    for _, rows in best.groupby([*WORK, "model", "baseline", "compared"], dropna=False, sort=False):
        rows = rows[rows["fraction"] == rows["fraction"].max()].sort_values("batch_size")
        last = rows.iloc[-1]
        against = _ratio_words(last, f"at size {last['batch_size']}")
        table_rows.append([_work(last), last["compared"], against])
    rows = study.comparisons[study.comparisons["axis"] == "backend"]
    rows = rows.sort_values(["fraction", "batch_size"], ascending=False, kind="stable")
    for _, row in rows.drop_duplicates([*WORK, "baseline", "compared", "device"]).sort_index().iterrows():
        where = f"{row['device']}, size {row['batch_size']}"
        table_rows.append([_work(row), row["compared"], _ratio_words(row, where)])
    return table_rows


def _work(row: pd.Series) -> str:
    return " · ".join([str(row["workload"]), str(row["precision"]), *length_words(row), *share_words(row)])


def _ratio_words(row: pd.Series, where: str) -> str:
    """A ratio with its interval and what the decision rule says of it."""
    bounds = interval(row["ratio_low"], row["ratio_high"]) or "(no interval)"
    judged = f"{with_setting(verdict_words(row), row)}, n = {row['n']}"
    return f"{number(row['ratio'])} {bounds} times as fast as {row['baseline']}: {judged} ({where})"
