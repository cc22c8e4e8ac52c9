"""The one sentence that answers the question, and the rest of the first screen."""

from collections import Counter
from typing import Any

from whichdevice.report.choice import ALONE, DECIDED, LACKING
from whichdevice.report.marks import marks
from whichdevice.report.verdict import Row, board, split_board
from whichdevice.results import StudyResults
from whichdevice.tables.measured import without_rehearsals
from whichdevice.tables.statistics import SAME, UNDECIDED

PER = "per million examples"
WITH = {"cheapest": "price", "frugal": "meter"}
TITLES = {"fastest": "fastest", "cheapest": "cheapest", "frugal": "most frugal"}
ALONE_IN = {"fastest": "measured", "cheapest": "priced", "frugal": "metered"}
UNLIKE = {"cheapest": "by prices that count different things", "frugal": "by meters that count different things"}


def lead(study: StudyResults, rows: list[Row]) -> list[str]:
    """Sentences: the fastest device over all workloads that train, then the cheapest and the most frugal one.

    Single operations count where no devices were compared on anything else.
    """
    if study.measured.empty:
        return ["Nothing was measured yet."]
    trained = [row for row in rows if not row.operation]
    told = next((part for part in (trained, rows) if _is_compared(part)), None)
    if told is None:
        return _not_compared(study)
    return [sentence for name in TITLES if (sentence := _sentence(name, told))]


def compared_words(study: StudyResults) -> list[str]:
    """`lead` where two measured devices or more were compared, else nothing."""
    first, _ = split_board(board(study))
    return lead(study, first) if _is_compared(first) else []


def _is_compared(rows: list[Row]) -> bool:
    return any(row.choices["fastest"].state != ALONE for row in rows)


def _not_compared(study: StudyResults) -> list[str]:
    """Why there is no best device; rehearsals are none to compare."""
    real = set(without_rehearsals(study.measured)["device"])
    names = [name for name in study.devices if name in real]
    rehearsals = " and ".join(name for name in study.devices if name not in real)
    if not names:
        told = f"Only {rehearsals} was measured"
    elif len(names) == 1:
        told = f"Only {names[0]} was measured"
    else:
        told = f"Measured: {' and '.join(names)}, never on the same work"
    which = "is" if len(names) > 1 else "device is"
    rehearsed = [f"Rehearsals on virtual replicas, which show no speed: {rehearsals}."] if rehearsals else []
    return [f"{told}, so which {which} best cannot be said.", *rehearsed]


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
        "alone": bool(rows) and not _is_compared(rows),
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
