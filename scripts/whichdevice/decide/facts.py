"""Facts beside the decision: what limits an answer, what to change, what settles it; words are made from them."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from whichdevice.base.sheets.machines import Cores
from whichdevice.base.sheets.prices import USD_PER_KWH, Z80
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
    evaluated,
    finite,
    lived_times,
    periods,
)
from whichdevice.decide.rows import AskedWork, Row
from whichdevice.models.script.found import Evaluation

MEASURING_HOURS = 0.5  # to start a machine and to measure one model there
WORTH_NAMING = 0.2  # of the pick's price
MAX_DAYS = 365  # of a deadline that is worth a sentence
MAX_CHANGES = 4
MOST = 0.5  # of the time, from which on an environment decides
ODD_SECONDS, ODD_USD = 365 * DAY, 1e5  # of a training, beyond which its size may be misread
SURELY = 0.95  # of a GPU's memory: nearer to it fragmentation decides
SAFE = 0.9  # of a GPU's memory; a rank holds some layers whole, too
ALIKE = 0.01  # of the time of an example: a larger batch has to save more
BUYING_SHARE = 0.1  # of the hours from which on buying is cheaper: a shorter training is no reason to buy


@dataclass(frozen=True)
class Pipeline:
    """How long a device waits for the input pipeline, with the best number of workers or as it is written."""

    card: str
    free: bool
    rate: float  # examples a second that the pipeline gives on the machine of the device
    written: float | None  # with so many workers as the file has, where those are too few
    takes: float  # examples a second that the device takes
    waits: float  # share of the time
    as_written: bool  # whether it waits only because the file has too few workers
    core_rate: float  # examples a second that each core gives; 0: more cores give no more
    cores: Cores | None  # of the machine of the device; None: this one
    feed: int  # cores that feed the device; 0: no number does
    workers: int  # to use there
    processes: int  # of the training, that make batches themselves: one for each GPU in PyTorch; 0: workers do


def pipeline(answer: Answer) -> Pipeline | None:
    """Return how the pipeline limits the pick, or else the fastest device; None where it hardly does."""
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
                takes = work.batch_on(row) / (row.step_time or math.inf)
                less = work.rate_on(row, written=True) if more_workers_help(work, row) else None
                workers = work.workers_on(row)
                return Pipeline(
                    row.card, row.price.kind == "free", rate, less, takes, waits, written, work.pipeline_core_rate,
                    row.cores, work.cores_to_feed(row), workers, 0 if workers else row.script_processes,
                )  # fmt: skip
    return None


def more_workers_help(work: AskedWork, row: Row) -> bool:
    """Return whether the pipeline gives more there with another number of workers than the file has."""
    best, written = work.rate_on(row), work.rate_on(row, written=True)
    return bool(best and written and written * (1 + NEAR) < best)


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


def with_room(answer: Answer) -> Option | None:
    """Return the best choice whose memory is not tight."""
    others = [option for option in answer.choices if not option.row.memory_tight]
    timely = [option for option in others if option.timely] or others
    return min(timely, key=lambda option: math.inf if option.usd is None else option.usd, default=None)


@dataclass(frozen=True)
class Running:
    """How to run a training: examples of a pass over all devices, passes between two updates, and the rest."""

    batch: int
    passes: int
    checkpointing: bool
    workers: int | None  # that load data, where that is known
    time: float  # of an example, over that of the step that was asked for
    largest: int | None = None  # examples of a pass that fit, where that was asked for


def running(answer: Answer) -> Running | None:
    """Return how to run the pick: the smallest batch that is nearly the fastest, of those that fit.

    None where it runs as it was asked for.
    """
    pick, work = answer.pick, answer.work
    if pick is None or work.mode != "train" or pick.row.pass_batch is None:
        return None
    row, batch, whole = pick.row, pick.row.pass_batch * pick.row.devices, work.batch_on(pick.row)
    wanted = whole if batch < whole else None  # examples of an update
    workers = work.workers_on(pick.row) if work.pipeline_rate else None
    known = [run for light in (False, True) for run in _known_runs(answer, wanted, light, workers)]
    if not known:
        run = Running(batch, max(1, (wanted or whole) // batch), row.checkpointing, workers, 1.0)
        return run if run.passes > 1 or run.checkpointing else None
    least = min(run.time for run in known)
    best = min((run for run in known if run.time <= least * (1 + ALIKE)), key=lambda run: run.batch)
    return replace(best, largest=max(one["batch"] for one in row.passes) * row.devices)


def _known_runs(answer: Answer, wanted: int | None, checkpointing: bool, workers: int | None) -> Iterator[Running]:
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
        time = float(np.interp(size, *known)) / size
        yield Running(size, (wanted or size) // size, checkpointing, workers, time)


def saving(answer: Answer) -> float | None:
    """Return how often to save on a pick that may be taken away, in seconds; None where it ends before that pays."""
    pick = answer.pick
    if pick is None or pick.save_every is None or pick.save_every >= (pick.seconds or 0.0):
        return None
    return pick.save_every


def rented_instead(answer: Answer) -> Option | None:
    """Return the cheapest rented device in time beside a free pick; of a spot pick the same card, rented on demand."""
    pick = answer.pick
    if pick is None or pick.row.price.kind not in ("free", "spot"):
        return None
    if pick.row.spot:
        return next((option for option in answer.options if option.device == pick.row.card), None)
    others = (option for option in answer.choices if option.timely and option.row.price.kind not in ("free", "spot"))
    rented = [option for option in others if option.row.rented and option.usd]
    return min(rented, key=lambda option: option.usd or 0.0, default=None)


def cheaper(answer: Answer, reason: Reason) -> Option | None:
    """Return the cheapest device in time that this reason alone rules out, where it saves much."""
    pick, wants = answer.pick, answer.wants
    others = [option for option in answer.options if option.why == reason and option.timely]
    best = min(others, key=lambda option: option.usd or 0.0, default=None)
    if best is None or pick is None or wants.only_free or answer.by != "cost":
        return None
    saves = (pick.usd or 0.0) - (best.usd or 0.0)
    return best if saves >= max(WORTH_NAMING * (pick.usd or 0.0), 1.0) else None


def several_in_time(answer: Answer) -> list[int]:
    """Return numbers of GPUs that may end in time where one is too late; PyTorch's are asked about by themselves."""
    if not answer.late or answer.work.mode != "train" or any(row.is_several for row in answer.work.rows):
        return []
    fixed = answer.work.fixed
    return [
        count for count in (2, 4, 8) if fixed == "examples" or (fixed == "batch" and answer.work.batch % count == 0)
    ]


