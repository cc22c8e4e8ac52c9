"""Say which device for which batch size, from tables `crossover` and `saturation`, beside rules of thumb."""

from typing import Any

import pandas as pd

from whichdevice.numbers import number
from whichdevice.report.numbers import interval, undecided_words
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words, share_words
from whichdevice.tables.batch_sizes import CROSSOVER, ONE_FASTER, ONE_SIZE, OWN_BEST, SEVERAL
from whichdevice.tables.decision_rule import SAME, UNDECIDED
from whichdevice.tables.measured import enough_repeats, without_rehearsals

MOST_SENTENCES = 8


def advice(study: StudyResults) -> list[dict[str, Any]]:
    """Return, per workload with comparisons, sentences on devices and on batch sizes, and how many were left out."""
    found = []
    for workload in study.measured["workload"].unique():
        devices = at_largest_share(study.crossover[study.crossover["workload"] == workload])
        sizes = fastest(study.saturation[study.saturation["workload"] == workload])
        several = list(several_models(pd.concat([devices, sizes])))
        of_devices, of_sizes = several[: len(devices)], several[len(devices) :]
        sentences = [
            crossover_sentence(row, named) for (_, row), named in zip(devices.iterrows(), of_devices, strict=True)
        ]
        entry = {
            "workload": workload,
            "devices": sentences[:MOST_SENTENCES],
            "sizes": [
                saturation_sentence(row, named) for (_, row), named in zip(sizes.iterrows(), of_sizes, strict=True)
            ],
            "more": max(0, len(sentences) - MOST_SENTENCES),
        }
        found += [entry] if entry["devices"] or entry["sizes"] else []
    return found


def uncompared(study: StudyResults) -> list[str]:
    """A sentence for each set of devices whose workloads leave no two devices to compare."""
    together: dict[str, list[str]] = {}
    for workload, cells in without_rehearsals(study.measured).groupby("workload", sort=False):
        if not (study.crossover["workload"] == workload).any():
            together.setdefault(" and ".join(cells["device"].unique()), []).append(str(workload))
    why = {True: "never at the same batch size and settings", False: "one device only, so there is nothing to compare"}
    return [f"Measured on {names}, {why[' and ' in names]}: {', '.join(own)}." for names, own in together.items()]


def at_largest_share(rows: pd.DataFrame) -> pd.DataFrame:
    """Return each pair's rows at its largest share of the data; with own best settings, where these were compared."""
    if rows.empty:
        return rows
    work = ["first", "second", "precision", "sequence_length", "model"]
    rows = rows[rows["fraction"] == rows.groupby(work, dropna=False)["fraction"].transform("max")]
    own = rows["comparison"] == OWN_BEST
    has_own = own.groupby([rows[name] for name in work], dropna=False).transform("any")
    return rows[own | ~has_own]


def several_models(rows: pd.DataFrame) -> "pd.Series[bool]":
    """For each row whether its workload and length have several models here, which then have to be named."""
    return rows.groupby(["workload", "sequence_length"], dropna=False)["model"].transform("nunique") > 1


def fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """For each device, length and model, at its largest share of the data, the settings of the highest throughput.

    Of those with enough good runs at their best size.
    """
    if rows.empty:
        return rows
    own = ["device", "sequence_length", "model"]
    rows = rows[rows["fraction"] == rows.groupby(own, dropna=False)["fraction"].transform("max")]
    rows = rows[enough_repeats(rows["n_best"], [rows[name] for name in own])]
    return rows.loc[rows.groupby(own, dropna=False, sort=False)["best"].idxmax()]


def crossover_sentence(row: pd.Series, several: bool = False) -> str:
    """One row of table `crossover` in words, its model named where its work has `several`."""
    model = f"; {row['model']}" if several else ""
    return f"{_verdict(row)} ({_basis(row)}{model})."


def _verdict(row: pd.Series) -> str:
    first, second, what = row["first"], row["second"], "N" if row["quantity"] == "tflops" else "batch"
    low, high = row["crossover_low"], row["crossover_high"]
    if row["verdict"] in (CROSSOVER, SEVERAL):
        one_of = " (one of several changes)" if row["verdict"] == SEVERAL else ""
        return (
            f"{row['faster_above']} is faster from about {what} {about(row['crossover'])} "
            f"{interval(low, high, about)}; below, {row['faster_below']}{one_of}"
        )
    if row["verdict"] in (UNDECIDED, SAME):
        return f"{second} or {first}: {_not_faster(row)}{_ratios(row)}"
    if row["verdict"] == ONE_SIZE:
        ratio = f"{second} / {first} = {number(row['largest_ratio'])}"
        bounds = interval(row["largest_ratio_low"], row["largest_ratio_high"]) or "(no interval)"
        faster = _not_faster(row) if pd.isna(row["faster"]) else f"{row['faster']} is faster"
        return f"{faster}, {ratio} {bounds}, at the only {what} that both ran; no crossover can be computed"
    faster = f"{row['faster']} is faster than {first if row['faster'] == second else second}"
    if row["verdict"] == ONE_FASTER:
        return f"{faster} at every measured {what}{_ratios(row)}"
    others = [f"{words} at {_sizes(row[name])}" for name, words in _others(row).items() if pd.notna(row[name])]
    return f"{faster} at {what} {_sizes(row['faster_at'])}; {'; '.join(others)}"


