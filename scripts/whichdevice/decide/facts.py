"""Facts beside the decision, as one dictionary: what limits an answer, what to change, what settles it.

words.py fills training.txt with `facts` of an answer; JSON has the facts in BESIDE. No sentence is here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from whichdevice.base.sheets.prices import OLD_DAYS, Z80
from whichdevice.decide.decide import (
    DAY,
    HOUR,
    NEAR,
    NEAR_SECONDS,
    NEAR_USD,
    SURE,
    Answer,
    Option,
    Reason,
    RuledOut,
    evaluated,
    finite,
    lived_times,
    periods,
)
from whichdevice.decide.rows import ESTIMATED, Row

MEASURING_HOURS = 0.5  # to start a machine and to measure one model there
WORTH_NAMING = 0.2  # of the pick's price
MAX_DAYS = 365  # of a deadline that is worth a sentence
MAX_CHANGES = 4
MOST = 0.5  # of the time, from which on an environment decides
SURELY = 0.95  # of a GPU's memory: nearer to it fragmentation decides
SAFE = 0.9  # of a GPU's memory; a rank holds some layers whole, too
ALIKE = 0.01  # of the time of an example: a larger batch has to save more
LATE = 0.05  # of doubt that is left where the deadline is the doubt
def late_is_the_doubt(answer: Answer) -> bool:
    """Return whether nothing but the deadline makes the pick less than sure."""
    pick = answer.pick
    in_time = 1.0 if pick is None or pick.in_time is None else pick.in_time
    return answer.by != "time" and in_time < SURE and in_time - ((pick and pick.sure) or 0.0) < LATE


def reasons(answer: Answer) -> dict[RuledOut, list[str]]:
    """Return why devices are no choice, with their cards; a spot machine's card is there without that, too."""
    cards_by_reason: dict[RuledOut, list[str]] = {}
    for option in answer.options:
        if option.ruled_out is not None and option.why != Reason.SPOT:
            cards_by_reason.setdefault(option.ruled_out, []).append(option.row.card)
    return cards_by_reason


def feed(answer: Answer) -> dict[str, Any] | None:
    """Return what a TPU that is picked, or the fastest device, needs so that its matrix units work."""
    options = [option for option in (answer.pick, answer.fastest) if option is not None and option.row.feed]
    if not options or options[0].host_decides or answer.work.unit == "step":
        return None
    return {"card": options[0].row.card, **options[0].row.feed[0]}


def pipeline(answer: Answer) -> dict[str, Any] | None:
    """Return how the input pipeline limits the pick, or else the fastest device; None where it hardly does.

    Rates are examples a second: the pipeline's with the best number of workers, `written` with the file's own number
    where that is too small, `core_rate` of each core. `waits` is the device's share of the time, `feed` the cores that
    feed it (0: no number does), `processes` the processes of the training that make batches (0: workers do).
    """
    work = answer.work
    timed = [row for row in work.rows if row.step_time]
    if not work.pipeline_rate or not timed:
        return None
    fastest = min(timed, key=work.batch_time)
    rows = [answer.pick.row, fastest] if answer.pick else [fastest]
    for written in (False, True):
        for row in rows:
            rate = work.rate_on(row, written)
            waits = 1 - row.step_time * rate / work.batch_on(row) if row.step_time and rate else 0.0
            if rate and waits > NEAR:
                best, as_it_is = work.rate_on(row), work.rate_on(row, written=True)
                more_help = best and as_it_is and as_it_is * (1 + NEAR) < best
                workers = work.workers_on(row)
                return {
                    "card": row.card, "free": row.price.kind == "free", "rate": rate,
                    "written": as_it_is if more_help else None,
                    "takes": work.batch_on(row) / (row.step_time or math.inf), "waits": waits, "as_written": written,
                    "core_rate": work.pipeline_core_rate, "cores": row.cores, "feed": work.cores_to_feed(row),
                    "workers": workers, "processes": 0 if workers else row.script_processes,
                }  # fmt: skip
    return None


def hurry(answer: Answer) -> Option | None:
    """Return the fastest choice where it ends noticeably earlier than the pick."""
    pick, fastest = answer.pick, answer.fastest
    if pick is None or fastest is None or fastest is pick or not fastest.seconds or not pick.seconds:
        return None
    return fastest if pick.seconds >= max(fastest.seconds * (1 + NEAR), fastest.seconds + NEAR_SECONDS) else None


