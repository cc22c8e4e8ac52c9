"""The decision: hours and dollars of the whole training on every device, one pick, and how sure it is.

The objective: the cheapest device that ends within the deadline; where none does, the fastest. Waiting costs what the
user says an hour is worth. Devices of one question share most of their forecasts' error, and a provider is dear for all
of its devices, so chances, ratios and regret come from joint draws of all step times and prices; an interval alone
decides nothing. The pick has the least expected cost, which
is the least expected regret. It is never held back because intervals overlap.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.grids import Grid
from whichdevice.decide.interruptions import ASSUMED_RATE, SAVE_TIME, Interruptions, state_time
from whichdevice.decide.rows import DOES_NOT_FIT, UNKNOWN, Price, Row, Work
from whichdevice.forecast import joint
from whichdevice.models.script.found import Per

HOUR, DAY = 3600.0, 86400.0
DEADLINE_HOURS = 24.0  # in which a training has to end, unless the question names another time
WEEK = 7 * DAY
MILLION = 1e6
TEXTS = {"pair": 2}  # sequences of tokens of a unit, where they are several
DRAWS = 400  # of each device
NEAR = 0.05  # another device is better where it is so by more than this share ...
NEAR_USD, NEAR_SECONDS = 0.05, 900.0  # ... and by more than this: less is not worth moving a training elsewhere
IN_TIME = 0.5  # chance to end within the deadline that a pick needs
SURE, LIKELY = 0.9, 0.7
TOSS_UP = 0.5  # chance below which the pick is one of several
AVOID_USD = 5.0
DEAREST_HOUR, POINT = 1e4, 0.01  # USD an hour of waiting: the most that is tried; the error of a turning point
PRICE_FACTOR, PRICE_POINT = 100.0, 1e-4  # how far from today's a price is tried; the error of where it turns, a share
QUANTILES = (0.1, 0.5, 0.9)
JOULES_PER_KWH, GRAMS = 3.6e6, 1000.0
By = Literal["cost", "time", "energy", "co2"]
MEASURES = {"cost": "usd", "time": "seconds", "energy": "kwh", "co2": "co2"}  # fields of an option
SLACK = {"cost": NEAR_USD, "time": NEAR_USD, "energy": 0.05, "co2": 0.02}  # as NEAR_USD; kWh and kg


@dataclass(frozen=True)
class Wants:
    """Wishes of the user, and the size of the training as far as it is known; USD and seconds."""

    examples: float | None = None
    epochs: float | None = None
    steps: float | None = None
    tokens: float | None = None
    by: By = "cost"
    deadline: float = DEADLINE_HOURS * HOUR
    budget: float | None = None
    only_free: bool = False
    spot: bool = False  # also machines that may be taken away
    port: bool = False  # also TPUs for which a PyTorch model has to be ported
    hour_usd: float = 0.0  # that an hour of waiting costs
    here_usd: float | None = None  # an hour of this machine; None: its electricity
    prices: Mapping[str, float] = field(default_factory=dict)  # an hour of a device, by its name: the user's own, exact
    providers: tuple[str, ...] = ()  # that the user can rent from; empty: any
    effective_batch: int | None = None  # examples between two updates
    interruptions: float | None = None  # times an hour that a spot machine is taken away; None: assumed
    grid: float | None = None  # g of CO2 a kilowatt-hour; None: by region


Counted = Literal["units", "steps", "tokens"]


@dataclass(frozen=True)
class Amount:
    """How much work is asked about."""

    units: float
    given: bool = True  # False: nobody said it, so it is a million
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
    POWER = "power"
    FREE = "free"
    BUDGET = "budget"
    SESSION = "session"


@dataclass(frozen=True)
class RuledOut:
    """Why a device is no choice, with the number that decides it."""

    reason: Reason
    usd: float | None = None  # the budget
    hours: float | None = None  # of a session
    detail: str = ""  # why there is no time, as a compiler or a process gives it


@dataclass(frozen=True)
class Turning:
    """The price of an hour of waiting from which on another device is the pick."""

    hour_usd: float
    device: str


@dataclass(frozen=True)
class PriceTurn:
    """The price of an hour of a device up to which it is the pick, and the pick above it."""

    device: str
    usd_per_hour: float
    above: str


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
    co2: float | None = None  # kg
    co2_low: float | None = None
    co2_high: float | None = None
    taken: Interruptions | None = None  # of a machine that may be taken away, or whose session ends
    times_taken: float = 0.0  # expected, or sessions after the first
    unsaved: float | None = None  # seconds that are billed without checkpoints
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

    work: Work
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
    avoid: Option | None = None
    turning: tuple[Turning, ...] = ()  # the pick as an hour of waiting costs more
    price_turns: tuple[PriceTurn, ...] = ()  # of the pick, then of the other choices on the front

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
        names = {name: None if option is None else option.device for name, option in self._named().items()}
        work = {name: value for name, value in asdict(self.work).items() if name != "rows"}
        options = [
            {"device": option.device, "batch": self.work.batch_on(option.row), **asdict(option.row),
             **_price_range(option.row), **_without_row(option)}
            for option in self.options
        ]  # fmt: skip
        return finite({
            **work, "amount": asdict(self.amount), "wants": asdict(self.wants), "by": self.by, **names,
            "sure": self.pick.sure if self.pick else None, "matters": self.matters,
            "toss_up": [option.device for option in self.toss_up], "late": self.late,
            "regret_at_most": self.regret_at_most, "turning": [asdict(point) for point in self.turning],
            "price_turns": [asdict(turn) for turn in self.price_turns], "rows": options,
        })  # fmt: skip

    def _named(self) -> dict[str, Option | None]:
        return {name: getattr(self, name) for name in ("pick", "fastest", "cheapest", "rival", "avoid")}


def _without_row(option: Option) -> dict[str, Any]:
    return {name: value for name, value in asdict(option).items() if name != "row"}


def _price_range(row: Row) -> dict[str, float | None]:
    return {name: getattr(row, name) for name in ("usd_per_hour_low", "usd_per_hour_high")}


def finite(value: Any) -> Any:
    """Return plain data without what JSON lacks: None for a number that is not finite."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def amount_of(work: Work, wants: Wants, epochs: int | None = None, units: float | None = None) -> Amount:
    """Return the size of the work: as asked, else the data's examples and the file's epochs, else a million units.

    `epochs` and `units` (of one epoch) are what the model's file says.
    """
    batches = work.most_devices if work.keeps == "steps" else 1  # of a step
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
    return Amount(MILLION, given=False)