@dataclass(frozen=True)
class Settling:
    """The measurement that settles a choice: the same step on the pick, and what that costs at most."""

    device: str
    spot: bool
    max_usd: int
    precision: str


def settling(answer: Answer) -> Settling | None:
    """Return how to measure the pick, where that costs much less than a wrong choice."""
    pick = answer.pick
    if pick is None or pick.row.is_here or not pick.row.usd_per_hour or pick.row.is_several or answer.by != "cost":
        return None
    usd = math.ceil(MEASURING_HOURS * pick.row.usd_per_hour)
    if (pick.sure or 0.0) >= SURE or answer.regret_at_most < 2 * usd:
        return None
    return Settling(pick.row.target or pick.row.card, pick.row.spot, usd, pick.row.precision)


@dataclass(frozen=True)
class Buying:
    """The price of a card, and from how many hours of use on that is cheaper than renting."""

    usd: float
    hours: float


def buying(answer: Answer) -> Buying | None:
    """Return when buying the pick is cheaper, where that may matter."""
    pick = answer.pick
    if pick is None or pick.row.card_usd is None or not pick.row.usd_per_hour or not pick.seconds:
        return None
    saved = pick.row.usd_per_hour - pick.row.card_watts / 1000 * USD_PER_KWH
    hours = pick.row.card_usd / saved if saved > 0 else math.inf
    return Buying(pick.row.card_usd, hours) if pick.seconds / HOUR > BUYING_SHARE * hours else None