def hurry_usd(answer: Answer) -> float | None:
    """Return the price of an hour of waiting above which no choice in time is better than the fastest."""
    fastest = hurry(answer)
    if fastest is None or answer.by != "cost" or fastest.usd is None or fastest.seconds is None:
        return None
    hours = [((option.seconds or 0.0) - fastest.seconds) / HOUR for option in answer.pool]
    saved = [fastest.usd - (math.inf if option.usd is None else option.usd) for option in answer.pool]
    return max((usd / longer for usd, longer in zip(saved, hours, strict=True) if longer > 0 and usd > 0), default=None)


def priced(answer: Answer) -> list[Option]:
    """Return the pick, the next choice and the fastest, as far as providers ask a price for them."""
    named = [answer.pick, *answer.choices[1:2], answer.fastest]
    options = [option for option in named if option is not None and option.row.price.lowest]
    return list({option.device: option for option in options}.values())


def more_time(answer: Answer) -> tuple[Option, int] | None:
    """Return a choice that is cheaper and ends after the deadline, with the days that it needs."""
    pick, cheapest = answer.pick, answer.cheapest
    if pick is None or cheapest is None or cheapest is pick or answer.wants.by != "cost" or cheapest.timely:
        return None
    days = math.ceil((cheapest.seconds_high or cheapest.seconds or math.inf) / DAY)
    saves = (pick.usd or 0.0) - (cheapest.usd or 0.0)
    return (cheapest, days) if saves >= NEAR_USD and days <= MAX_DAYS else None