def tokens_of_unit(work: Work) -> float:
    """Tokens in one unit; raises StudyError for work without sequences."""
    if work.unit == "token":
        return 1.0
    if not (tokens := work.sequence_length or work.tokens):
        raise StudyError(f"--tokens: {work.name} has no sequences of tokens: use --examples")
    return float(tokens) * TEXTS.get(work.unit, 1)


def draws(rows: Sequence[Row], n: int = DRAWS, floors: np.ndarray | None = None) -> np.ndarray:
    """Joint step times in seconds [rows, n], nan for a row without one; measured rows have an error of their own.

    No step takes less than the pipeline needs for its batch: `floors` [rows, n].
    """
    timed = [place for place, row in enumerate(rows) if row.step_time]
    known = [
        vars(row) | {"device_time": row.device_time or row.step_time, "form": row.market}
        for row in (rows[place] for place in timed)
    ]
    timed_facts = [
        facts_of_row | {"software": facts_of_row["chip"]} if rows[place].is_here else facts_of_row
        for place, facts_of_row in zip(timed, known, strict=True)
    ]
    times = np.full((len(rows), n), np.nan)
    least = 0.0 if floors is None else floors[timed]
    times[timed] = np.maximum(joint.draws(timed_facts, n), least)
    return times


def floor_draws(work: Work, rows: Sequence[Row], n: int = DRAWS) -> np.ndarray:
    """Seconds [rows, n] that the pipeline takes for the batch of a step: machines that start slowly feed slowly."""
    slow = joint.normal(n, 0, "start")
    return np.array([work.floor(row) * np.exp(work.floor_log_sd(row) * slow) for row in rows])


def lived_draws(work: Work, rows: Sequence[Row], steps: np.ndarray, floors: np.ndarray, amount: Amount) -> np.ndarray:
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