def _others(row: pd.Series) -> dict[str, str]:
    """Where no device is faster: the column of the sizes, and what is so there."""
    return {"same_at": SAME, "undecided": undecided_words(row["n_to_decide"])}


def _not_faster(row: pd.Series) -> str:
    return SAME if pd.isna(row["undecided"]) else undecided_words(row["n_to_decide"])


def _sizes(listed: str) -> str:
    return ", ".join(listed.split())


def _ratios(row: pd.Series) -> str:
    """The ratio at both ends of the sizes."""
    ends = []
    for end in ("smallest", "largest"):
        bounds = interval(row[f"{end}_ratio_low"], row[f"{end}_ratio_high"])
        ends.append(f"{number(row[f'{end}_ratio'])} {bounds or '(no interval)'}")
    return f": {row['second']} / {row['first']} = {ends[0]} at the smallest, {ends[1]} at the largest"


def _basis(row: pd.Series) -> str:
    """By what and where it was measured."""
    letter = "N" if row["quantity"] == "tflops" else "b"
    sizes = str(row["sizes"]).split()
    reach = f"{letter}{sizes[0]}" + (f"…{letter}{sizes[-1]}, {len(sizes)} sizes" if len(sizes) > 1 else "")
    if row["comparison"] == OWN_BEST:
        means = "each with its fastest backend and loop"
    else:
        means = str(row["backend"]) + ("" if row["loop"] == "epoch" else f", loop {row['loop']}")
    around = ""
    if pd.notna(row["size_below"]):
        around = f", the change between {letter}{row['size_below']} and {letter}{row['size_above']}"
    return f"{means}, {row['precision']}{_where(row)}; measured {reach}{around}; n = {row['n']}; {row['setting']}"


def _where(row: pd.Series) -> str:
    """Sequence length and share of the data, where it has one or not all."""
    return "".join(f", {words}" for words in (*length_words(row), *share_words(row)))


def saturation_sentence(row: pd.Series, several: bool = False) -> str:
    """One row of table `saturation` in words, its model named where its work has `several`."""
    few = "" if pd.isna(row["left_out"]) else f" Too few good runs to judge: {row['left_out'].replace(' ', ', ')}."
    return _fastest_at(row, f", {row['model']}" if several else "") + few


def _fastest_at(row: pd.Series, model: str) -> str:
    product = row["quantity"] == "tflops"
    what, unit = ("N", "TFLOP/s") if product else ("batch", f"{row['unit']}s/s")
    fastest = f"{row['device']}{_where(row)}{model}: fastest at {what} {row['best_size']}"
    judged = judged_words(row)
    if row["gain"] == 1:
        of_these = " of these" if judged else ""
        return f"{fastest}, the smallest{judged}, {number(row['best'])} {unit}; no larger one{of_these} is faster."
    bounds = interval(row["gain_low"], row["gain_high"])
    gain = f"{number(row['gain'])} times the smallest{judged}" + (f" {bounds}" if bounds else "")
    best = f"{fastest}, {number(row['best'])} {unit}, {gain}"
    if row["still_rising"]:
        return f"{best}; still rising there, so a larger one may be faster still."
    if row["near_size"] == row["best_size"]:
        return f"{best}; no smaller one{judged} comes within 5 %."
    bounds = interval(100 * row["near_ratio_low"], 100 * row["near_ratio_high"])
    share = f"{number(100 * row['near_ratio'])} %" + (f" {bounds}" if bounds else "")
    return f"{best}; within 5 % of it from {what} {row['near_size']} ({share})."


def judged_words(row: pd.Series) -> str:
    """What a row of table `saturation` is true of, where some sizes have too few good runs to judge."""
    return "" if pd.isna(row["left_out"]) else " of the sizes judged"


def about(value: float) -> str:
    """A batch size between measured ones: more digits would promise too much."""
    return number(float(f"{value:.{2 if value < 100 else 3}g}"))
