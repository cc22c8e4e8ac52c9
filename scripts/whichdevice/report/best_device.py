"""Choose the best device for one piece of work by one quantity, with the other devices and how sure the choice is."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from whichdevice.report.numbers import Estimate, cell_number, cell_of, estimate, number, undecided_words, with_setting
from whichdevice.results import StudyResults
from whichdevice.tables.base import repeats_words
from whichdevice.tables.cost_choices import JOULES, LESS, MORE, USD
from whichdevice.tables.fastest import SECONDS
from whichdevice.tables.measured import OPERATIONS
from whichdevice.tables.statistics import SAME, UNDECIDED

METERED = {"cpu": "processor packages alone, memory not counted", "gpu": "board alone, host not counted"}
PRICED_PART = re.compile(r"\b\w+ only\b")  # in the price's own words, which the price sheet gives


def scopes(study: StudyResults, devices: Iterable[str], quantity: str) -> dict[str, str]:
    """Return what is counted for each device, where known; empty where all devices count the same."""
    found = {device: _scope(study, device, quantity) for device in devices}
    return {device: words for device, words in found.items() if words} if len(set(found.values())) > 1 else {}


def _scope(study: StudyResults, device: str, quantity: str) -> str | None:
    if quantity == JOULES:
        return METERED.get(study.kind(device))
    if quantity != USD:
        return None
    prices = study.costs.loc[study.costs["device"] == device, "price"].dropna()
    only = PRICED_PART.search(str(prices.iloc[0])) if len(prices) else None
    return f"price of the {only[0]}" if only else None


DECIDED, ALONE = "decided", "alone"
DISAGREEING = f"{UNDECIDED} (means and paired repeats disagree)"
ONLY = {SECONDS: "the only one measured", USD: "the only one with a price", JOULES: "the only one with a meter"}
LACKING = {"fastest": "not measured", "cheapest": "has no price", "lowest_energy": "has no meter"}
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
    unlike: bool = False  # the meters or prices of the devices count other things


def choice(study: StudyResults, rows: pd.DataFrame, quantity: str, without: list[Against]) -> Choice:
    """Of rows of table `fastest` or `cost_choices`, one a device; `without`: the devices that have no such number."""
    best = rows[rows["device"] == rows["lowest"]].iloc[0]
    counted = scopes(study, rows["device"], quantity)
    rest = rows[rows["device"] != best["device"]]
    others = [_against(row, _known(study, row, counted)) for _, row in rest.iterrows()]
    verdicts = rest.set_index("device")["verdict"].fillna(UNDECIDED)
    equals = [str(name) for name, verdict in verdicts.items() if verdict != MORE]
    state, words = DECIDED, DECIDED
    if rows["device"].nunique() == 1:
        state, words = ALONE, ONLY[quantity]
    elif (verdicts == UNDECIDED).any():
        needed = rows.loc[rows["verdict"].fillna(UNDECIDED) == UNDECIDED, "n_to_decide"].max()
        state, words = UNDECIDED, undecided_words(needed)
    elif (verdicts == LESS).any():  # its common repeats take less, the mean of all its repeats takes more
        state, words = UNDECIDED, DISAGREEING
    elif (verdicts == SAME).any():
        state = words = SAME
    value = _speed(study, best) if quantity == SECONDS else _cost(best, quantity)
    settings = "; ".join([_settings(best), *_known(study, best, counted)])
    return Choice([str(best["device"]), *equals], state, words, value, settings, [*others, *without], bool(counted))


def lacking(name: str, fastest: pd.DataFrame, rows: pd.DataFrame) -> list[Against]:
    """The devices that did this work and have no number of this kind."""
    missing = fastest.loc[~fastest["device"].isin(rows["device"]), "device"]
    return [Against(str(device), None, LACKING[name]) for device in missing]


def _known(study: StudyResults, row: pd.Series, counted: dict[str, str]) -> list[str]:
    """What is to be known of one device's number: repeats that failed, and what its meter or price counts."""
    cell = cell_of(study.summary, row)
    scope = counted.get(str(row["device"]))
    return [*([] if cell.empty else repeats_words(cell)), *([scope] if scope else [])]


def _against(row: pd.Series, known: list[str]) -> Against:
    if pd.isna(row["ratio"]):
        return Against(str(row["device"]), None, "; ".join(["no repeat of the same work in common", *known]))
    words = {MORE: "", UNDECIDED: undecided_words(row["n_to_decide"])}.get(row["verdict"], str(row["verdict"]))
    told = [with_setting(words, row), *known]
    return Against(str(row["device"]), estimate(row, "ratio"), "; ".join(filter(None, told)))


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
        found = estimate(cell_of(study.summary, best), "throughput", unit=unit, n="n_timed")
    if found is None:  # the tables lack the cell: give the time instead
        value = cell_number(best, "value", number)
        assert value is not None
        found = Estimate(value, f"s per million {best['unit']}s", n=int(best["n_value"]))
    return found


def _settings(row: pd.Series) -> str:
    told = [str(row["backend"])]
    told += [] if row["unit"] in OPERATIONS else [f"batch {row['batch_size']}"]
    return ", ".join([*told, *([] if row["loop"] == "epoch" else [f"loop {row['loop']}"])])