def evaluated(work: Work, row: Row, amount: Amount) -> tuple[float, float]:
    """Return a script's evaluation for each step: its time over the step's, and its examples over the step's."""
    parts = evaluated_by_period(work, row)
    counts = periods(work, row, amount)
    share, examples = (sum(counts[per] * part[place] for per, part in parts.items()) for place in (0, 1))
    return share, examples


def evaluated_by_period(work: Work, row: Row) -> dict[Per, tuple[float, float]]:
    """Return the evaluations of each period, were there one of it in each step.

    Forward passes take the larger of the device's time at their batch and of the host's for their kernels.
    """
    size, parts = work.batch_on(row) / row.devices, dict[Per, tuple[float, float]]()
    device, host = row.device_time or row.step_time or 0.0, row.host_time
    for one in work.evaluations if device else ():
        if not one.every or one.batches is None:
            continue
        every = one.every
        if one.per == "step":  # of the script's, which has several batches, or a part of one of GPUs that share it
            every *= one.passes * (work.script_batch / work.units_on(row) if one.shared else 1.0)
        batches = one.batches / every / (row.devices if one.split else 1)
        passes = size / row.pass_batch if row.pass_batch else 1.0
        launches = row.forward_kernels * host / passes
        forward = max(row.forward_share * device * one.batch_size / size, launches)
        forward += one.tokens * one.decoder * launches  # of so little work that the launches decide
        share, examples = parts.get(one.per, (0.0, 0.0))
        share += batches * one.work * forward / max(device, host)
        parts[one.per] = share, examples + (batches * one.batch_size / size if one.loads else 0.0)
    return parts


def periods(work: Work, row: Row, amount: Amount) -> dict[Per, float]:
    """Return how many of each period in which evaluations come there are in a step; no epochs: that is not known."""
    steps = amount.units / work.units_on(row)
    epochs = amount.epochs / steps if amount.given and amount.counted == "units" else written_epochs(work, row)
    return {"step": 1.0, "epoch": epochs, "training": 1 / steps}


def written_epochs(work: Work, row: Row) -> float:
    """Return how many epochs a step is, as a script has them; 0: that is not known."""
    return work.units_on(row) / work.script_examples if work.script_examples else 0.0


def lived_times(work: Work, row: Row) -> float:
    """Return how many times the clean step a script's takes on a device that is forecast."""
    if work.lived is None or row.is_here or not row.step_time:
        return 1.0
    return work.lived.times(
        row.step_time, row.kernels, work.batch_on(row) / row.devices if work.decodes_untimed else 0.0
    )


def price_draws(rows: Sequence[Row], n: int = DRAWS) -> np.ndarray:
    """Joint prices of an hour in USD [rows, n], nan for a row without one; all rows are of the same market."""
    prices = np.full((len(rows), n), np.nan)
    market = joint.normal(n, 0, "market")
    for place, row in enumerate(rows):
        if row.usd_per_hour is not None:
            logs = row.usd_log_sd_shared * market + row.usd_log_sd_own * joint.normal(n, 0, "price", row.market)
            prices[place] = row.usd_per_hour * np.exp(logs)
    return prices


def start_draws(rows: Sequence[Row], n: int = DRAWS) -> np.ndarray:
    """Seconds [rows, n] until the work begins: all install the same packages, so that all starts are slow together."""
    normal = joint.normal(n, 0, "start")
    return np.array([row.start_time * np.exp(row.start_log_sd * normal) for row in rows])


