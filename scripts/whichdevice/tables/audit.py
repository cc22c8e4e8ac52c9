"""Make table `audit`.

Every verdict and every reason is computed: from the claim, the hardware sheet, analytic operations, the source's other
claims and what was measured. Hand-kept are the claims themselves, the sheet and, where a source shows it, a suspected
factor.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from whichdevice.numbers import number, percent
from whichdevice.tables import makes
from whichdevice.tables.base import Column, Sources, table
from whichdevice.tables.hardware import Sheet
from whichdevice.tables.published import COLUMNS as PUBLISHED
from whichdevice.tables.published import (
    LOOP,
    MATCHING,
    RATE,
    Claim,
    Peak,
    Work,
    epoch_seconds,
    known_work,
    parse_number,
    peak,
    seconds,
    siblings,
    tflops,
    their_precision,
)

IMPOSSIBLE, POSSIBLE, UNKNOWN, NO_SPEED = "impossible", "possible", "unknown", "no speed"
WAIT = "tpu_init_time"
IDLE = 0.1  # share of the peak below which arithmetic was not what took the time
TARGETS = {"TPU v2-8": ("TPU v2", 8)}  # row of the sheet and devices that were compiled for, by how sources name them

KEY = ["source", "published_device", "published_workload", "published_batch_size", "metric", "unit"]
CLAIM = ["source", "date", "published_device", "device_class", "published_workload", "published_batch_size"]
HERE = ["measured", "measured_low", "measured_high", "ratio", "n", "device", "kind", "device_name", "backend"]
HERE += ["precision", "loop", "data", "note"]

COLUMNS: dict[str, Column] = {
    **{name: PUBLISHED[name] for name in [*CLAIM, "metric", "value", "unit", "caveat"]},
    "possible": Column("text", "impossible: beyond the sheet's peak; possible; unknown; no speed: a quality"),
    "claimed_tflops": Column("float", "TFLOP/s that the claim implies, by analytic operations"),
    "sheet": Column("text", "chips and row of config/hardware.csv that the published device is taken for"),
    "sheet_tflops": Column("float", "TFLOP/s by that sheet, all chips, in the quickest format"),
    "of_sheet": Column("float", "claimed_tflops / sheet_tflops; above 1 is impossible"),
    "why": Column("text", "the arguments, computed from numbers"),
    **{name: PUBLISHED[name] for name in HERE},
    "here": Column("text", "not measured here, and why; empty where there is a measured number"),
    "forecast": Column("float", "s a step on the published device; a forecast, nobody ran it"),
    "forecast_low": Column("float", "s, lower end of its 80 % interval"),
    "forecast_high": Column("float", "s, upper end of its 80 % interval"),
    "evidence": Column("text", "published; measured and forecast columns are named so"),
}


@makes("each published figure, whether its device could have done it, and what its recipe gives here", COLUMNS)
def make_audit(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return audit_table(
        sources.claimed, sources.table("published"), sources.table("summary"), sources.table("forecasts"), sources.sheet
    )


def audit_table(
    published: Sequence[Claim], beside: pd.DataFrame, summary: pd.DataFrame, forecasts: pd.DataFrame, sheet: Sheet
) -> pd.DataFrame:
    """A row per published figure; `beside` is table `published`, `forecasts` may be empty."""
    work = known_work(summary)
    keys = beside[KEY].astype({"published_batch_size": "float"}).astype("object")
    groups = dict(iter(beside.groupby(keys.where(keys.notna(), None).apply(tuple, axis=1))))
    rows = []
    for claim in published:
        found = _best(groups.get(_key(claim)), claim)
        rows.append(_row(claim, published, work.get(claim["workload"]), found, forecasts, sheet, summary))
    return table(rows, COLUMNS)


def _key(claim: Claim) -> tuple[Any, ...]:
    names = (claim["source"], claim["device"], claim["workload"])
    return (*names, parse_number(claim["batch_size"]), claim["metric"], claim["unit"] or None)


def _row(
    claim: Claim, published: Sequence[Claim], work: Work | None, found: pd.Series | None, forecasts: pd.DataFrame,
    sheet: Sheet, summary: pd.DataFrame,
) -> dict[str, Any]:  # fmt: skip
    rate, most = tflops(claim, work), peak(claim, sheet)
    expected = _forecast(claim, forecasts)
    why = [*_physical(claim, rate, most), *_factor(claim, rate, most), *_consistent(claim, published, work)]
    why += _device_time(claim, expected)
    return {
        **{name: claim[name] or None for name in ("source", "date", "device_class", "metric", "unit", "caveat")},
        "published_device": claim["device"],
        "published_workload": claim["workload"],
        "published_batch_size": parse_number(claim["batch_size"]),
        "value": parse_number(claim["value"]),
        "possible": _possible(claim, rate, most),
        "claimed_tflops": rate,
        "sheet": most.name if most else None,
        "sheet_tflops": most.tflops if most else None,
        "of_sheet": rate / most.tflops if rate and most else None,
        "why": "; ".join(why) or None,
        **({} if found is None else {name: found[name] for name in HERE}),
        "here": _not_here(claim, summary) if found is None else None,
        **expected,
        "evidence": "published",
    }


def _best(rows: pd.DataFrame | None, claim: Claim) -> pd.Series | None:
    """Return the measured cell to show: same kind of device, then comparable, then same format and loop, then best."""
    if rows is None or rows["measured"].isna().all():
        return None
    rows = rows[rows["measured"].notna()]
    matching = MATCHING[claim["metric"], claim["unit"]]
    higher = matching.higher_is_better or "accuracy" in claim["metric"]
    order = pd.DataFrame(
        {
            "other": rows["kind"] != claim["device_class"],
            "unlike": rows["ratio"].isna(),
            "precision": rows["precision"] != their_precision(claim),
            "loop": rows["loop"] != LOOP,
            "value": -rows["measured"] if higher else rows["measured"],
        }
    )
    ranked = order.sort_values(["other", "unlike", "precision", "loop", "value"], kind="stable")
    return rows.loc[ranked.index[0]]


def _possible(claim: Claim, rate: float | None, most: Peak | None) -> str:
    timed = seconds(claim) is not None and claim["metric"] != WAIT
    if claim["unit"] != RATE and not timed and claim["value"]:
        return NO_SPEED
    if rate is None or most is None:
        return UNKNOWN
    return IMPOSSIBLE if rate > most.tflops else POSSIBLE


def _physical(claim: Claim, rate: float | None, most: Peak | None) -> Iterator[str]:
    if not claim["value"]:
        yield "no number was published"
    elif claim["metric"] == WAIT:
        yield "a wait, no arithmetic"
    elif _possible(claim, rate, most) == NO_SPEED:
        yield "a quality: no physical limit"
    elif rate is None:
        yield "its operations are not known here: no run of this workload"
    elif most is None:
        yield f"it implies {number(rate)} TFLOP/s; its source does not name the device, so there is no peak"
    elif rate > most.tflops:
        yield f"{number(rate)} TFLOP/s is {number(rate / most.tflops)} times the peak of {_sheet(most)}"
    else:
        idle = ": not arithmetic took the time" if rate < IDLE * most.tflops else ""
        yield f"{number(rate)} TFLOP/s, {percent(rate / most.tflops)} of the peak of {_sheet(most)}{idle}"


def _factor(claim: Claim, rate: float | None, most: Peak | None) -> Iterator[str]:
    """What remains once a suspected factor is taken out."""
    factor = parse_number(claim.get("suspect_factor"))
    if factor and rate and most and rate > most.tflops:
        left = rate / factor
        fits = f"{percent(left / most.tflops)} of that peak" if left <= most.tflops else "still beyond that peak"
        yield f"if {claim['suspect']}, it was {number(left)} TFLOP/s, {fits}"


def _consistent(claim: Claim, published: Sequence[Claim], work: Work | None) -> Iterator[str]:
    """What an average holds, and the source's own numbers against each other."""
    whole = work.examples if work else None
    own = epoch_seconds(claim, whole) if whole else None
    later = [seconds(other) for other in siblings(claim, published, "epoch_time")]
    theirs = next((value for value in later if value), None)
    taken, batch = seconds(claim), parse_number(claim["batch_size"])
    beside = f", {number(theirs)} s by its own epoch time" if theirs else ""
    if claim["metric"] == "first_epoch_time" and taken:
        times = f", {number(taken / theirs)} times a later one" if theirs else ""
        yield f"the first epoch, with compilation{times}"
    elif claim["metric"] in ("wall_time", "total_time") and own:
        yield f"{number(own)} s an epoch in the mean, which holds the first one with its compilation{beside}"
    elif claim["metric"] == "step_time" and own and theirs:
        yield f"an epoch of {number(own)} s by this{beside}"
        if claim["unit"] == "us/sample" and batch and abs(own - theirs) < abs(own / batch - theirs):
            wrong = f"an epoch would take {number(own / batch)} s: wrong unit"
            yield f"as time of a step of {batch:.0f}, as it was printed, {wrong}"


