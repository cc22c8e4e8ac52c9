"""The verdict: for each workload the fastest, the cheapest and the most frugal device, and how sure that is.

Made of tables `fastest`, `cost_choices`, `summary` and `roofline` alone; words are the decision rule's.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.figures.results import StudyResults
from whichdevice.report.changes import Phrase, changes, own_sizes
from whichdevice.report.matching import alike, cell_of
from whichdevice.report.numbers import Estimate, cell_number, estimate, number, seconds
from whichdevice.report.verdicts import undecided_words
from whichdevice.tables.cost_choices import JOULES, MORE, USD
from whichdevice.tables.decision import SAME, UNDECIDED
from whichdevice.tables.fastest import SECONDS
from whichdevice.tables.measured_values import OPERATIONS, WORK
from whichdevice.tables.row_words import length_words, share_words

DECIDED, ALONE = "decided", "alone"
PLAIN = "float32"  # what every device and backend can compute in
QUANTITIES = {"fastest": SECONDS, "cheapest": USD, "frugal": JOULES}
ONLY = {SECONDS: "the only one measured", USD: "the only one with a price", JOULES: "the only one with a meter"}
LACKING = {"fastest": "not measured", "cheapest": "has no price", "frugal": "has no meter"}
UNITS = {"product": "TFLOP/s", "gigabyte": "GB/s"}


class Against(NamedTuple):
    """Another device beside the best one: how many times as much it takes."""

    device: str
    ratio: Estimate | None
    words: str


class Choice(NamedTuple):
    """The best device by one quantity; several names where these are the same or nothing is decided between them."""

    devices: list[str]
    state: str  # DECIDED, SAME, UNDECIDED or ALONE
    words: str
    value: Estimate
    settings: str
    others: list[Against]


class Row(NamedTuple):
    """One piece of work on the board."""

    workload: str
    note: str
    operation: bool
    choices: dict[str, Choice]
    changes: list[Phrase]
    missing: list[str]
    epoch: Estimate | None = None


def board(study: StudyResults) -> list[Row]:
    """A row for every workload in each number format and length: those that train first, single operations last."""
    rows = [_row(study, fastest) for _, fastest in _works(study.fastest)]
    order = list(dict.fromkeys(row.workload for row in rows))
    return sorted(rows, key=lambda row: (row.operation, order.index(row.workload)))


def split_board(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of the first screen, one number format for each workload, and the others."""
    chosen: dict[str, str] = {}
    for row in rows:
        precision = _precision(row)
        if row.workload not in chosen or precision == PLAIN:
            chosen[row.workload] = precision
    first = [row for row in rows if _precision(row) == chosen[row.workload]]
    return first, [row for row in rows if row not in first]


def _precision(row: Row) -> str:
    return row.note.split(" · ")[0]


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
    notes = [str(first["precision"]), *length_words(first)]
    if operation:
        notes.append(
            f"N = {first['batch_size']}" if first["unit"] == "product" else f"{first['batch_size']} MiB arrays"
        )
    else:
        notes += share_words(first)
    if len(_models(study, first)) > 1:
        notes.append(str(first["model"]).removeprefix(f"{first['workload']}, "))
    found = {}
    for name, quantity in QUANTITIES.items():
        rows = fastest if quantity == SECONDS else _same_work(study.cost_choices, first, quantity)
        if not rows.empty:
            found[name] = _choice(study, rows, quantity, _lacking(name, fastest, rows))
    best = fastest[fastest["device"] == fastest["lowest"]].iloc[0]
    told = (
        [] if operation else changes(study.crossover, first, str(best["device"])) or own_sizes(study.saturation, best)
    )
    epoch = estimate(cell_of(study.summary, best), "epoch_time", seconds, n="n_ok")
    return Row(
        str(first["workload"]),
        " · ".join(notes),
        operation,
        found,
        [] if operation else told,
        _missing(study, fastest),
        epoch,
    )


