"""The verdict: for each workload the fastest, the cheapest and the lowest-energy device, and how sure that is.

Made of the tables alone; the words are the decision rule's. Marks say what limits the verdict and on what it rests.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.numbers import number, seconds
from whichdevice.report.advice import about, at_largest_share, judged_words
from whichdevice.report.numbers import (
    Estimate,
    Number,
    alike,
    cell_number,
    cell_of,
    estimate,
    undecided_words,
    with_setting,
)
from whichdevice.report.statements import BROKEN
from whichdevice.results import StudyResults
from whichdevice.study_cells import repeat_failed, workflow_command
from whichdevice.tables.base import CELL, length_words, repeats_words, share_words
from whichdevice.tables.batch_sizes import CROSSOVER, ONE_FASTER, ONE_SIZE, SEVERAL
from whichdevice.tables.costs import JOULES, LESS, MORE, PER_MILLION, USD
from whichdevice.tables.decision_rule import SAME, UNDECIDED
from whichdevice.tables.measured import OPERATIONS, WORK, measured_values, setting_text, without_rehearsals

METERED = {"cpu": "processor packages alone, memory not counted", "gpu": "board alone, host not counted"}
PRICED_PART = re.compile(r"\b\w+ only\b")  # in the price's own words, which the price sheet gives
DECIDED, ALONE = "decided", "alone"
DISAGREEING = f"{UNDECIDED} (means and paired repeats disagree)"
ONLY = {PER_MILLION: "the only one measured", USD: "the only one with a price", JOULES: "the only one with a meter"}
LACKING = {"fastest": "not measured", "cheapest": "has no price", "lowest_energy": "has no meter"}
SPEED_UNITS = {"product": "TFLOP/s", "gigabyte": "GB/s"}
Phrase = list[str | Number]
MOST = 3
PLAIN = "float32"  # what every device and backend can compute in
QUANTITIES = {"fastest": PER_MILLION, "cheapest": USD, "lowest_energy": JOULES}
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
PER = "per million examples"
WITH = {"cheapest": "price", "lowest_energy": "meter"}
TITLES = {"fastest": "fastest", "cheapest": "cheapest", "lowest_energy": "lowest energy"}
ALONE_IN = {"fastest": "measured", "cheapest": "priced", "lowest_energy": "metered"}
UNLIKE = {"cheapest": "by prices that count different things", "lowest_energy": "by meters that count different things"}


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
    others = [_other(row, _known(study, row, counted)) for _, row in rest.iterrows()]
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
    value = _speed(study, best) if quantity == PER_MILLION else _cost(best, quantity)
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


def _other(row: pd.Series, known: list[str]) -> Against:
    if pd.isna(row["ratio"]):
        return Against(str(row["device"]), None, "; ".join(["no repeat of the same work in common", *known]))
    words = {MORE: "", UNDECIDED: undecided_words(row["n_to_decide"])}.get(row["verdict"], str(row["verdict"]))
    texts = [with_setting(words, row), *known]
    return Against(str(row["device"]), estimate(row, "ratio"), "; ".join(filter(None, texts)))


def _cost(best: pd.Series, quantity: str) -> Estimate:
    per = {USD: "USD", JOULES: "J"}[quantity]
    if best["unit"] in OPERATIONS:  # the column's heading speaks of examples
        per = f"{per} per million {best['unit']}s"
    found = estimate(best, "value", unit=per, n="n_value")
    assert found is not None
    return found


def _speed(study: StudyResults, best: pd.Series) -> Estimate:
    """The speed of the very cell that was chosen, as tables `summary` and `roofline` hold it."""
    unit = SPEED_UNITS.get(best["unit"], f"{best['unit']}s/s")
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
    texts = [str(row["backend"])]
    texts += [] if row["unit"] in OPERATIONS else [f"batch {row['batch_size']}"]
    return ", ".join([*texts, *([] if row["loop"] == "epoch" else [f"loop {row['loop']}"])])


def changes(crossover: pd.DataFrame, work: pd.Series, best: str) -> list[Phrase]:
    """Return a phrase for each pair of devices with the best one in it; equal phrases once."""
    paired = (crossover["first"] == best) | (crossover["second"] == best)
    same = paired & alike(crossover, work, [*WORK, "model", "fraction"])
    found: list[Phrase] = []
    for _, row in at_largest_share(crossover[same]).iterrows():
        if (phrase := _phrase(row)) not in found:
            found.append(phrase)
    return found[:MOST]


def _phrase(row: pd.Series) -> Phrase:
    verdict, sizes = row["verdict"], str(row["sizes"]).split()
    if verdict in (CROSSOVER, SEVERAL):
        ends = [cell_number(row, f"crossover_{end}", about) for end in ("low", "high")]
        bounds: Phrase = [" [", *_parts(ends[0]), " – ", *_parts(ends[1]), "]"] if all(ends) else []
        tail = f", below {row['faster_below']}" + (" (one of several changes)" if verdict == SEVERAL else "")
        return [f"{row['faster_above']} from about ", *_parts(cell_number(row, "crossover", about)), *bounds, tail]
    if verdict == ONE_SIZE:
        return ["one size compared, ", _exact(sizes[0])]
    if verdict == ONE_FASTER:
        return [f"{row['faster']} at every size, ", _exact(sizes[0]), " to ", _exact(sizes[-1])]
    if pd.notna(row["faster"]):
        other = row["first"] if row["faster"] == row["second"] else row["second"]
        at: Phrase = [part for size in str(row["faster_at"]).split() for part in (_exact(size), ", ")][:-1]
        rest = SAME if pd.isna(row["undecided"]) else undecided_words(row["n_to_decide"])
        return [f"{row['faster']} before {other} at ", *at, f"; else {rest}"]
    words = SAME if verdict == SAME else undecided_words(row["n_to_decide"])
    return [f"{row['first']}, {row['second']}: {words} at every size"]


def own_sizes(saturation: pd.DataFrame, best: pd.Series) -> list[Phrase]:
    """Where no other device was compared: at which size this one is fastest, and from which on it is nearly so."""
    same = alike(saturation, best, [*(name for name in CELL if name != "batch_size"), "model"])
    return [_own(row) for _, row in saturation[same].head(1).iterrows()]


def _own(row: pd.Series) -> Phrase:
    size, near = (Number(float(row[name]), str(row[name])) for name in ("best_size", "near_size"))
    if row["still_rising"]:
        return ["fastest at ", size, ", the largest; still rising"]
    nearly: Phrase = [] if near == size else [", within 5 % of it from ", near]
    judged = judged_words(row)
    return ["fastest at ", size, *nearly, *([judged] if judged else [])]


def _exact(text: str) -> Number:
    return Number(float(text), text)


def _parts(number: Number | None) -> list[Number]:
    return [] if number is None else [number]


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
        rows = fastest if quantity == PER_MILLION else _same_work(study.cost_choices, first, quantity)
        if not rows.empty:
            found[name] = choice(study, rows, quantity, lacking(name, fastest, rows))
    best = fastest[fastest["device"] == fastest["lowest"]].iloc[0]
    texts = (
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
        [] if operation else texts,
        _missing(study, fastest),
        epoch,
    )


def _details(study: StudyResults, first: pd.Series) -> list[str]:
    """Size of an operation, share of the data, and which of several models of one name it is."""
    if first["unit"] in OPERATIONS:
        size = first["batch_size"]
        texts = [f"N = {size}" if first["unit"] == "product" else f"{size} MiB arrays"]
    else:
        texts = share_words(first)
    if len(_models(study, first)) > 1:
        texts.append(str(first["model"]).removeprefix(f"{first['workload']}, "))
    return texts


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


class Mark(NamedTuple):
    """A few words, what to do about it, and whether it limits what the verdict is good for."""

    title: str
    text: str = ""
    command: str | None = None
    warning: bool = False


def marks(study: StudyResults) -> list[Mark]:
    """What was not measured first, then what limits the rest, then on what it rests."""
    return [*_absent(study), *_data(study), *_several_models(study), *_mixed(study), *_broken(study), *_basis(study)]


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


def _several_models(study: StudyResults) -> Iterator[Mark]:
    """Yield workloads whose name means several models; only the same model is compared."""
    own = ["workload", "sequence_length"]
    for (workload, _), rows in measured_values(study.runs).groupby(own, dropna=False, sort=False):
        models = rows.groupby("model", sort=False)["device"].unique()
        if len(models) > 1:
            listed = "; ".join(f"{name} on {', '.join(devices)}" for name, devices in models.items())
            yield Mark(f"{workload} is several models", f"not compared with each other: {listed}", None, True)


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
    own = study.study.devices.keys() - study.other_machines
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
    place = setting_text(good["machine"].nunique(), good["session"].nunique())
    yield Mark(place[0].upper() + place[1:], "another machine may answer otherwise" if "one machine" in place else "")
    counts = sorted({int(n) for n in study.measured["n_timed"]})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    yield Mark(f"n = {many}", "processes behind each number" + ("; one gives no interval" if counts[0] == 1 else ""))


def answer_sentences(study: StudyResults, rows: list[Row]) -> list[str]:
    """Sentences: the fastest device over all workloads that train, then the cheapest and the lowest-energy one.

    Single operations count where no devices were compared on anything else.
    """
    if study.measured.empty:
        return ["Nothing was measured yet."]
    trained = [row for row in rows if not row.operation]
    texts = next((part for part in (trained, rows) if _is_compared(part)), None)
    if texts is None:
        return _not_compared(study)
    return [sentence for name in TITLES if (sentence := _sentence(name, texts))]


def compared_words(study: StudyResults) -> list[str]:
    """`answer_sentences` where two measured devices or more were compared, else nothing."""
    first, _ = split_board(board(study))
    return answer_sentences(study, first) if _is_compared(first) else []


def _is_compared(rows: list[Row]) -> bool:
    return any(row.choices["fastest"].state != ALONE for row in rows)


def _not_compared(study: StudyResults) -> list[str]:
    """Why there is no best device; rehearsals are none to compare."""
    real = set(without_rehearsals(study.measured)["device"])
    names = [name for name in study.devices if name in real]
    rehearsals = " and ".join(name for name in study.devices if name not in real)
    if not names:
        texts = f"Only {rehearsals} was measured"
    elif len(names) == 1:
        texts = f"Only {names[0]} was measured"
    else:
        texts = f"Measured: {' and '.join(names)}, never on the same work"
    which = "is" if len(names) > 1 else "device is"
    rehearsed = [f"Rehearsals on virtual replicas, which show no speed: {rehearsals}."] if rehearsals else []
    return [f"{texts}, so which {which} best cannot be said.", *rehearsed]


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
    return f"workloads{compared}, each {' and '.join(apart)} counted separately,"


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
        "lead": answer_sentences(study, first),
        "marks": marks(study),
        "rows": first,
        "others": others,
        "columns": known,
        "titles": {name: title.capitalize() for name, title in TITLES.items()},
        "takes": {"fastest": "time", "cheapest": "money", "lowest_energy": "energy"},
        "per": {"fastest": "", "cheapest": PER, "lowest_energy": PER},
        "kinds": {name: study.kind(name) for name in study.devices},
        "alone": bool(rows) and not _is_compared(rows),
        "sized": any(row.changes for row in rows),
        "unpriced": _unknown(study, known),
        "unlike": any(choice.unlike for row in rows for choice in row.choices.values()),
    }


def _unknown(study: StudyResults, known: list[str]) -> str | None:
    """Return why the cheapest or the lowest-energy device is unknown."""
    prices = "; ".join(dict.fromkeys(f"{row['device']}: {row['price']}" for _, row in study.costs.iterrows()))
    meters = "; ".join(dict.fromkeys(f"{row['device']}: {row['meter']}" for _, row in study.costs.iterrows()))
    texts = [f"The cheapest is not known ({prices})."] if "cheapest" not in known else []
    texts += [f"The lowest energy is not known ({meters})."] if "lowest_energy" not in known else []
    return " ".join(texts) or None
