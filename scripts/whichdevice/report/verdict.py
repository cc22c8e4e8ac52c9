"""The verdict: for each workload the fastest, the cheapest and the most frugal device, and how sure that is.

Made of tables `fastest`, `cost_choices`, `summary` and `roofline` alone; words are the decision rule's.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.report.changes import Phrase, changes, own_sizes
from whichdevice.report.choice import Choice, choice, lacking
from whichdevice.report.matching import alike, cell_of
from whichdevice.report.numbers import Estimate, estimate, seconds
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words, share_words
from whichdevice.tables.cost_choices import JOULES, USD
from whichdevice.tables.fastest import SECONDS
from whichdevice.tables.measured import OPERATIONS, WORK

PLAIN = "float32"  # what every device and backend can compute in
QUANTITIES = {"fastest": SECONDS, "cheapest": USD, "frugal": JOULES}


class Row(NamedTuple):
    """One piece of work on the board."""

    workload: str
    precision: str
    length: list[str]  # of its sequences, in words; empty where it has none
    details: list[str]
    operation: bool
    choices: dict[str, Choice]
    changes: list[Phrase]
    missing: list[str]
    epoch: Estimate | None = None

    @property
    def note(self) -> str:
        """What tells it from the other rows of its workload."""
        return " · ".join([self.precision, *self.length, *self.details])

    @property
    def compared(self) -> int:
        """Devices with a ratio to the fastest one, and that one."""
        return 1 + sum(other.ratio is not None for other in self.choices["fastest"].others)


def board(study: StudyResults) -> list[Row]:
    """A row for every workload in each number format and length: those that train first, single operations last."""
    rows = [_row(study, fastest) for _, fastest in _works(study.fastest)]
    order = list(dict.fromkeys(row.workload for row in rows))
    return sorted(rows, key=lambda row: (row.operation, order.index(row.workload)))


def split_board(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of the first screen, one number format for each workload and length, and the others.

    That in which most devices were compared; of several such, the plain one.
    """
    chosen: dict[tuple[str, ...], Row] = {}
    for row in rows:
        best = chosen.setdefault((row.workload, *row.length), row)
        if (row.compared, row.precision == PLAIN) > (best.compared, best.precision == PLAIN):
            chosen[row.workload, *row.length] = row
    first = [row for row in rows if row.precision == chosen[row.workload, *row.length].precision]
    return first, [row for row in rows if row not in first]


def _works(table: pd.DataFrame) -> Iterator[tuple[Any, pd.DataFrame]]:
    """The rows of each piece of work; of single operations the largest size that most devices measured."""
    for key, rows in table.groupby([*WORK, "model"], dropna=False, sort=False):
        if rows["unit"].iloc[0] in OPERATIONS:
            devices = rows.groupby("batch_size")["device"].nunique()
            rows = rows[rows["batch_size"] == devices[devices == devices.max()].index.max()]
        yield key, rows


def _row(study: StudyResults, fastest: pd.DataFrame) -> Row:
    first = fastest.iloc[0]
    operation = first["unit"] in OPERATIONS
    found = {}
    for name, quantity in QUANTITIES.items():
        rows = fastest if quantity == SECONDS else _same_work(study.cost_choices, first, quantity)
        if not rows.empty:
            found[name] = choice(study, rows, quantity, lacking(name, fastest, rows))
    best = fastest[fastest["device"] == fastest["lowest"]].iloc[0]
    told = (
        [] if operation else changes(study.crossover, first, str(best["device"])) or own_sizes(study.saturation, best)
    )
    epoch = estimate(cell_of(study.summary, best), "epoch_time", seconds, n="n_timed")
    return Row(
        str(first["workload"]),
        str(first["precision"]),
        length_words(first),
        _details(study, first),
        operation,
        found,
        [] if operation else told,
        _missing(study, fastest),
        epoch,
    )


def _details(study: StudyResults, first: pd.Series) -> list[str]:
    """Size of an operation, share of the data, and which of several models of one name it is."""
    if first["unit"] in OPERATIONS:
        size = first["batch_size"]
        told = [f"N = {size}" if first["unit"] == "product" else f"{size} MiB arrays"]
    else:
        told = share_words(first)
    if len(_models(study, first)) > 1:
        told.append(str(first["model"]).removeprefix(f"{first['workload']}, "))
    return told


def _models(study: StudyResults, work: pd.Series) -> dict[str, set[str]]:
    """The models that go by the name of this work, each with its devices; more than one are never compared."""
    rows = study.fastest[alike(study.fastest, work, WORK)]
    return {str(model): set(own["device"]) for model, own in rows.groupby("model", dropna=False, sort=False)}


def _same_work(choices: pd.DataFrame, work: pd.Series, quantity: str) -> pd.DataFrame:
    """Rows of table `cost_choices` for the work of a row of `fastest`."""
    size = ["batch_size"] if work["unit"] in OPERATIONS else []
    return choices[(choices["quantity"] == quantity) & alike(choices, work, [*WORK, "model", *size])]


def _missing(study: StudyResults, rows: pd.DataFrame) -> list[str]:
    """Devices that have cells of this work, but no number at this share of the data, and what became of their runs."""
    own = study.summary[alike(study.summary, rows.iloc[0], WORK)]
    measured = set().union(*_models(study, rows.iloc[0]).values())
    found = []
    for device in study.devices:
        cells = own[own["device"] == device]
        if device in measured or cells.empty:
            continue
        status = cells.loc[cells["fraction"] == rows["fraction"].iloc[0], "status"]
        found.append(f"{device}: {str(status.iloc[0]).split(':')[0] if len(status) else 'other shares of the data'}")
    return found