def _models(study: StudyResults, work: pd.Series) -> dict[str, set[str]]:
    """The models that go by the name of this work, each with its devices; more than one are never compared."""
    rows = study.fastest[alike(study.fastest, work, WORK)]
    return {str(model): set(own["device"]) for model, own in rows.groupby("model", dropna=False, sort=False)}


def _same_work(choices: pd.DataFrame, work: pd.Series, quantity: str) -> pd.DataFrame:
    """Rows of table `cost_choices` for the work of a row of `fastest`."""
    size = ["batch_size"] if work["unit"] in OPERATIONS else []
    return choices[(choices["quantity"] == quantity) & alike(choices, work, [*WORK, "model", *size])]


def _choice(study: StudyResults, rows: pd.DataFrame, quantity: str, lacking: list[Against]) -> Choice:
    best = rows[rows["device"] == rows["lowest"]].iloc[0]
    others = [_against(row) for _, row in rows[rows["device"] != best["device"]].iterrows()]
    verdicts = rows.loc[rows["device"] != best["device"]].set_index("device")["verdict"].fillna(UNDECIDED)
    equals = [str(name) for name, verdict in verdicts.items() if verdict != MORE]
    state, words = DECIDED, DECIDED
    if rows["device"].nunique() == 1:
        state, words = ALONE, ONLY[quantity]
    elif (verdicts == UNDECIDED).any():
        needed = rows.loc[rows["verdict"].fillna(UNDECIDED) == UNDECIDED, "n_to_decide"].max()
        state, words = UNDECIDED, undecided_words(needed)
    elif (verdicts == SAME).any():
        state = words = SAME
    value = _speed(study, best) if quantity == SECONDS else _cost(best, quantity)
    return Choice([str(best["device"]), *equals], state, words, value, _settings(best), [*others, *lacking])


def _lacking(name: str, fastest: pd.DataFrame, rows: pd.DataFrame) -> list[Against]:
    """The devices that did this work and have no number of this kind."""
    missing = fastest.loc[~fastest["device"].isin(rows["device"]), "device"]
    return [Against(str(device), None, LACKING[name]) for device in missing]


def _against(row: pd.Series) -> Against:
    if pd.isna(row["ratio"]):
        return Against(str(row["device"]), None, "no repeat of the same work in common")
    words = {MORE: "", UNDECIDED: undecided_words(row["n_to_decide"])}.get(row["verdict"], str(row["verdict"]))
    return Against(str(row["device"]), estimate(row, "ratio"), words)


def _cost(best: pd.Series, quantity: str) -> Estimate:
    per = {USD: "USD", JOULES: "J"}[quantity]
    if best["unit"] in OPERATIONS:  # the column's heading speaks of examples
        per = f"{per} per million {best['unit']}s"
    found = estimate(best, "value", unit=per, n="n_value")
    assert found is not None
    return found


def _speed(study: StudyResults, best: pd.Series) -> Estimate:
    """The speed of the very cell that was chosen, as tables `summary` and `roofline` hold it."""
    unit = UNITS.get(best["unit"], f"{best['unit']}s/s")
    if best["unit"] == "product":
        found = estimate(cell_of(study.roofline, best), "tflops", unit=unit)
    else:
        found = estimate(cell_of(study.summary, best), "throughput", unit=unit, n="n_ok")
    if found is None:  # six digits of a table that lacks the cell: the time stands in
        value = cell_number(best, "value", number)
        assert value is not None
        found = Estimate(value, f"s per million {best['unit']}s", n=int(best["n_value"]))
    return found


def _settings(row: pd.Series) -> str:
    told = [str(row["backend"])]
    told += [] if row["unit"] in OPERATIONS else [f"batch {row['batch_size']}"]
    return ", ".join([*told, *([] if row["loop"] == "epoch" else [f"loop {row['loop']}"])])


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
