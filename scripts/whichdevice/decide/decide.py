"""The decision: hours and dollars of the whole training on every device, one pick, and how sure it is.

The objective: the cheapest device that ends within the deadline; where none does, the fastest. Devices of one question
share most of their forecasts' error, and a provider is dear for all of its devices, so chances, ratios and regret come
from joint draws of all step times and prices; an interval alone decides nothing. The pick has the least expected cost,
which is the least expected regret. It is never held back because intervals overlap.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.decide.interruptions import BACK_TIME, RATE, Interruptions, taken_away
from whichdevice.decide.prices import own_price
from whichdevice.decide.rows import DOES_NOT_FIT, UNKNOWN, AskedWork, Row
from whichdevice.forecast import joint
from whichdevice.models.script.found import Per

HOUR, DAY = 3600.0, 86400.0
DEADLINE_HOURS = 24.0  # in which a training has to end, unless the question names another time
WEEK = 7 * DAY
MILLION = 1e6
AMOUNTS = tuple(10.0**power for power in range(3, 12))  # between which it is looked for where the pick turns ...
TURN = 1.2  # ... to within so many times
TEXTS = {"pair": 2}  # sequences of tokens of a unit, where they are several
DRAWS = 400  # of each device
NEAR = 0.05  # another device is better where it is so by more than this share ...
NEAR_USD, NEAR_SECONDS = 0.05, 900.0  # ... and by more than this: less is not worth moving a training elsewhere
IN_TIME = 0.5  # chance to end within the deadline that a pick needs
SURE, LIKELY = 0.9, 0.7
TOSS_UP = 0.5  # chance below which the pick is one of several
QUANTILES = (0.1, 0.5, 0.9)
JOULES_PER_KWH = 3.6e6
By = Literal["cost", "time"]


@dataclass(frozen=True)
class Wants:
    """Wishes of the user, and the size of the training as far as it is known; USD and seconds."""

    examples: float | None = None
    epochs: float | None = None
    steps: float | None = None
    tokens: float | None = None
    by: By = "cost"
    deadline: float = DEADLINE_HOURS * HOUR
    only_free: bool = False
    spot: bool = False  # also machines that may be taken away
    port: bool = False  # also TPUs for which a PyTorch model has to be ported
    prices: Mapping[str, float] = field(default_factory=dict)  # an hour of a device, by its name: the user's own, exact


Counted = Literal["units", "steps", "tokens"]


@dataclass(frozen=True)
class Amount:
    """How much work is asked about."""

    units: float
    given: bool = True  # False: nobody said it, so it is a million, of a script's steps or of units
    epochs: float = 1.0  # in which these units are the same ones again
    counted: Counted = "units"  # how the user counts them ...
    count: float | None = None  # ... and how many that are; None: units of one epoch

    @property
    def number(self) -> float:
        """The number that the user would name."""
        return self.units / self.epochs if self.count is None else self.count


class Reason(StrEnum):
    """Why a device is no choice."""

    FITS = "fits"
    TIGHT = "tight"
    TIME = "time"
    PRICE = "price"
    SPOT = "spot"
    PORT = "port"
    FREE = "free"
    SESSION = "session"


@dataclass(frozen=True)
class RuledOut:
    """Why a device is no choice, with the number that decides it."""

    reason: Reason
    hours: float | None = None  # of a session
    detail: str = ""  # why there is no time, as a compiler or a process gives it


@dataclass(frozen=True)
class Option:
    """A device for the whole work: seconds and USD at the median, with the ends of their 80 % intervals."""

    row: Row
    ruled_out: RuledOut | None = None
    seconds: float | None = None
    seconds_low: float | None = None
    seconds_high: float | None = None
    usd: float | None = None
    usd_low: float | None = None
    usd_high: float | None = None
    kwh: float | None = None  # of the whole machine
    kwh_low: float | None = None
    kwh_high: float | None = None
    times_taken: float = 0.0  # expected, of a machine that may be taken away; or sessions after the first
    save_every: float | None = None  # seconds of work between two checkpoints there
    begun: float | None = None  # seconds without those until the machine has started
    begun_low: float | None = None
    begun_high: float | None = None
    ratio: float | None = None  # step time here / step time there
    ratio_low: float | None = None
    ratio_high: float | None = None
    host_decides: bool = False  # in most draws the host takes longer than the device
    in_time: float | None = None  # chance to end within the deadline
    sure: float | None = None  # chance that no choice is better
    regret: float | None = None  # expected: USD, or seconds where time decides
    on_front: bool = True  # no choice is both cheaper and faster

    @property
    def device(self) -> str:
        """The row's name."""
        return self.row.device

    @property
    def why(self) -> Reason | None:
        """The reason why it is no choice."""
        return None if self.ruled_out is None else self.ruled_out.reason

    @property
    def timely(self) -> bool:
        """Return whether it is likely to end within the deadline."""
        return (self.in_time or 0.0) >= IN_TIME