def decide(work: Work, wants: Wants, amount: Amount) -> Answer:
    """Return the answer for one piece of work."""
    rows = [_at_price(row, wants) for row in work.rows]
    taken = [taken_away(row, wants) for row in rows]
    floors, starts = floor_draws(work, rows), start_draws(rows)
    steps = draws(rows, floors=floors)
    working = starts + _whole(work, rows, lived_draws(work, rows, steps, floors, amount), amount)
    running, seconds = _with_ends(working, starts, rows, taken)
    usd = price_draws(rows) * running / HOUR
    kwh, co2 = energy_draws(rows, running)
    late = (seconds > wants.deadline) | _beyond(working, rows, wants)
    measures = {"seconds": seconds, "begun": seconds - starts, "usd": usd, "kwh": kwh, "co2": co2}
    here = next((place for place, row in enumerate(work.rows) if row is work.here), None)
    options = [
        _option(row, steps[place], {name: values[place] for name, values in measures.items()},
                late[place], None if here in (None, place) else steps[here] * work.times(row))
        for place, row in enumerate(rows)
    ]  # fmt: skip
    options = [
        _with_interruptions(option, taken[place], working[place], rows[place]) for place, option in enumerate(options)
    ]
    options = _judged(options, wants)
    chosen = [place for place, option in enumerate(options) if option.ruled_out is None]
    if not chosen:
        ordered = tuple(_ordered(options, "time"))
        return Answer(work, wants, amount, ordered, None, "time", True)
    by, pool = _contest(chosen, options, work, wants)
    value = {"energy": kwh, "co2": co2}.get(by, usd + wants.hour_usd * seconds / HOUR)
    cost, time = usd.mean(axis=1), seconds.mean(axis=1)
    pick = (
        _waiting_pick(pool, rows, cost, time, wants.hour_usd)
        if by == "cost"
        else _pick(pool, rows, value.mean(axis=1), time, by)
    )

    def picked_at(place: int, price: float) -> int | None:
        """The pick where an hour of this device costs exactly so much."""
        able = chosen
        if wants.budget is not None and price * float(np.quantile(running[place], 0.5)) / HOUR > wants.budget:
            able = [other for other in chosen if other != place]
            if not able:
                return None
        new_by, new_pool = _contest(able, options, work, wants)
        new_cost = cost.copy()
        new_cost[place] = price * float(running[place].mean()) / HOUR
        for other in _same_market(place, able, rows):
            new_cost[other] = cost[other] * price / (rows[place].usd_per_hour or 1.0)
        if new_by == "cost":
            return _waiting_pick(new_pool, rows, new_cost, time, wants.hour_usd)
        return _pick(new_pool, rows, new_cost + wants.hour_usd * time / HOUR, time, new_by)

    kept, saved = _chances(chosen, value, seconds, late, by)
    for number, place in enumerate(chosen):
        options[place] = replace(options[place], sure=float(kept[number].mean()), regret=float(saved[number].mean()))
    options = [replace(option, on_front=_on_front(option, options)) for option in options]
    choices = [options[place] for place in chosen]
    best = options[pick]
    rivals = [options[place] for place in pool if place != pick]
    rival = max(rivals, key=lambda option: option.sure or 0.0, default=None)
    elsewhere_in_time = [options[place] for place in pool if not rows[place].is_here]
    return Answer(
        work, wants, amount, tuple(_ordered(options, by, best)), best, by,
        matters=any(_is_worse(option, best, by) for option in choices),
        regret_at_most=float(np.quantile(saved[chosen.index(pick)], 0.9)),
        fastest=min(choices, key=lambda option: (option.seconds, math.inf if option.usd is None else option.usd)),
        cheapest=min(
            (option for option in choices if option.usd is not None), key=lambda option: option.usd or 0, default=None
        ),
        rival=rival if (best.sure or 0.0) < LIKELY else None,
        avoid=_to_avoid(best, elsewhere_in_time),
        turning=_turning(pool, rows, cost, time, wants.hour_usd) if by == "cost" else (),
        price_turns=_price_turns(pick, pool, options, picked_at) if by == "cost" else (),
    )  # fmt: skip


def _same_market(place: int, places: Sequence[int], rows: Sequence[Row]) -> list[int]:
    """Return the rows of other numbers of the same device, whose price moves with this one's."""
    row = rows[place]
    return [
        other
        for other in places
        if other != place and rows[other].market == row.market and rows[other].price.kind == row.price.kind
    ]


def _judged(options: Sequence[Option], wants: Wants) -> list[Option]:
    """Options with why they are no choice. What nobody rents out is one by its time where nothing else is left."""
    judged = [replace(option, ruled_out=_ruled_out(option, wants)) for option in options]
    if wants.budget is not None or any(option.ruled_out is None for option in judged):
        return judged
    return [replace(option, ruled_out=None) if option.why == Reason.PRICE else option for option in judged]