def contradictions(answer: Answer) -> list[Row]:
    """Return measured devices whose time is outside their forecast's interval."""
    return [row for row in answer.work.rows if row.contradicts and row.forecast_time and row.step_time]


def host_bound(answer: Answer) -> tuple[list[str], bool]:
    """Return the cards elsewhere that wait for the host, and whether those are all of several."""
    elsewhere = [option for option in answer.options if option.seconds and not option.row.is_here]
    cards = [option.row.card for option in elsewhere if option.host_decides]
    return cards, len(cards) == len(elsewhere) > 1


@dataclass(frozen=True)
class Lived:
    """How many times the clean step a script's takes on a card, with the ends of the 80 % interval."""

    card: str
    times: float
    low: float
    high: float
    prepared: float | None  # times the clean step with images decoded before; None: none are, or at a known rate
    whole: tuple[float, float] | None  # seconds, ends of the interval of a time that is shown without it: rough


def lived(answer: Answer) -> Lived | None:
    """Return how a script's step on the pick, or else on the fastest device, differs from a clean one."""
    habits = answer.work.lived
    options = [option for option in (answer.pick, answer.fastest) if option and not option.row.is_here]
    if habits is None or not options:
        return None
    option = options[0]
    row, low, high = option.row, option.begun_low, option.begun_high
    times, half = lived_times(answer.work, row), math.exp(Z80 * habits.log_sd)
    prepared = None
    if answer.work.decodes_untimed and row.step_time:
        prepared = habits.times(row.step_time, row.kernels)
    return Lived(
        row.card, times, times / half, times * half, prepared, (low, high) if row.rough and low and high else None
    )


def collecting(answer: Answer) -> float | None:
    """Return the share of the pick's time in which a script collects frames; None where it is not most of it."""
    pick, work = answer.pick, answer.work
    if pick is None or not pick.seconds or not work.between:
        return None
    share = answer.amount.units / work.units_on(pick.row) * work.between / pick.seconds
    return share if share >= MOST else None


@dataclass(frozen=True)
class Evaluating:
    """A script's evaluation: its share of the hours on a card, what is counted, and what is seen and not counted."""

    card: str
    share: float
    counted: tuple[Evaluation, ...]
    missing: tuple[Evaluation, ...]


def evaluating(answer: Answer) -> Evaluating | None:
    """Return what a script does besides its steps, by the pick, or else the fastest device; None: nothing."""
    work = answer.work
    option = next((option for option in (answer.pick, answer.fastest) if option), None)
    row = option.row if option else None
    if not work.evaluations or row is None or not row.step_time:
        return None
    clean = row.step_time * lived_times(work, row)
    share, fed = evaluated(work, row, answer.amount)
    floor = work.floor(row)
    evaluating = max(clean * share, fed * floor)
    counts = periods(work, row, answer.amount)
    timed = [bool(one.known and one.every and counts[one.per]) for one in work.evaluations]
    both = list(zip(work.evaluations, timed, strict=True))
    counted, missing = (tuple(one for one, known in both if known == wanted) for wanted in (True, False))
    return Evaluating(row.card, evaluating / (max(clean, floor) + evaluating + work.between), counted, missing)


def is_odd(answer: Answer) -> bool:
    """Return whether a script alone says how long its training is, and that is very long or dear."""
    pick = answer.pick
    return bool(answer.work.source and pick and ((pick.seconds or 0) > ODD_SECONDS or (pick.usd or 0) > ODD_USD))


@dataclass(frozen=True)
class EachGpu:
    """The examples of a step on each of several GPUs, on the most of them, and the steps where those are kept."""

    batch: int
    gpus: int | None  # None: the answer has rows of one alone, and the script is for several
    total: int
    steps: float | None


