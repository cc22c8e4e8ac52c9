"""At which batch size another device becomes the faster one: table `crossover` in a few words."""

import pandas as pd

from whichdevice.report.advice import about, judged_words, telling
from whichdevice.report.matching import alike
from whichdevice.report.numbers import Number, cell_number
from whichdevice.report.verdicts import undecided_words
from whichdevice.tables.base import CELL
from whichdevice.tables.crossover import CROSSOVER, ONE_FASTER, ONE_SIZE, SEVERAL
from whichdevice.tables.measured import WORK
from whichdevice.tables.statistics import SAME

Phrase = list[str | Number]
MOST = 3


def changes(crossover: pd.DataFrame, work: pd.Series, best: str) -> list[Phrase]:
    """What is to be said of each pair of devices with the best one in it; what holds for several is said once."""
    paired = (crossover["first"] == best) | (crossover["second"] == best)
    same = paired & alike(crossover, work, [*WORK, "model", "fraction"])
    found: list[Phrase] = []
    for _, row in telling(crossover[same]).iterrows():
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