def _contest(chosen: list[int], options: Sequence[Option], work: Work, wants: Wants) -> tuple[By, list[int]]:
    """Return what decides between these choices, and those that the pick is one of."""
    priced = any(options[place].usd is not None for place in chosen)
    timely = [place for place in chosen if options[place].timely]
    able = priced or wants.by != "cost"
    by: By = wants.by if able and (timely or work.mode == "operation") else "time"
    return by, timely if by != "time" and timely else chosen


def _price_turns(
    pick: int, pool: list[int], options: Sequence[Option], picked_at: Callable[[int, float], int | None]
) -> tuple[PriceTurn, ...]:
    """Prices from which on the pick, and other choices on the front, no longer are the pick."""
    others = sorted((place for place in pool if place != pick and options[place].on_front),
                    key=lambda place: options[place].usd or math.inf)  # fmt: skip
    turns = []
    for place in (pick, *others):
        row = options[place].row
        if row.is_here or not row.usd_per_hour:
            continue
        low = row.usd_per_hour / (1.0 if place == pick else PRICE_FACTOR)
        high = row.usd_per_hour * PRICE_FACTOR
        if picked_at(place, low) != place or picked_at(place, high) == place:
            continue
        while high > low * (1 + PRICE_POINT):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if picked_at(place, middle) == place else (low, middle)
        above = picked_at(place, high)
        if above is not None:
            turns.append(PriceTurn(row.device, low, options[above].device))
    return tuple(turns)


def _turning(
    pool: list[int], rows: Sequence[Row], cost: np.ndarray, time: np.ndarray, hour_usd: float
) -> tuple[Turning, ...]:
    """Points where the pick changes as an hour of waiting costs more than `hour_usd`."""

    def at(price: float) -> int:
        return _waiting_pick(pool, rows, cost, time, price)

    points: list[Turning] = []

    def look(low: float, high: float, first: int, last: int) -> None:
        if first == last:
            return
        if high - low <= POINT * max(high, 1.0):
            points.append(Turning(high, rows[last].device))
            return
        middle = (low + high) / 2 if high < 2 * max(low, 1.0) else math.sqrt(max(low, 0.1) * high)
        between = at(middle)
        look(low, middle, first, between)
        look(middle, high, between, last)

    look(hour_usd, DEAREST_HOUR, at(hour_usd), at(DEAREST_HOUR))
    return tuple(points)


def _is_worse(option: Option, best: Option, by: By) -> bool:
    """Return whether it takes noticeably longer, costs noticeably more, or more of what decides."""
    longer = (option.seconds or 0.0) > max((best.seconds or 0.0) * (1 + NEAR), (best.seconds or 0.0) + NEAR_SECONDS)
    dearer = (option.usd or 0.0) > max((best.usd or 0.0) * (1 + NEAR), (best.usd or 0.0) + NEAR_USD)
    least, most = (getattr(one, MEASURES[by]) or 0.0 for one in (best, option))
    uses_more = by in ("energy", "co2") and most > max(least * (1 + NEAR), least + SLACK[by])
    return longer or dearer or uses_more


def _at_price(row: Row, wants: Wants) -> Row:
    """The row at the price and on the grid that the user names, which have no spread."""
    if wants.grid is not None:
        row = replace(row, grid=Grid(wants.grid, region="yours"))
    count, name = row.priced
    usd = wants.here_usd if row.is_here else wants.prices.get(name)
    if usd is None:
        return row
    kind = row.price.kind if row.price.kind in ("spot", "free") else "user"
    return replace(row, usd_per_hour=usd * count, usd_log_sd_shared=0.0, usd_log_sd_own=0.0, price=Price(kind))


def _whole(work: Work, rows: Sequence[Row], steps: np.ndarray, amount: Amount) -> np.ndarray:
    """Seconds of the whole work in each draw: its steps, and the prompts of what is generated."""
    counts = np.array([amount.units / work.units_on(row) for row in rows])[:, None]
    prompts = [(row.prefill_time or 0.0) / row.step_time / (work.prompt or 1) if row.step_time else 0.0 for row in rows]
    return np.asarray(counts * steps * (1 + np.array(prompts))[:, None])