def each_gpu(answer: Answer) -> EachGpu | None:
    """Return how the batch grows with the GPUs; None where they share one, or one is all that is asked about."""
    work, gpus = answer.work, max((row.devices for row in answer.work.rows if row.kind == "gpu"), default=1)
    if work.fixed == "batch" or (gpus == 1 and not work.for_several):
        return None
    batches = gpus * work.units_per_step
    steps = answer.amount.units / batches if work.fixed == "steps" else None
    return EachGpu(work.batch, gpus if gpus > 1 else None, work.batch * gpus, steps)


def untested(answer: Answer) -> list[str]:
    """Return the cards whose kind or model no published times tested."""
    return [row.card for row in answer.work.rows if row.step_time and not row.tested and row.price.kind != "free"]


def step_notes(answer: Answer) -> dict[str, list[str]]:
    """Return in what forecast steps are others than the devices would run, with the cards; none where it is all."""
    forecasts = [row for row in answer.work.rows if row.rented and row.step_time]
    notes: dict[str, list[str]] = {}
    for row in forecasts:
        for note in row.notes:
            notes.setdefault(note, []).append(row.card)
    cards = {row.card for row in forecasts}
    return {note: [] if set(noted) == cards else list(dict.fromkeys(noted)) for note, noted in notes.items()}


def parts(row: Row) -> dict[str, float]:
    """Return what adds up to the memory that a step takes; `rest` is buffers and fragments.

    The last is what no step has: CUDA's context, or what a TPU's runtime keeps.
    """
    known = {name: nbytes for name, nbytes in row.memory_parts.items() if name != "context" and nbytes}
    rest = (row.memory_needed or 0.0) - sum(known.values())
    context = row.memory_parts.get("context", 0.0) if known else 0.0
    known |= {"rest": rest} if known and rest > 0.01 * (row.memory_needed or 0.0) else {}
    if known and not context and row.memory_kept:
        return known | {"kept": row.memory_kept}
    return known | ({"context": context} if context else {})


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
    rest = (row.memory_needed or 0.0) - shared
    return next((count for count in (2, 4, 8) if shared / count + rest <= SAFE * (row.memory_available or 0.0)), None)


def to_enlarge(answer: Answer) -> Row | None:
    """Return the largest traced device that costs less an hour than the pick, or is tight, and is too small."""
    pick = answer.pick
    traced = [option.row for option in answer.options if option.row.memory_parts]
    if pick is None or any(row.devices > 1 for row in traced):
        return None
    hourly = math.inf if pick.row.usd_per_hour is None or pick.row.is_here else pick.row.usd_per_hour
    small = [row for row in traced if row.memory_tight or (row.fits is False and (row.usd_per_hour or 0.0) < hourly)]
    return max(small, key=lambda row: row.memory_available or 0.0, default=None)


def largest_too_small(answer: Answer) -> Row | None:
    """Return the largest device where nothing holds the step; None where another reason rules some out."""
    rows = [option.row for option in answer.options if option.row.memory_needed and option.row.memory_available]
    if not answer.fits_nowhere:
        return None
    return max(rows, key=lambda row: (row.memory_available or 0.0) * row.devices, default=None)


def as_dict(answer: Answer) -> dict[str, Any]:
    """Return the answer's facts, and those beside the decision, as plain data for JSON."""

    spot, port = cheaper(answer, Reason.SPOT), cheaper(answer, Reason.PORT)
    known = {
        "pipeline": pipeline(answer), "running": running(answer), "each_gpu": each_gpu(answer),
        "lived_step": lived(answer), "evaluating": evaluating(answer), "settling": settling(answer),
        "buying": buying(answer),
    }  # fmt: skip
    return answer.to_dict() | finite({
        **{name: fact and asdict(fact) for name, fact in known.items()},
        "saving": saving(answer),
        "hurry_usd": hurry_usd(answer),
        "waits_for_host": host_bound(answer)[0],
        "contradicts": [row.device for row in contradictions(answer)],
        "untested": list(dict.fromkeys(untested(answer))),
        "collecting": collecting(answer),
        "odd": is_odd(answer),
        "step_notes": step_notes(answer),
        "spot_offer": spot and spot.device,
        "port_offer": port and port.device,
    })  # fmt: skip