@dataclass(frozen=True)
class Answer:
    """The answer for one piece of work: what terminal, page, report, JSON and notebook show."""

    work: AskedWork
    wants: Wants
    amount: Amount
    options: tuple[Option, ...]  # choices first, best first; then what is ruled out
    pick: Option | None
    by: By  # what decided: time where nothing ends within the deadline
    matters: bool  # whether another choice would have been much worse
    regret_at_most: float = 0.0  # what another choice saves at most in 9 of 10 cases: USD, or seconds
    fastest: Option | None = None
    cheapest: Option | None = None  # whatever the deadline
    rival: Option | None = None  # the other choice, where the pick is not sure
    turns: tuple[tuple[float, str], ...] = ()  # up to which number (see `Amount`) which device is picked; of none named

    @property
    def choices(self) -> tuple[Option, ...]:
        """Options that are not ruled out."""
        return tuple(option for option in self.options if option.ruled_out is None)

    @property
    def late(self) -> bool:
        """Return whether no choice ends within the deadline, so that time decides."""
        return (
            self.wants.by != "time"
            and self.work.mode != "operation"
            and self.pick is not None
            and not any(option.timely for option in self.choices)
        )

    @property
    def toss_up(self) -> tuple[Option, ...]:
        """The choices that it is between, likeliest first, where none has an even chance; else empty."""
        if self.pick is None or not self.matters or (self.pick.sure or 0.0) >= TOSS_UP:
            return ()
        others = [option for option in self.pool if option is not self.pick]
        near = [option for option in others if (option.sure or 0.0) >= (self.pick.sure or 0.0) / 2]
        return self.pick, *sorted(near, key=lambda option: -(option.sure or 0.0))[:3]

    @property
    def pool(self) -> tuple[Option, ...]:
        """The choices that the pick is one of: where cost decides, those in time."""
        timely = tuple(option for option in self.choices if option.timely)
        return timely if self.by != "time" and timely and self.work.mode != "operation" else self.choices

    @property
    def here(self) -> Option | None:
        """This machine."""
        here = self.work.here
        return next((option for option in self.options if here and option.device == here.device), None)

    @property
    def fits_nowhere(self) -> bool:
        """Return whether every device is known to be too small; that this machine has no time is no matter."""
        rows = [option.row for option in self.options if not (option.row.is_here and option.row.evidence == UNKNOWN)]
        return all(row.evidence == DOES_NOT_FIT for row in rows) and any(row.memory_needed for row in rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain data for JSON: seconds, USD, bytes; None where not known."""
        named = {name: getattr(self, name) for name in ("pick", "fastest", "cheapest", "rival")}
        work = {name: value for name, value in asdict(self.work).items() if name != "rows"}
        options = [
            {"device": option.device, "batch": self.work.batch_on(option.row), **asdict(option.row),
             **dict(zip(("usd_per_hour_low", "usd_per_hour_high"), option.row.usd_ends, strict=True)),
             **{name: value for name, value in asdict(option).items() if name != "row"}}
            for option in self.options
        ]  # fmt: skip
        return finite({
            **work, "amount": asdict(self.amount), "wants": asdict(self.wants), "by": self.by,
            **{name: option and option.device for name, option in named.items()},
            "sure": self.pick.sure if self.pick else None, "matters": self.matters,
            "toss_up": [option.device for option in self.toss_up], "late": self.late,
            "regret_at_most": self.regret_at_most, "turns": self.turns, "rows": options,
        })  # fmt: skip


def finite(value: Any) -> Any:
    """Return plain data for JSON, which has no infinite numbers: None in place of one."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def amount_of(work: AskedWork, wants: Wants, epochs: int | None = None, units: float | None = None) -> Amount:
    """Return the size of the work: as asked, else the data's examples and the file's epochs, else a million.

    `epochs` and `units` (of one epoch) are what the model's file says.
    """
    batches = work.most_devices if work.fixed == "steps" else 1  # of a step
    if wants.steps is not None:
        return Amount(wants.steps * work.units_per_step * batches, counted="steps", count=wants.steps)
    if wants.tokens is not None:
        return Amount(wants.tokens / tokens_of_unit(work), counted="tokens", count=wants.tokens)
    if wants.examples is not None:
        times = wants.epochs or (epochs if work.mode == "train" else None) or 1
        return Amount(wants.examples * times, epochs=times)
    repeats = wants.epochs or epochs
    if work.mode == "train" and units and repeats:
        return Amount(units * batches * repeats, epochs=repeats)
    if work.unknown:
        return Amount(MILLION * work.units_per_step * batches, given=False, counted="steps", count=MILLION)
    return Amount(MILLION, given=False)


def tokens_of_unit(work: AskedWork) -> float:
    """Tokens in one unit; raises StudyError for work without sequences."""
    if work.unit == "token":
        return 1.0
    if not (tokens := work.sequence_length or work.tokens):
        raise StudyError(f"--tokens: {work.name} has no sequences of tokens: use --examples")
    return float(tokens) * TEXTS.get(work.unit, 1)


def draws(rows: Sequence[Row], floors: np.ndarray | None = None) -> np.ndarray:
    """Return joint step times in seconds [rows, DRAWS], nan for a row without one; measured rows have their own error.

    No step takes less than the pipeline needs for its batch: `floors` [rows, DRAWS].
    """
    timed = [place for place, row in enumerate(rows) if row.step_time]
    of_errors = [_of_errors(rows[place]) for place in timed]
    times = np.full((len(rows), DRAWS), np.nan)
    least = 0.0 if floors is None else floors[timed]
    times[timed] = np.maximum(joint.draws(of_errors, DRAWS), least)
    return times


def _of_errors(row: Row) -> dict[str, Any]:
    """Return what the error of a row's step time depends on: a measured one shares it with no other row."""
    software = row.chip if row.is_here else row.software
    return vars(row) | {"device_time": row.device_time or row.step_time, "software": software, "form": row.market}


def floor_draws(work: AskedWork, rows: Sequence[Row]) -> np.ndarray:
    """Return seconds [rows, DRAWS] of the pipeline for a step's batch: machines that start slowly feed slowly."""
    slow = joint.normal(DRAWS, 0, "start")
    return np.array([work.floor(row) * np.exp(work.floor_log_sd(row) * slow) for row in rows])


def lived_draws(
    work: AskedWork, rows: Sequence[Row], steps: np.ndarray, floors: np.ndarray, amount: Amount
) -> np.ndarray:
    """Steps as people run them, each with its part of the evaluation, where the work is a script's.

    A measured device's steps are as they were measured.
    """
    if work.lived is None:
        return steps + work.between
    times = np.array([[lived_times(work, row)] for row in rows])
    logs = work.lived.log_sd * joint.normal(steps.shape[1], 0, "lived")
    here = np.array([[row.is_here] for row in rows])
    clean = np.where(here, steps, draws(rows) * times * np.exp(logs))
    parts = [evaluated(work, row, amount) for row in rows]
    shares, fed = (np.array([[part[place]] for part in parts]) for place in (0, 1))
    lived = np.where(here, steps, np.maximum(clean, floors))
    return lived + np.maximum(clean * shares, fed * floors) + work.between


def evaluated(work: AskedWork, row: Row, amount: Amount) -> tuple[float, float]:
    """Return a script's evaluation for each step: its time over the step's, and its examples over the step's.

    Forward passes take the larger of the device's time at their batch and of the host's for their kernels.
    """
    if not row.step_time:
        return 0.0, 0.0
    counts, size = periods(work, row, amount), work.batch_on(row) / row.devices  # examples of a step on each device
    device_time = row.device_time or row.step_time
    launches = row.forward_kernels * row.host_time * (row.pass_batch / size if row.pass_batch else 1.0)
    share, examples = 0.0, 0.0
    for one in work.evaluations:
        if not one.every or one.batches is None:
            continue
        every = one.every * (one.passes if one.per == "step" else 1)
        batches = counts[one.per] * one.batches / every / (row.devices if one.split else 1)
        forward = max(row.forward_share * device_time * one.batch_size / size, launches)
        share += batches * one.work * forward / max(device_time, row.host_time)
        examples += batches * one.batch_size / size
    return share, examples


def periods(work: AskedWork, row: Row, amount: Amount) -> dict[Per, float]:
    """Return how many of each period in which evaluations come there are in a step; no epochs: that is not known."""
    epochs = work.units_on(row) / work.script_examples if work.script_examples else 0.0  # as the script has them
    if amount.given and amount.counted == "units":
        epochs = amount.epochs * work.units_on(row) / amount.units
    return {"step": 1.0, "epoch": epochs}


def lived_times(work: AskedWork, row: Row) -> float:
    """Return how many times the clean step a script's takes on a device that is forecast."""
    if work.lived is None or row.is_here or not row.step_time:
        return 1.0
    return work.lived.times(
        row.step_time, row.kernels, work.batch_on(row) / row.devices if work.decodes_untimed else 0.0
    )


def price_draws(rows: Sequence[Row]) -> np.ndarray:
    """Return prices of an hour in USD [rows, DRAWS], nan for a row without one; all rows are of the same market."""
    prices = np.full((len(rows), DRAWS), np.nan)
    market = joint.normal(DRAWS, 0, "market")
    for place, row in enumerate(rows):
        if row.usd_per_hour is not None:
            logs = row.usd_log_sd_shared * market + row.usd_log_sd_own * joint.normal(DRAWS, 0, "price", row.market)
            prices[place] = row.usd_per_hour * np.exp(logs)
    return prices


def start_draws(rows: Sequence[Row]) -> np.ndarray:
    """Return seconds [rows, DRAWS] until the work begins; all install the same packages: starts are slow together."""
    normal = joint.normal(DRAWS, 0, "start")
    return np.array([row.start_time * np.exp(row.start_log_sd * normal) for row in rows])


def decide(work: AskedWork, wants: Wants, amount: Amount) -> Answer:
    """Return the answer for one piece of work."""
    rows = [_at_price(row, wants) for row in work.rows]
    times = simulate(work, wants, rows, amount)
    usd = price_draws(rows) * times.running / HOUR
    options = judge(work, wants, rows, times, usd)
    chosen = [place for place, option in enumerate(options) if option.ruled_out is None]
    if not chosen:
        return Answer(work, wants, amount, tuple(_ordered(options, "time")), None, "time", True)
    by, pool = _contest(chosen, options, work, wants)
    best = pick(pool, rows, usd.mean(axis=1), times.seconds.mean(axis=1), by)
    kept, saved = _chances(chosen, usd, times, by)
    for number, place in enumerate(chosen):
        options[place] = replace(options[place], sure=float(kept[number].mean()), regret=float(saved[number].mean()))
    regret_at_most = float(np.quantile(saved[chosen.index(best)], 0.9))
    return explain(Answer(work, wants, amount, tuple(options), options[best], by, True, regret_at_most), pool)


def turns(work: AskedWork, wants: Wants, amount: Amount) -> tuple[tuple[float, str], ...]:
    """Return up to which number, counted as the amount is, which device is picked; the last one is for any number."""

    def picked(number: float) -> str:
        pick = decide(work, wants, replace(amount, units=amount.units * number / amount.number, count=number)).pick
        return "" if pick is None else pick.device

    names, limits = [picked(units) for units in AMOUNTS], []
    for low, high, name, later in zip(AMOUNTS, AMOUNTS[1:], names, names[1:], strict=False):
        if name == later:
            continue
        while high > TURN * low:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if picked(middle) == name else (low, middle)
        limits.append((float(f"{low:.1g}"), name))
    return (*limits, (math.inf, names[-1]))


@dataclass(frozen=True)
class Times:
    """Joint draws of seconds [rows, draws]: of a step, and of the whole work."""

    steps: np.ndarray
    starts: np.ndarray
    working: np.ndarray  # with the start, were no machine taken away
    running: np.ndarray  # that are billed
    seconds: np.ndarray  # until all is done
    late: np.ndarray  # whether that is after the deadline


def simulate(work: AskedWork, wants: Wants, rows: Sequence[Row], amount: Amount) -> Times:
    """Return how long the work takes on each row, with what is lost to machines that go and to sessions that end."""
    floors, starts = floor_draws(work, rows), start_draws(rows)
    steps = draws(rows, floors)
    working = starts + _whole(work, rows, lived_draws(work, rows, steps, floors, amount), amount)
    running, seconds = _with_ends(working, starts, rows)
    # A session that ends before the work does is as bad as being late, unless all has to be free.
    sessions_end = np.array([math.inf if wants.only_free else (row.session_hours or math.inf) * HOUR for row in rows])
    late = (seconds > wants.deadline) | (working > sessions_end[:, None])
    return Times(steps, starts, working, running, seconds, late)


def judge(work: AskedWork, wants: Wants, rows: Sequence[Row], times: Times, usd: np.ndarray) -> list[Option]:
    """Return what is known of the whole work on each row, and why some are no choice.

    Where nothing else is left, what may not fit is a choice, and then, by its time, what nobody rents out.
    """
    measures = {
        "seconds": times.seconds, "begun": times.seconds - times.starts, "usd": usd,
        "kwh": energy_draws(rows, times.running),
    }  # fmt: skip
    here = next((place for place, row in enumerate(work.rows) if row is work.here), None)
    options = []
    for place, row in enumerate(rows):
        batch_here = None if here in (None, place) else times.steps[here] * work.times(row)
        values = {name: values[place] for name, values in measures.items()}
        option = _option(row, times.steps[place], values, times.late[place], batch_here)
        option = _with_interruptions(option, times.working[place])
        options.append(replace(option, ruled_out=_ruled_out(option, wants)))
    for reason in (Reason.TIGHT, Reason.PRICE):
        if all(option.ruled_out for option in options):
            options = [replace(one, ruled_out=None) if one.why == reason else one for one in options]
    return options


def explain(answer: Answer, pool: Sequence[int]) -> Answer:
    """Return the answer with its pick, the fastest choice, the cheapest and a rival.

    `pool` are the places of the options that the pick is one of.
    """
    options = [replace(option, on_front=_on_front(option, answer.options)) for option in answer.options]
    best = options[next(place for place, option in enumerate(answer.options) if option is answer.pick)]
    choices = [option for option in options if option.ruled_out is None]
    others = [options[place] for place in pool if options[place] is not best]
    rival = max(others, key=lambda option: option.sure or 0.0, default=None)
    priced = [option for option in choices if option.usd is not None]
    return replace(
        answer,
        options=tuple(_ordered(options, answer.by, best)),
        pick=best,
        matters=any(_is_worse(option, best) for option in choices),
        fastest=min(choices, key=lambda option: (option.seconds, math.inf if option.usd is None else option.usd)),
        cheapest=min(priced, key=lambda option: option.usd or 0.0, default=None),
        rival=rival if (best.sure or 0.0) < LIKELY else None,
    )


def _contest(chosen: list[int], options: Sequence[Option], work: AskedWork, wants: Wants) -> tuple[By, list[int]]:
    """Return what decides between these choices, and those that the pick is one of."""
    priced = any(options[place].usd is not None for place in chosen)
    timely = [place for place in chosen if options[place].timely]
    by: By = "cost" if wants.by == "cost" and priced and (timely or work.mode == "operation") else "time"
    return by, timely if by == "cost" and timely else chosen


def _is_worse(option: Option, best: Option) -> bool:
    """Return whether it takes noticeably longer, or costs noticeably more."""
    longer = (option.seconds or 0.0) > max((best.seconds or 0.0) * (1 + NEAR), (best.seconds or 0.0) + NEAR_SECONDS)
    dearer = (option.usd or 0.0) > max((best.usd or 0.0) * (1 + NEAR), (best.usd or 0.0) + NEAR_USD)
    return longer or dearer


def _at_price(row: Row, wants: Wants) -> Row:
    """The row at the price that the user names."""
    count, name = row.priced
    usd = None if row.is_here else wants.prices.get(name)
    return row if usd is None else replace(row, **vars(own_price(row, usd * count)))


def _whole(work: AskedWork, rows: Sequence[Row], steps: np.ndarray, amount: Amount) -> np.ndarray:
    """Seconds of the whole work in each draw: its steps, and the prompts of what is generated."""
    counts = np.array([amount.units / work.units_on(row) for row in rows])[:, None]
    prompts = [(row.prefill_time or 0.0) / row.step_time / (work.prompt or 1) if row.step_time else 0.0 for row in rows]
    return np.asarray(counts * steps * (1 + np.array(prompts))[:, None])


def _with_ends(working: np.ndarray, starts: np.ndarray, rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds that are billed, and until all is done, with what is lost to machines that go and sessions."""
    running, waiting = working.copy(), np.zeros(working.shape)
    for place, row in enumerate(rows):
        away = taken_away(row)
        if away is None or not row.step_time:
            continue
        if row.session_hours:
            again = sessions(working[place], starts[place], row, away) - 1
            running[place] += again * (away.save + away.load)
        if row.spot:
            mean, sd = away.billed(working[place] - starts[place])
            lost = sd * joint.normal(DRAWS, 0, "taken") - sd**2 / 2
            running[place] = starts[place] + mean * np.exp(lost)
            waiting[place] = running[place] * RATE * BACK_TIME
    week = np.array([min((row.week_hours or math.inf) * HOUR, WEEK) for row in rows])[:, None]
    pauses = np.where(running > week, np.floor(running / week) * (WEEK - week), 0.0)
    return running, running + waiting + pauses


def sessions(working: np.ndarray, start: np.ndarray | float, row: Row, away: Interruptions) -> np.ndarray:
    """Return in how many sessions a free machine does the work: it saves before each end but the last."""
    session = (row.session_hours or math.inf) * HOUR
    useful = max(session - away.load - away.save, HOUR / 60)
    return np.asarray(np.where(working > session, np.ceil((working - start) / useful), 1.0))


def energy_draws(rows: Sequence[Row], running: np.ndarray) -> np.ndarray:
    """Return kilowatt-hours of each row in each draw, nan where no watts are known."""
    kwh = np.full(running.shape, np.nan)
    for place, row in enumerate(rows):
        if row.power is not None:
            watts = row.power.total * np.exp(row.power.log_sd * joint.normal(DRAWS, 0, "price", row.market))
            kwh[place] = watts * running[place] / JOULES_PER_KWH
    return kwh


def _option(
    row: Row, steps: np.ndarray, values: Mapping[str, np.ndarray], late: np.ndarray, here: np.ndarray | None
) -> Option:
    """Return the ends of what is known of a row; `values` has its draws of each measure."""
    if not row.step_time:
        return Option(row)
    known = [name for name, draws in values.items() if not np.isnan(draws).any()]
    ends = {name: end for known_name in known for name, end in _ends(known_name, values[known_name]).items()}
    if here is not None and not np.isnan(here).any():
        ends |= _ends("ratio", here / steps)
    floor = row.host_time > 0 and (row.device_time or row.step_time or 0.0) <= row.host_time
    return Option(row, **ends, in_time=float((~late).mean()), host_decides=floor)


def _with_interruptions(option: Option, working: np.ndarray) -> Option:
    """Return the option with how often its machine goes, and how often to save."""
    row, away = option.row, taken_away(option.row)
    if away is None or option.seconds is None:
        return option
    middle = np.array([np.quantile(working, 0.5)])
    if not row.spot:
        return replace(option, times_taken=float(sessions(middle, row.start_time, row, away)[0]) - 1)
    billed, _ = away.billed(middle - row.start_time)
    return replace(option, times_taken=float(billed[0]) * RATE, save_every=away.interval)


def _ends(name: str, values: np.ndarray) -> dict[str, Any]:
    return dict(zip((f"{name}_low", name, f"{name}_high"), map(float, np.quantile(values, QUANTILES)), strict=True))


def _ruled_out(option: Option, wants: Wants) -> RuledOut | None:
    row = option.row
    if row.evidence == DOES_NOT_FIT:
        return RuledOut(Reason.FITS)
    if option.seconds is None:
        return RuledOut(Reason.TIME, detail=row.reason)
    if row.spot and not wants.spot:
        return RuledOut(Reason.SPOT)
    if row.needs_port and not wants.port:
        return RuledOut(Reason.PORT)
    if option.usd is None and wants.by == "cost":
        return RuledOut(Reason.PRICE)
    if wants.only_free and (option.usd or 0.0) > 0 and not row.is_here:
        return RuledOut(Reason.FREE)
    if row.session_hours and option.seconds > row.session_hours * HOUR and not wants.only_free:
        return RuledOut(Reason.SESSION, hours=row.session_hours)
    return RuledOut(Reason.TIGHT) if row.memory_tight else None


def pick(pool: list[int], rows: Sequence[Row], cost: np.ndarray, time: np.ndarray, by: By) -> int:
    """Return the one of the least expected USD; of nearly equal ones the fastest, then the one here or the cheapest.

    Where time decides, time comes before USD.
    """
    left = pool
    cost_first = [(cost, NEAR_USD), (time, NEAR_SECONDS)]
    for measure, slack in reversed(cost_first) if by == "time" else cost_first:
        least = min((measure[place] for place in left if not math.isnan(measure[place])), default=0.0)
        left = [place for place in left if not measure[place] > max(least * (1 + NEAR), least + slack)] or left
    here = [place for place in left if rows[place].is_here]

    def order(place: int) -> tuple[bool, float, bool, float]:
        """The least cost first; of the same cost a GPU before a TPU, which needs other software."""
        return math.isnan(cost[place]), float(np.nan_to_num(cost[place])), rows[place].kind == "tpu", time[place]

    return min(here or left, key=order)


def _chances(chosen: list[int], usd: np.ndarray, times: Times, by: By) -> tuple[np.ndarray, np.ndarray]:
    """Return for each choice and draw whether nothing is better by more than 5 %, and what the best would save.

    A choice that ends too late is worse than any that does not.
    """
    worth, slack = (times.seconds, NEAR_SECONDS) if by == "time" else (usd, NEAR_USD)
    values = np.where(np.isnan(worth[chosen]), np.inf, worth[chosen])
    late = times.late[chosen] if by != "time" else np.zeros(values.shape, bool)
    all_late = late.all(axis=0)
    timely = np.where(late & ~all_late, np.inf, values)
    best = timely.min(axis=0)
    kept = (values <= np.maximum(best * (1 + NEAR), best + slack)) & (~late | all_late)
    return kept, np.where(np.isfinite(values), np.maximum(values - best, 0.0), 0.0)


def _on_front(option: Option, options: Sequence[Option]) -> bool:
    """Return whether no choice is both cheaper and faster."""
    if option.ruled_out or option.seconds is None or option.usd is None:
        return option.ruled_out is None
    return not any(
        other.usd < option.usd and other.seconds < option.seconds
        for other in options
        if other.ruled_out is None and other.usd is not None and other.seconds is not None
    )


def _ordered(options: Sequence[Option], by: By, pick: Option | None = None) -> list[Option]:
    """The pick, then choices by cost or time, then those without a price, then what is ruled out."""

    def place(option: Option) -> tuple[Any, ...]:
        measure = option.usd if by == "cost" else option.seconds
        return option is not pick, option.ruled_out is not None, measure is None, measure or 0.0, option.seconds or 0.0

    return sorted(options, key=place)