def taken_away(row: Row, wants: Wants) -> Interruptions | None:
    """Return how often this machine goes and what coming back takes; a session's end is known, so it has no rate."""
    rate = (ASSUMED_RATE if wants.interruptions is None else wants.interruptions) if row.spot else 0.0
    if not rate and not row.session_hours:
        return None
    moved = state_time(row.state_bytes)
    return Interruptions(rate, SAVE_TIME + moved, row.start_time + moved)


def _with_ends(
    working: np.ndarray, starts: np.ndarray, rows: Sequence[Row], taken: Sequence[Interruptions | None]
) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds that are billed, and until all is done, with what is lost to machines that go and sessions."""
    running, waiting = working.copy(), np.zeros(working.shape)
    for place, (row, away) in enumerate(zip(rows, taken, strict=True)):
        if away is None or not row.step_time:
            continue
        if row.session_hours:
            again = sessions(working[place], starts[place], row, away) - 1
            running[place] += again * (away.save + away.load)
        if away.rate:
            mean, sd = away.billed(working[place] - starts[place])
            lost = sd * joint.normal(DRAWS, 0, "taken") - sd**2 / 2
            running[place] = starts[place] + mean * np.exp(lost)
            waiting[place] = away.waiting(running[place])
    week = np.array([min((row.week_hours or math.inf) * HOUR, WEEK) for row in rows])[:, None]
    pauses = np.where(running > week, np.floor(running / week) * (WEEK - week), 0.0)
    return running, running + waiting + pauses


def sessions(working: np.ndarray, start: np.ndarray | float, row: Row, away: Interruptions) -> np.ndarray:
    """Return in how many sessions a free machine does the work: it saves before each end but the last."""
    whole = (row.session_hours or math.inf) * HOUR
    useful = max(whole - away.load - away.save, HOUR / 60)
    return np.asarray(np.where(working > whole, np.ceil((working - start) / useful), 1.0))


def _beyond(working: np.ndarray, rows: Sequence[Row], wants: Wants) -> np.ndarray:
    """Return in which draws a session ends before the work does: as bad as being late, unless all has to be free."""
    whole = np.array([math.inf if wants.only_free else (row.session_hours or math.inf) * HOUR for row in rows])
    return np.asarray(working > whole[:, None])


def energy_draws(rows: Sequence[Row], running: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return kilowatt-hours and kg of CO2 of each row in each draw, nan where no watts are known.

    They take the normal numbers of prices: nothing depends on both.
    """
    kwh = np.full(running.shape, np.nan)
    grams = np.empty(running.shape)
    for place, row in enumerate(rows):
        if row.power is not None:
            watts = row.power.total * np.exp(row.power.log_sd * joint.normal(DRAWS, 0, "price", row.market))
            kwh[place] = watts * running[place] / JOULES_PER_KWH
        grams[place] = row.grid.g_per_kwh * np.exp(row.grid.log_sd * joint.normal(DRAWS, 0, "market"))
    return kwh, kwh * grams / GRAMS


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


def _with_interruptions(option: Option, away: Interruptions | None, working: np.ndarray, row: Row) -> Option:
    """Return the option with how often its machine goes, and how long the work takes without checkpoints."""
    if away is None or option.seconds is None:
        return option
    work = np.array([np.quantile(working, 0.5)])
    if not away.rate:
        return replace(option, taken=away, times_taken=float(sessions(work, row.start_time, row, away)[0]) - 1)
    billed, _ = away.billed(work - row.start_time)
    unsaved, _ = away.billed(work - row.start_time, math.inf)
    return replace(option, taken=away, times_taken=float(billed[0]) * away.rate / HOUR, unsaved=float(unsaved[0]))


def _ends(name: str, values: np.ndarray) -> dict[str, Any]:
    return dict(zip((f"{name}_low", name, f"{name}_high"), map(float, np.quantile(values, QUANTILES)), strict=True))


