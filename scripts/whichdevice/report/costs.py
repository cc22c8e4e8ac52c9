"""Cost and energy, and what it took to reach each target, as the page shows them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from whichdevice.report.numbers import cell_number, interval, number, seconds, share, verdict_words, with_setting
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words, share_words
from whichdevice.tables.cost_choices import JOULES, LESS, MORE, USD
from whichdevice.tables.measured import OPERATIONS, WORK
from whichdevice.tables.statistics import UNDECIDED

WORDS = {USD: ("Cheapest", "USD", "costs"), JOULES: ("Lowest energy", "J", "draws")}
MUCH_BLUR = 0.02


def cost_section(study: StudyResults) -> dict[str, Any]:
    """Everything of the section; `rows` is empty where no device has a price or a meter."""
    return {
        "sentences": [_sentence(rows) for rows in _works(study.cost_choices)],
        "rows": [_row(row) for rows in _together(study.cost_choices) for _, row in rows.iterrows()],
        "prices": list(_prices(study)),
        "meters": list(_meters(study)),
        "targets": [_target_row(row) for _, row in study.time_to_target.iterrows() if pd.notna(row["target"])],
        "untargeted": list(_untargeted(study.time_to_target)),
    }


def _works(choices: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each quantity and piece of work that trains."""
    yield from (rows for rows in _together(choices) if rows["unit"].iloc[0] not in OPERATIONS)


def _together(choices: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The rows of each piece of work, money before energy."""
    size = choices["batch_size"].where(choices["unit"].isin(OPERATIONS), 0)
    for _, work in choices.groupby([*(choices[name] for name in [*WORK, "model"]), size], dropna=False, sort=False):
        yield from (rows for _, rows in work.groupby("quantity", sort=False))


def _sentence(rows: pd.DataFrame) -> str:
    best = rows[rows["device"] == rows["lowest"]].iloc[0]
    title, unit, takes = WORDS[best["quantity"]]
    bounds = interval(best["value_low"], best["value_high"]) or "(no interval)"
    work = ", ".join([best["precision"], *length_words(best)])
    told = (
        f"{best['workload']} {work}: "
        f"{number(best['value'])} {unit} {bounds} per million {best['unit']}s on {_where(best)}"
    )
    others = rows[rows["device"] != best["device"]]
    if others.empty:
        return f"{told}; no other device with a {'price' if best['quantity'] == USD else 'meter'} to compare."
    undecided = others["verdict"].fillna(UNDECIDED).isin([UNDECIDED, LESS]).any()
    lead = f"{title} so far, undecided" if undecided else title
    return f"{lead}: {told}; {'; '.join(_against(row, takes) for _, row in others.iterrows())}."


def _where(row: pd.Series) -> str:
    loop = "" if row["loop"] == "epoch" else f", loop {row['loop']}"
    size = {"product": "N{}", "gigabyte": "{} MiB"}.get(row["unit"], "b{}").format(row["batch_size"])
    return f"{row['device']} ({row['backend']}, {size}{loop})"


def _against(row: pd.Series, takes: str) -> str:
    if pd.isna(row["ratio"]):
        return f"{_where(row)} not compared: no repeat of the same work in common"
    bounds = interval(row["ratio_low"], row["ratio_high"]) or "(no interval)"
    told = f"{verdict_words(row)}, n = {row['n']}, {row['setting']}"
    return f"{_where(row)} {takes} {number(row['ratio'])} {bounds} times as much: {told}"


def _row(row: pd.Series) -> dict[str, Any]:
    words = {MORE: "more", LESS: "less"}
    lowest = row["device"] == row["lowest"]
    return {
        "what": WORDS[row["quantity"]][1],
        "workload": row["workload"],
        "work": ", ".join([row["precision"], *length_words(row)]),
        "where": _where(row),
        "value": cell_number(row, "value"),
        "beside": f"{row['unit']}s " + (interval(row["value_low"], row["value_high"]) or ""),
        "n": row["n_value"],
        "ratio": cell_number(row, "ratio"),
        "ratio_interval": interval(row["ratio_low"], row["ratio_high"]),
        "verdict": "lowest"
        if lowest
        else with_setting(words.get(row["verdict"], verdict_words(row)), row)
        if pd.notna(row["ratio"])
        else "–",
        "source": row["source"] if pd.notna(row["source"]) else "",
    }


def _prices(study: StudyResults) -> Iterator[str]:
    told_once = study.costs.drop_duplicates(["device", "price"])  # several where cards of several names ran
    for device, hour, told in zip(*(told_once[name] for name in ("device", "usd_per_hour", "price")), strict=True):
        yield f"{device}: {told}" if pd.isna(hour) else f"{device}: {number(hour)} USD an hour ({told})"


def _meters(study: StudyResults) -> Iterator[str]:
    for device, rows in study.costs.groupby("device", sort=False):
        told = "; ".join(dict.fromkeys(rows["meter"].dropna())) or "no meter"
        watts = rows["watts"].dropna()
        text = f"{device}: {told}"
        if len(watts):
            ends = dict.fromkeys([number(watts.min()), number(watts.max())])
            text += f", {' to '.join(ends)} W over the steady state"
        blur = rows["joules_blur"].max()
        if blur > MUCH_BLUR:
            text += f"; its update time may hide up to {number(min(100, 100 * blur))} % of a reading"
            text += ": take more measure.seconds"
        yield text


def _target_row(row: pd.Series) -> dict[str, Any]:
    better = "≥" if row["better"] == "higher" else "≤"
    loop = [] if row["loop"] == "epoch" else [f"loop {row['loop']}"]
    more = " or more" if row["n_timed_out"] else ""
    kind, loss = ("validation" if "validation" in row["quantity"] else "training"), "loss" in row["quantity"]
    return {
        "workload": row["workload"],
        "where": f"{row['device']} b{row['batch_size']}",
        "settings": " · ".join([row["backend"], row["precision"], *share_words(row), *loop]),
        "target": f"{kind} {'loss' if loss else row['metric']} {better} {number(row['target'])}",
        "target_source": row["target_source"],
        "reached": f"{row['n_reached']} of {row['n']}",
        "note": f"best {share(row['best'])} in {row['given_epochs']}{more} epochs"
        if row["n_reached"] < row["n"]
        else "",
        "disturbed": ", ".join(
            f"{row[column]} {word}"
            for column, word in (("n_disturbed", "disturbed"), ("n_timed_out", "ran out of time"))
            if row[column]
        ),
        "seeds": "" if row["n_seeds"] == row["n"] else f"{row['n_seeds']} different seeds",
        **{name: _taken(row, name, written) for name, written in WRITTEN.items()},
        "source": row["source"] if pd.notna(row["source"]) else "",
    }


WRITTEN = {"epochs": number, "seconds": seconds, "seconds_from_start": seconds, "usd": number, "joules": number}


def _taken(row: pd.Series, name: str, written: Any) -> tuple[str, str]:
    """A mean with its interval where every run reached the target; else the median, which may be never."""
    if pd.notna(row[name]):
        return written(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"], written) or ""
    median = row[f"{name}_median"]
    if pd.isna(median):
        return "–", ""
    return ("never", "median") if np.isinf(median) else (written(median), "median")


def _untargeted(table: pd.DataFrame) -> Iterator[str]:
    """Workloads without a target, with what to do about it."""
    for reason, rows in table[table["target"].isna()].groupby("target_source", sort=False):
        yield f"{', '.join(rows['workload'].unique())}: {reason}"
