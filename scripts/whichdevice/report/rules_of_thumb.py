"""What published guides say by rule of thumb, each beside what this study measured of it, if it did."""

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from whichdevice.figures.style import number
from whichdevice.report.advice import about, fastest, judged_words, several_models, telling
from whichdevice.report.numbers import interval
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words
from whichdevice.tables.crossover import CROSSOVER, ONE_FASTER, SEVERAL
from whichdevice.tables.measured import UNTRAINED

GUIDE = "Google Cloud, Introduction to Cloud TPU, “When to use TPUs”"
BATCHES = "GPUs and TPUs pay with large batches, CPUs with small ones"
MODELS = "GPUs and TPUs pay with large models, CPUs with small ones"
LARGEST = "take the largest batch that fits"


class Rule(NamedTuple):
    """A rule of thumb, who gives it, and what was measured here."""

    rule: str
    source: str
    here: list[str]


def rules_of_thumb(study: StudyResults) -> list[Rule]:
    """The rules that this study has measured something about."""
    found = [
        Rule(BATCHES, GUIDE, list(_batches(study))),
        Rule(MODELS, GUIDE, list(_models(study))),
        Rule(LARGEST, "Google Cloud, Cloud TPU performance guide", list(_largest(study))),
    ]
    return [rule for rule in found if rule.here]


def _against_cpus(study: StudyResults) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Each cpu and other device, with their rows of table `crossover`: (cpu, device, rows)."""
    for (first, second), rows in study.crossover.groupby(["first", "second"], sort=False):
        if study.kind(str(first)) == "cpu" != study.kind(str(second)):
            parts = [telling(part) for _, part in rows.groupby("workload", sort=False)]
            found = pd.concat(parts)
            yield str(first), str(second), found.assign(several=several_models(found))


def _batches(study: StudyResults) -> Iterator[str]:
    for cpu, device, rows in _against_cpus(study):
        told: dict[str, list[str]] = {}
        for _, row in rows[rows["sizes"].str.contains(" ")].iterrows():
            outcome, detail = _outcome(row, device)
            told.setdefault(outcome, []).append(f"{_work(row)} ({detail})")
        if told:
            yield f"{device} and {cpu}: " + "; ".join(f"{words} {', '.join(names)}" for words, names in told.items())


def _outcome(row: pd.Series, device: str) -> tuple[str, str]:
    """How one row stands to the rule, and the number that shows it."""
    letter, sizes = "N" if row["quantity"] == "tflops" else "b", str(row["sizes"]).split()
    if row["verdict"] in (CROSSOVER, SEVERAL):
        at = f"about {letter}{about(row['crossover'])} {interval(row['crossover_low'], row['crossover_high'], about)}"
        if row["verdict"] == SEVERAL:
            return "one of several changes in", at
        return ("so in" if row["faster_above"] == device else "the other way round in"), at
    reach = f"{letter}{sizes[0]}…{letter}{sizes[-1]}"
    if row["verdict"] == ONE_FASTER:
        return f"no change, {row['faster']} faster at every size, in", reach
    return "no change decided in", reach


def _work(row: pd.Series) -> str:
    return _named(row) + ("" if row["precision"] == "float32" else f" {row['precision']}")


def _named(row: pd.Series) -> str:
    return " ".join([row["workload"], *length_words(row), *([f"({row['model']})"] if row["several"] else [])])


def _models(study: StudyResults) -> Iterator[str]:
    """Ratios at the largest common batch of workloads that train, by operations per example, least first.

    Several models of one name have no one number of operations.
    """
    good = study.runs[study.runs["flops_per_step"].notna() & ~study.runs["unit"].isin(UNTRAINED)]
    own = ["workload", "sequence_length"]
    good = good.assign(work=good["flops_per_step"] / good["batch_size"].astype(float))
    per_example = good.groupby(own, dropna=False, as_index=False)["work"].max()
    named = good.drop_duplicates("module")["workload"]  # one name for each file
    for cpu, device, rows in _against_cpus(study):
        rows = rows[rows["workload"].isin(named) & (rows["precision"] == "float32") & ~rows["several"]]
        rows = rows.drop_duplicates(own)
        rows = rows.merge(per_example, on=own).sort_values("work", kind="stable")
        if rows["workload"].nunique() < 2:
            continue
        ratios = rows["largest_ratio"].to_numpy()
        rises = "rises with the work" if (ratios[1:] > ratios[:-1]).all() else "does not rise with the work throughout"
        told = [
            f"{_named(row)} ({number(row['work'] / 1e6)} million) {number(row['largest_ratio'])} "
            f"{interval(row['largest_ratio_low'], row['largest_ratio_high']) or ''}".strip()
            for _, row in rows.iterrows()
        ]
        yield (
            f"{device} / {cpu} at the largest batch of each, by floating-point operations per example: "
            f"{', '.join(told)}: by the means it {rises}"
        )


def _largest(study: StudyResults) -> Iterator[str]:
    trained = study.saturation[~study.saturation["unit"].isin(UNTRAINED)]
    parts = [fastest(part) for _, part in trained.groupby("workload", sort=False)]
    if not parts:
        return
    found = pd.concat(parts)
    for device, rows in found.assign(several=several_models(found)).groupby("device", sort=False):
        told = []
        for _, row in rows.iterrows():
            if row["gain"] == 1:
                smallest = f"the smallest{judged_words(row)}" if judged_words(row) else "its smallest"
                told.append(f"{_named(row)} is fastest at {smallest}, b{row['best_size']}")
                continue
            gain = f"×{number(row['gain'])} {interval(row['gain_low'], row['gain_high']) or ''}".strip()
            near = "still rising" if row["still_rising"] else f"within 5 % from b{row['near_size']}"
            told.append(f"{_named(row)} {gain} at b{row['best_size']}, {near}{judged_words(row)}")
        yield f"{device}, fastest against smallest batch: {'; '.join(told)}"