def _ruled_out(option: Option, wants: Wants) -> RuledOut | None:
    row = option.row
    if row.evidence == DOES_NOT_FIT:
        return RuledOut(Reason.TIGHT if row.memory_tight else Reason.FITS)
    if option.seconds is None:
        return RuledOut(Reason.TIME, detail=row.reason)
    if row.spot and not wants.spot:
        return RuledOut(Reason.SPOT)
    if row.port and not wants.port:
        return RuledOut(Reason.PORT)
    if wants.by in ("energy", "co2") and option.kwh is None:
        return RuledOut(Reason.POWER)
    if option.usd is None:
        return RuledOut(Reason.PRICE) if wants.by == "cost" or wants.budget is not None else None
    if wants.only_free and option.usd > 0 and not row.is_here:
        return RuledOut(Reason.FREE)
    if wants.budget is not None and option.usd > wants.budget:
        return RuledOut(Reason.BUDGET, usd=wants.budget)
    if row.session_hours and option.seconds > row.session_hours * HOUR and not wants.only_free:
        return RuledOut(Reason.SESSION, hours=row.session_hours)
    return None


def _waiting_pick(pool: list[int], rows: Sequence[Row], cost: np.ndarray, time: np.ndarray, hour_usd: float) -> int:
    """Return the one of the least USD with those that waiting costs: none slower than where waiting costs nothing.

    Time has its price then, so that none is taken for its time among nearly equal ones.
    """
    pick = _pick(pool, rows, cost, time, "cost")
    if not hour_usd:
        return pick
    as_fast = [place for place in pool if not time[place] > time[pick]]
    return _pick(as_fast, rows, cost + hour_usd * time / HOUR, time, "cost", near=0.0)


def _pick(pool: list[int], rows: Sequence[Row], cost: np.ndarray, time: np.ndarray, by: By, near: float = NEAR) -> int:
    """Return the one of the least expected cost; of nearly equal ones the fastest, then the one here or the cheapest.

    `cost` is what decides: USD, or energy or CO2; shares of it below `near` do not count. Where time decides, time
    comes before cost.
    """
    left = pool
    cost_first = [(cost, near, SLACK[by]), (time, NEAR, NEAR_SECONDS)]
    for measure, share, slack in reversed(cost_first) if by == "time" else cost_first:
        least = min((measure[place] for place in left if not math.isnan(measure[place])), default=0.0)
        left = [place for place in left if not measure[place] > max(least * (1 + share), least + slack)] or left
    here = [place for place in left if rows[place].is_here]

    def order(place: int) -> tuple[bool, float, bool, float]:
        """The least cost first; of the same cost a GPU before a TPU, which needs other software."""
        return math.isnan(cost[place]), float(np.nan_to_num(cost[place])), rows[place].kind == "tpu", time[place]

    return min(here or left, key=order)


def _chances(
    chosen: list[int], value: np.ndarray, seconds: np.ndarray, late: np.ndarray, by: By
) -> tuple[np.ndarray, np.ndarray]:
    """Return for each choice and draw whether nothing is better by more than 5 %, and what the best would save.

    A choice that ends too late is worse than any that does not.
    """
    worth, slack = (seconds, NEAR_SECONDS) if by == "time" else (value, SLACK[by])
    values = np.where(np.isnan(worth[chosen]), np.inf, worth[chosen])
    late = late[chosen] if by != "time" else np.zeros(values.shape, bool)
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


def _to_avoid(best: Option, choices: Sequence[Option]) -> Option | None:
    """The choice that costs most of those that are slower, too, where it costs twice as much and AVOID_USD more."""
    worse = [
        option
        for option in choices
        if (option.seconds or 0) > (best.seconds or 0)
        and (option.usd or 0) > max(2 * (best.usd or 0), (best.usd or 0) + AVOID_USD)
        and option.row.card != best.row.card
    ]
    return max(worse, key=lambda option: option.usd or 0.0, default=None)


def _ordered(options: Sequence[Option], by: By, pick: Option | None = None) -> list[Option]:
    """The pick, then choices by cost or time, then those without a price, then what is ruled out."""

    def place(option: Option) -> tuple[Any, ...]:
        measure: float | None = getattr(option, MEASURES[by])
        return option is not pick, option.ruled_out is not None, measure is None, measure or 0.0, option.seconds or 0.0

    return sorted(options, key=place)