def running(answer: Answer) -> dict[str, Any] | None:
    """Return how to run the pick: the smallest batch that is nearly the fastest, of those that fit.

    `batch` has the examples of a pass over all devices, `passes` lie between two updates, `time` is an example's time
    over its time in the step that was asked for, `largest` has the examples that fit. None where nothing changes.
    """
    pick, work = answer.pick, answer.work
    if pick is None or work.mode != "train" or pick.row.pass_batch is None:
        return None
    row, batch, step_batch = pick.row, pick.row.pass_batch * pick.row.devices, work.batch_on(pick.row)
    wanted = step_batch if batch < step_batch else None  # examples of an update
    workers = {"workers": work.workers_on(row) if work.pipeline_rate else None}
    known = [run for light in (False, True) for run in _known_runs(answer, wanted, light)]
    if not known:
        run = _run(batch, max(1, (wanted or step_batch) // batch), row.checkpointing, 1.0)
        return run | workers if run["passes"] > 1 or run["checkpointing"] else None
    least = min(run["time"] for run in known)
    best = min((run for run in known if run["time"] <= least * (1 + ALIKE)), key=lambda run: int(run["batch"]))
    return best | workers | {"largest": max(one["batch"] for one in row.passes) * row.devices}


def _run(batch: int, passes: int, checkpointing: bool, time: float) -> dict[str, Any]:
    return {"batch": batch, "passes": passes, "checkpointing": checkpointing, "time": time, "largest": None}


def _known_runs(answer: Answer, wanted: int | None, checkpointing: bool) -> Iterator[dict[str, Any]]:
    """Yield the runs whose time is known: of an update's divisors, else of powers of 2 and the largest of the data.

    The time of a step between two sizes is on a straight line between theirs.
    """
    work, pick = answer.work, answer.pick
    passes = [one for one in pick.row.passes if one["checkpointing"] == checkpointing] if pick else []
    if pick is None or not passes:
        return
    devices = pick.row.devices
    known = np.array(sorted((one["batch"] * devices, one["batch"] * devices * one["time"]) for one in passes)).T
    least, most = known[0][0], known[0][-1]
    if wanted is None:
        data = answer.amount.units / answer.amount.epochs * work.batch / work.units_per_step  # examples
        most = min(most, max(int(data), work.batch_on(pick.row)))
        sizes = np.append(devices * 2 ** np.arange(np.log2(known[0][-1] / devices) + 1), most)
    else:
        small = np.arange(1, math.isqrt(wanted) + 1)
        small = small[wanted % small == 0]
        sizes = np.concatenate([small, wanted // small])
    for size in map(int, sizes[(sizes % devices == 0) & (sizes >= least) & (sizes <= most)]):
        yield _run(size, (wanted or size) // size, checkpointing, float(np.interp(size, *known)) / size)


def saving(answer: Answer) -> float | None:
    """Return how often to save on a pick that may be taken away, in seconds; None where it ends before that pays."""
    pick = answer.pick
    if pick is None or pick.save_every is None or pick.save_every >= (pick.seconds or 0.0):
        return None
    return pick.save_every


def paid(answer: Answer) -> Option | None:
    """Return the cheapest rented device in time beside a free pick; of a spot pick the same card, rented on demand."""
    pick = answer.pick
    if pick is None or pick.row.price.kind not in ("free", "spot"):
        return None
    if pick.row.spot:
        return next((option for option in answer.options if option.device == pick.row.card), None)
    others = (option for option in answer.choices if option.timely and option.row.price.kind not in ("free", "spot"))
    rented = [option for option in others if option.row.rented and option.usd]
    return min(rented, key=lambda option: option.usd or 0.0, default=None)


def spot_offer(answer: Answer) -> Option | None:
    """Return the cheapest device in time that may be taken away, which nobody asked for, where it saves much."""
    pick, wants = answer.pick, answer.wants
    others = [option for option in answer.options if option.why == Reason.SPOT and option.timely]
    best = min(others, key=lambda option: option.usd or 0.0, default=None)
    if best is None or pick is None or wants.only_free or answer.by != "cost":
        return None
    saves = (pick.usd or 0.0) - (best.usd or 0.0)
    return best if saves >= max(WORTH_NAMING * (pick.usd or 0.0), 1.0) else None


def several(answer: Answer) -> list[int]:
    """Return numbers of GPUs that may end in time where one is too late; PyTorch's are asked about by themselves."""
    if not answer.late or answer.work.mode != "train" or any(row.is_several for row in answer.work.rows):
        return []
    fixed = answer.work.fixed
    return [
        count for count in (2, 4, 8) if fixed == "examples" or (fixed == "batch" and answer.work.batch % count == 0)
    ]


def settling(answer: Answer) -> dict[str, Any] | None:
    """Return how to measure the same step on the pick, where that costs much less than a wrong choice."""
    pick = answer.pick
    if pick is None or pick.row.is_here or not pick.row.usd_per_hour or pick.row.is_several or answer.by != "cost":
        return None
    usd = math.ceil(MEASURING_HOURS * pick.row.usd_per_hour)
    if (pick.sure or 0.0) >= SURE or answer.regret_at_most < 2 * usd:
        return None
    row = pick.row
    return {"device": row.target or row.card, "spot": row.spot, "max_usd": usd, "precision": row.precision}


def contradicts(answer: Answer) -> list[Row]:
    """Return measured devices whose time is outside their forecast's interval."""
    return [row for row in answer.work.rows if row.contradicts and row.forecast_time and row.step_time]


def waits_for_host(answer: Answer) -> list[str]:
    """Return the cards elsewhere that wait for the host."""
    elsewhere = [option for option in answer.options if option.seconds and not option.row.is_here]
    return [option.row.card for option in elsewhere if option.host_decides]


def lived_step(answer: Answer) -> dict[str, Any] | None:
    """Return how many times the clean step a script's takes on the pick, or else on the fastest device.

    `prepared` is that with images decoded before; None: none are, or at a known rate. `whole` has the ends of the
    interval of a time that is shown without it: of a rough one.
    """
    habits = answer.work.lived
    options = [option for option in (answer.pick, answer.fastest) if option and not option.row.is_here]
    if habits is None or not options:
        return None
    option, row = options[0], options[0].row
    low, high = option.begun_low, option.begun_high
    times, half = lived_times(answer.work, row), math.exp(Z80 * habits.log_sd)
    prepared = habits.times(row.step_time, row.kernels) if answer.work.decodes_untimed and row.step_time else None
    ends = (low, high) if row.rough and low and high else None
    known = {"card": row.card, "times": times, "low": times / half, "high": times * half}
    return known | {"prepared": prepared, "whole": ends}


def collecting(answer: Answer) -> float | None:
    """Return the share of the pick's time in which a script collects frames; None where it is not most of it."""
    pick, work = answer.pick, answer.work
    if pick is None or not pick.seconds or not work.between:
        return None
    share = answer.amount.units / work.units_on(pick.row) * work.between / pick.seconds
    return share if share >= MOST else None


def evaluating(answer: Answer) -> dict[str, Any] | None:
    """Return a script's evaluation on the pick, or else the fastest device: its share of the hours, and of what.

    `counted` is in that share, `missing` is seen and not counted.
    """
    work = answer.work
    option = next((option for option in (answer.pick, answer.fastest) if option), None)
    row = option.row if option else None
    if not work.evaluations or row is None or not row.step_time:
        return None
    clean = row.step_time * lived_times(work, row)
    share, fed = evaluated(work, row, answer.amount)
    floor = work.floor(row)
    takes = max(clean * share, fed * floor)
    counts = periods(work, row, answer.amount)
    timed = [bool(one.batches and one.every and counts[one.per]) for one in work.evaluations]
    evaluations = list(zip(work.evaluations, timed, strict=True))
    counted, missing = (tuple(one for one, known in evaluations if known == wanted) for wanted in (True, False))
    of_hours = takes / (max(clean, floor) + takes + work.between)
    return {"card": row.card, "share": of_hours, "counted": counted, "missing": missing}


def each_gpu(answer: Answer) -> dict[str, Any] | None:
    """Return how the batch grows with the GPUs; None where they share one, or one is all that is asked about.

    `total` is of the most GPUs, `gpus` of them; None: the answer has rows of one alone, and the script is for several.
    """
    work, gpus = answer.work, max((row.devices for row in answer.work.rows if row.kind == "gpu"), default=0)
    if work.fixed == "batch" or not gpus or (gpus == 1 and not work.for_several):
        return None
    steps = answer.amount.units / (gpus * work.units_per_step) if work.fixed == "steps" else None
    return {"batch": work.batch, "gpus": gpus if gpus > 1 else None, "total": work.batch * gpus, "steps": steps}


def untested(answer: Answer) -> list[str]:
    """Return the cards whose kind or model no published times tested."""
    rows = answer.work.rows
    named = [row.card for row in rows if row.step_time and not row.tested and row.price.kind != "free"]
    return list(dict.fromkeys(named))


def step_notes(answer: Answer) -> dict[str, list[str]]:
    """Return in what forecast steps are others than the devices would run, with the cards; none where it is all."""
    forecasts = [row for row in answer.work.rows if row.rented and row.step_time]
    notes: dict[str, list[str]] = {}
    for row in forecasts:
        for note in row.notes:
            notes.setdefault(note, []).append(row.card)
    cards = {row.card for row in forecasts}
    return {note: [] if set(noted) == cards else list(dict.fromkeys(noted)) for note, noted in notes.items()}


def longest(answer: Answer) -> dict[str, int]:
    """Return the longest sequence that fits each device, the longest first, where that was asked for."""
    asked = [row for row in answer.work.rows if row.longest_sequence is not None]
    lengths = {row.card: row.longest_sequence or 0 for row in asked}
    return dict(sorted(lengths.items(), key=lambda item: -item[1]))


def parts(row: Row) -> dict[str, float]:
    """Return what adds up to the memory that a step takes; `rest` is buffers and fragments.

    The last is what no step has: CUDA's context, or what a TPU's runtime keeps.
    """
    known = {name: nbytes for name, nbytes in row.memory_parts.items() if name != "context" and nbytes}
    fragments = (row.memory_needed or 0.0) - sum(known.values())
    context = row.memory_parts.get("context", 0.0) if known else 0.0
    known |= {"rest": fragments} if known and fragments > 0.01 * (row.memory_needed or 0.0) else {}
    if known and not context and row.memory_kept:
        return known | {"kept": row.memory_kept}
    return known | ({"context": context} if context else {})


def memory(answer: Answer) -> dict[str, Any] | None:
    """Return what takes the memory of the pick, or else of the largest device."""
    traced = [option.row for option in answer.options if option.row.memory_parts]
    largest = max(traced, key=lambda row: row.memory_available or 0.0, default=None)
    shown = next((row for row in traced if answer.pick and row.device == answer.pick.device), largest)
    row = shown if answer.pick else too_small(answer)
    known = parts(row) if row else {}
    if row is None or not known:
        return None
    return {"row": row, "parts": known}


def surely_fits(change: Mapping[str, Any], row: Row) -> bool:
    """Return whether a changed step fits a device."""
    return bool(change["memory_needed"] <= SURELY * (row.memory_available or 0.0))


def changes(row: Row) -> list[Mapping[str, Any]]:
    """Return what takes less memory on a device: of all that fits the largest, then the smallest; else the smallest."""
    fit = sorted((one for one in row.changes if surely_fits(one, row)), key=lambda one: -one["memory_needed"])
    less = [one for one in row.changes if one["memory_needed"] < SAFE * (row.memory_needed or 0.0)]
    return [*fit[:1], *fit[1:][1 - MAX_CHANGES :]] or sorted(less, key=lambda one: one["memory_needed"])[:1]


def gpus_that_hold(row: Row) -> int | None:
    """Return how many GPUs hold a step by FSDP, which shares weights, gradients and the optimiser's state out."""
    if row.devices > 1 or row.kind != "gpu":
        return None
    shared = sum(row.memory_parts.get(name, 0.0) for name in ("weights", "gradients", "optimizer"))
    on_each, room = (row.memory_needed or 0.0) - shared, SAFE * (row.memory_available or 0.0)
    return next((count for count in (2, 4, 8) if shared / count + on_each <= room), None)


def change(answer: Answer) -> dict[str, Any] | None:
    """Return what to change so that the step fits a device that is too small: a cheaper one, or where none holds it.

    `least` is the fastest change that surely fits.
    """
    row = to_enlarge(answer) if answer.pick else too_small(answer)
    if row is None:
        return None
    fit = [one for one in row.changes if surely_fits(one, row)]
    tune = answer.pick is not None and answer.work.tunable and answer.work.mode == "train"
    known = {"row": row, "changes": changes(row), "gpus": gpus_that_hold(row), "tune": tune}
    return known | {"least": min(fit, key=lambda one: one["time"], default=None)}


def to_enlarge(answer: Answer) -> Row | None:
    """Return the largest traced device that costs less an hour than the pick, or is tight, and is too small."""
    pick = answer.pick
    traced = [option.row for option in answer.options if option.row.memory_parts]
    if pick is None or any(row.devices > 1 for row in traced):
        return None
    hourly = math.inf if pick.row.usd_per_hour is None or pick.row.is_here else pick.row.usd_per_hour
    small = [row for row in traced if row.memory_tight or (row.fits is False and (row.usd_per_hour or 0.0) < hourly)]
    return max(small, key=lambda row: row.memory_available or 0.0, default=None)


def too_small(answer: Answer) -> Row | None:
    """Return the largest device where nothing holds the step; None where another reason rules some out."""
    rows = [option.row for option in answer.options if option.row.memory_needed and option.row.memory_available]
    if not answer.fits_nowhere:
        return None
    return max(rows, key=lambda row: (row.memory_available or 0.0) * row.devices, default=None)


BESIDE = (
    pipeline, running, each_gpu, lived_step, evaluating, settling, saving, hurry_usd, waits_for_host,
    contradicts, untested, collecting, step_notes, spot_offer,
)  # fmt: skip  # that JSON has, too
OF_WORDS = (
    late_is_the_doubt, hurry, more_time, paid, reasons, too_small, feed, memory, change, longest,
    priced, several,
)  # fmt: skip


def _doubts(row: Row) -> list[str]:
    """Return what keeps a pick from being sure, however large its chance is."""
    doubts = {"once it is ported": row.needs_port, "if it fits": row.memory_tight, "by a rough forecast": row.rough}
    return [words for words, holds in doubts.items() if holds]


def facts(answer: Answer) -> dict[str, Any]:
    """Return every fact that the words of an answer need, by name."""
    pick, work, rows = answer.pick, answer.work, answer.work.rows
    known: dict[str, Any] = {fact.__name__: fact(answer) for fact in (*BESIDE, *OF_WORDS)}
    return known | {
        "answer": answer, "work": work, "pick": pick, "here": answer.here, "sure": (pick and pick.sure) or 0.0,
        "by_loop": work.mode == "generate" and work.module.startswith("hf:"),
        "near_cheapest": any(one.usd is not None and pick and one.usd < (pick.usd or 0.0) for one in answer.pool),
        "disturbed": [row for row in rows if row.is_here and row.disturbed],
        "estimated": [row for row in rows if row.evidence == ESTIMATED and row.step_time],
        "starts": {row.price.kind == "free": row for row in rows if row.start_time and row.step_time},
        "doubts": _doubts(pick.row) if pick else [],
        "rough": all(option.row.rough for option in answer.options if option.seconds),
        "old": [one.row for one in known["priced"] if (one.row.price.age or 0) > OLD_DAYS],
    }  # fmt: skip


def as_dict(answer: Answer) -> dict[str, Any]:
    """Return the answer's facts, and those beside the decision, as plain data for JSON."""
    return answer.to_dict() | finite({fact.__name__: _plain(fact(answer)) for fact in BESIDE})


def _plain(value: Any) -> Any:
    """Plain data; devices by their names."""
    if isinstance(value, Option | Row):
        return value.device
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