def _forecast(claim: Claim, forecasts: pd.DataFrame) -> dict[str, float]:
    """The forecast of the claim's own step; nothing where that step was not compiled."""
    size, length = parse_number(claim["batch_size"]), parse_number(claim.get("sequence_length"))
    targets = [target for start, target in TARGETS.items() if claim["device"].startswith(start)]
    if not targets:
        return {}
    device, devices = targets[0]
    same = (forecasts["module"] == claim["workload"]) & (forecasts["batch_size"] == size)
    same &= (forecasts["device"] == device) & (forecasts["devices"] == devices)
    if length:
        same &= forecasts["sequence_length"] == length
    rows = forecasts[same.fillna(False) & forecasts["step_time"].notna()]
    if rows.empty:
        return {}
    names = {"forecast": "step_time", "forecast_low": "step_time_low", "forecast_high": "step_time_high"}
    return {name: rows[column].iloc[0] for name, column in names.items()}


def _device_time(claim: Claim, expected: Mapping[str, float]) -> Iterator[str]:
    taken = seconds(claim)
    if claim["metric"] == "step_time" and taken and expected:
        step = taken * (float(claim["batch_size"]) if claim["unit"] == "us/sample" else 1.0)
        own, low, high = (number(1e3 * expected[name]) for name in ("forecast", "forecast_low", "forecast_high"))
        yield f"{number(1e3 * step)} ms a step, of which the device needs about {own} ms ({low} to {high}; forecast)"


def _not_here(claim: Claim, summary: pd.DataFrame) -> str:
    of_claim = (summary["module"] == claim["workload"]) & ~summary["mode"].isin(["predict", "generate"])
    own = summary.loc[of_claim, ["n_timed", "batch_size"]]
    size = parse_number(claim["batch_size"])
    if not claim["value"]:
        return "not measured here: no number was published"
    if (own["n_timed"].fillna(0) > 0).sum() == 0:
        return f"not measured here: no run of {claim['workload']}"
    if size and not (own.loc[own["n_timed"].fillna(0) > 0, "batch_size"] == size).any():
        return f"not measured here: no run with batch size {size:.0f}"
    return f"not measured here: no run gave a {claim['metric'].replace('_', ' ')}"


def _sheet(most: Peak) -> str:
    return f"{most.name} ({number(most.tflops)} TFLOP/s by its sheet)"
