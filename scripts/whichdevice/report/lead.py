"""The one sentence that answers the question, and the marks beside it: what it does not hold for."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from whichdevice.figures.results import StudyResults
from whichdevice.report.choice import ALONE, DECIDED, LACKING
from whichdevice.report.headline import BROKEN
from whichdevice.report.verdict import Row, board, split_board
from whichdevice.tables.columns import CELL
from whichdevice.tables.decision import SAME, UNDECIDED
from whichdevice.tables.measured_values import measured_values
from whichdevice.tables.sittings import told
from whichdevice.workflow_command import workflow_command


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
}  # columns of table `runs`
NOT_MEASURING = r"\b(?:whichdevice|snakemake) [^;]*"  # of `versions`: no measured process runs their code as such
PER = "per million examples"
WITH = {"cheapest": "price", "frugal": "meter"}
TITLES = {"fastest": "fastest", "cheapest": "cheapest", "frugal": "most frugal"}
ALONE_IN = {"fastest": "measured", "cheapest": "priced", "frugal": "metered"}
UNLIKE = {"cheapest": "by prices that count different things", "frugal": "by meters that count different things"}


def lead(study: StudyResults, rows: list[Row]) -> list[str]:
    """Sentences: the fastest device over all workloads that train, then the cheapest and the most frugal one."""
    if study.measured.empty:
        return ["Nothing was measured yet."]
    trained = [row for row in rows if not row.operation] or rows
    compared = [row for row in trained if row.choices["fastest"].state != ALONE]
    if not compared:
        names = " and ".join(study.devices)
        if len(study.devices) == 1:
            return [f"Only {names} was measured, so which device is best cannot be said."]
        return [f"Measured: {names}, never on the same work, so which is best cannot be said."]
    return [sentence for name in TITLES if (sentence := _sentence(name, trained))]


def _sentence(name: str, rows: list[Row]) -> str | None:
    """Who wins how many workloads by one quantity; nothing where no two devices were compared by it."""
    known = [row for row in rows if name in row.choices]
    rows = [row for row in known if row.choices[name].state != ALONE]
    if not rows:
        return None
    alone = len(known) - len(rows)
    choices = [row.choices[name] for row in rows]
    wins = Counter(choice.devices[0] for choice in choices if choice.state == DECIDED)
    states = Counter(choice.state for choice in choices)
    total, title = len(choices), TITLES[name]
    what = _counted(rows, " compared" if alone else "")
    parts = [
        f"{device} in {_of(count, total, what) if not place else count}"
        for place, (device, count) in enumerate(wins.most_common())
    ]
    for state, words in ((SAME, "the same within 5 %"), (UNDECIDED, "undecided")):
        if states[state]:
            parts.append(f"{words} in {states[state] if parts else _of(states[state], total, what)}")
    parts += [f"{alone} more {ALONE_IN[name]} on one device only"] if alone else []
    if name == "fastest" and wins:
        parts[0] = parts[0].replace(" in ", " is the fastest in ", 1)
        return f"{', '.join(parts)}."
    lacking = any(other.words == LACKING[name] for choice in choices for other in choice.others)
    among = f", of the devices with a {WITH[name]}" if name in WITH and lacking else ""
    among += f", {UNLIKE[name]}" if any(choice.unlike for choice in choices) else ""
    return f"{title.capitalize()}{among}: {', '.join(parts)}."


def _counted(rows: list[Row], compared: str) -> str:
    """Workloads, and what else each row has for itself where one workload has several."""
    workloads = len({row.workload for row in rows})
    if workloads == len(rows):
        return f"workloads{compared}"
    lengths = len({(row.workload, *row.length) for row in rows})
    apart = [name for name, more in (("sequence length", lengths > workloads), ("model", len(rows) > lengths)) if more]
    return f"workloads{compared}, each {' and '.join(apart)} by itself,"


def _of(count: int, total: int, what: str) -> str:
    if count == total:
        return "the one workload compared" if total == 1 else f"all {total} {what}".rstrip(",")
    return f"{count} of {total} {what}".rstrip(",")


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
            told = "; ".join(f"{name} on {', '.join(devices)}" for name, devices in models.items())
            yield Mark(f"{workload} is several models", f"not compared with each other: {told}", None, True)


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
    known = study.study.devices
    here = all(name in known and not known[name].elsewhere for name in mixed.index.get_level_values("device"))
    again = workflow_command(study.study, "all", "--forcerun measure") if here else None
    yield Mark(f"{len(mixed)} of {len(kinds)} cells mix repeats", f"measured with other {what}", again, True)


def _broken(study: StudyResults) -> Iterator[Mark]:
    tried = study.attempted
    failed, refused = int(tried["status"].isin(BROKEN).sum()), int((tried["status"] == "refused").sum())
    if failed:
        yield Mark(f"{failed} of {len(tried)} runs failed", "", None, True)
    if refused:
        yield Mark(f"{refused} runs refused", "they cannot fit this host", None, True)
    disturbed = int(study.measured["n_disturbed"].fillna(0).sum())
    if disturbed:
        good = int(study.measured["n_ok"].sum())
        yield Mark(f"{disturbed} of {good} good runs disturbed", "the machine was busy; they count", None, True)


def _basis(study: StudyResults) -> Iterator[Mark]:
    good = measured_values(study.runs)
    if good.empty:
        return
    place = told(good["machine"].nunique(), good["sitting"].nunique())
    yield Mark(place[0].upper() + place[1:], "another machine may answer otherwise" if "one machine" in place else "")
    counts = sorted({int(n) for n in study.measured["n_ok"]})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    yield Mark(f"n = {many}", "processes behind each number" + ("; one gives no interval" if counts[0] == 1 else ""))


def verdict_section(study: StudyResults) -> dict[str, Any]:
    """Everything of the first screen."""
    rows = board(study)
    first, others = split_board(rows)
    known = [name for name in TITLES if any(name in row.choices for row in rows)]
    return {
        "lead": lead(study, first),
        "marks": marks(study),
        "rows": first,
        "others": others,
        "columns": known,
        "titles": {name: title.capitalize() for name, title in TITLES.items()},
        "takes": {"fastest": "time", "cheapest": "money", "frugal": "energy"},
        "per": {"fastest": "", "cheapest": PER, "frugal": PER},
        "kinds": {name: study.kind(name) for name in study.devices},
        "alone": bool(rows) and all(row.choices["fastest"].state == ALONE for row in rows),
        "sized": any(row.changes for row in rows),
        "unpriced": _unknown(study, known),
        "unlike": any(choice.unlike for row in rows for choice in row.choices.values()),
    }


def _unknown(study: StudyResults, known: list[str]) -> str | None:
    """Why nothing is said of money or energy."""
    prices = "; ".join(dict.fromkeys(f"{row['device']}: {row['price']}" for _, row in study.costs.iterrows()))
    meters = "; ".join(dict.fromkeys(f"{row['device']}: {row['meter']}" for _, row in study.costs.iterrows()))
    told = [f"The cheapest is not known ({prices})."] if "cheapest" not in known else []
    told += [f"The most frugal is not known ({meters})."] if "frugal" not in known else []
    return " ".join(told) or None
