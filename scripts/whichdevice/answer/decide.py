"""The decision: hours and dollars of the whole training on every device, one pick, and how sure it is.

The objective: the cheapest device that ends within the deadline; where none does, the fastest. Waiting costs what the
user says an hour is worth. Devices of one question share most of their forecasts' error, so chances, ratios and regret
come from joint draws of all step times; an interval alone decides nothing. The pick has the least expected cost, which
is the least expected regret. It is never held back because intervals overlap.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np

from whichdevice.answer.rows import DOES_NOT_FIT, UNKNOWN, Row, Work
from whichdevice.errors import StudyError
from whichdevice.forecast import joint

HOUR, DAY = 3600.0, 86400.0
WEEK = 7 * DAY
MILLION = 1e6
DRAWS = 400  # of each device: a live page carries them all
DIGITS = 1000  # of the logarithm of a draw, as whole numbers
NEAR = 0.05  # another device is better where it is so by more than this share ...
NEAR_USD, NEAR_SECONDS = 0.05, 900.0  # ... and by more than this: less is not worth moving a training elsewhere
IN_TIME = 0.5  # chance to end within the deadline that a pick needs
SURE, LIKELY = 0.9, 0.7
AVOID_USD = 5.0
QUANTILES = (0.1, 0.5, 0.9)
By = Literal["cost", "time"]


@dataclass(frozen=True)
class Wants:
    """What the user wants. Of the size of the training as much as is known; USD and seconds."""

    examples: float | None = None
    epochs: float | None = None
    steps: float | None = None
    tokens: float | None = None
    by: By = "cost"
    deadline: float = DAY
    budget: float | None = None
    only_free: bool = False
    spot: bool = False  # also machines that may be taken away
    hour_usd: float = 0.0  # that an hour of waiting costs
    here_usd: float | None = None  # an hour of this machine; None: its electricity


@dataclass(frozen=True)
class Amount:
    """How much work is asked about."""

    units: float
    words: str  # `60,000 images × 10 epochs`
    given: bool  # False: nobody said it, so it is a million
    epochs: float = 1.0  # in which these units are the same ones again


@dataclass(frozen=True)
class Option:
    """A device for the whole work: seconds and USD at the median, with the ends of their 80 % intervals."""

    row: Row
    ruled_out: str | None = None  # why it is no choice
    seconds: float | None = None
    seconds_low: float | None = None
    seconds_high: float | None = None
    usd: float | None = None
    usd_low: float | None = None
    usd_high: float | None = None
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
        """Its name."""
        return self.row.device


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
    words: tuple[str, ...] = field(default=(), compare=False)

    @property
    def here(self) -> Option | None:
        """This machine."""
        here = self.work.here
        return next((option for option in self.options if here and option.device == here.device), None)

    @property
    def fits_nowhere(self) -> bool:
        """Whether every device is known to be too small, and by how much; that it has no time here is no matter."""
        rows = [each.row for each in self.options if not (each.row.is_here and each.row.evidence == UNKNOWN)]
        return all(row.evidence == DOES_NOT_FIT for row in rows) and any(row.memory_needed for row in rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: seconds, USD, bytes; None where not known."""
        names = {name: None if each is None else each.device for name, each in self._named().items()}
        work = {name: value for name, value in asdict(self.work).items() if name != "rows"}
        options = [{**asdict(each.row), **_without_row(each)} for each in self.options]
        return _finite({
            **work, "amount": asdict(self.amount), "wants": asdict(self.wants), "by": self.by, **names,
            "sure": self.pick.sure if self.pick else None, "matters": self.matters,
            "regret_at_most": self.regret_at_most, "words": list(self.words), "rows": options,
        })  # fmt: skip

    def _named(self) -> dict[str, Option | None]:
        return {name: getattr(self, name) for name in ("pick", "fastest", "cheapest", "rival", "avoid")}


def _without_row(option: Option) -> dict[str, Any]:
    return {name: value for name, value in vars(option).items() if name != "row"}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def amount_of(work: Work, wants: Wants, epochs: int | None = None, units: float | None = None) -> Amount:
    """The size of the work: as asked, else the data's examples and the file's epochs, else a million units.

    `epochs` and `units` (of one epoch) are what the model's file says.
    """
    plural = f"{work.unit}s"
    if wants.steps is not None:
        return Amount(wants.steps * work.units_per_step, f"{wants.steps:,.0f} steps", True)
    if wants.tokens is not None:
        return Amount(wants.tokens / tokens_of_unit(work), f"{_count(wants.tokens)} tokens", True)
    if wants.examples is not None:
        times = wants.epochs or (epochs if work.mode == "train" else None) or 1
        return Amount(wants.examples * times, f"{_count(wants.examples)} {plural}{_epochs(times)}", True, times)
    many = wants.epochs or epochs
    if work.mode == "train" and units and many:
        return Amount(units * many, f"{_count(units)} {plural}{_epochs(many)}", True, many)
    return Amount(MILLION, f"a million {plural}", False)


def tokens_of_unit(work: Work) -> float:
    """Tokens in one unit; raises StudyError for work without sequences."""
    if work.unit == "token":
        return 1.0
    if not work.sequence_length:
        raise StudyError(f"--tokens: {work.workload} has no sequences of tokens: use --examples")
    return float(work.sequence_length)


def _count(value: float) -> str:
    for one, word in ((1e9, "billion"), (1e6, "million")):
        if value >= one and (value / one * 100) % 1 == 0:
            return f"{value / one:g} {word}"
    return f"{value:,.0f}"


def _epochs(many: float) -> str:
    return "" if many == 1 else f" × {many:,.10g} epochs"


def draws(rows: Sequence[Row], n: int = DRAWS, floor: float = 0.0) -> np.ndarray:
    """Joint step times in seconds [rows, n], nan for a row without one; measured rows have an error of their own.

    No step takes less than `floor`: it waits for its batch.
    """
    timed = [place for place, row in enumerate(rows) if row.step_time]
    known = [vars(rows[place]) | {"device_time": rows[place].device_time or rows[place].step_time} for place in timed]
    own = [
        each | {"software": each["chip"]} if rows[place].is_here else each
        for place, each in zip(timed, known, strict=True)
    ]
    found = np.full((len(rows), n), np.nan)
    found[timed] = np.exp(np.round(np.log(np.maximum(joint.draws(own, n), floor)) * DIGITS) / DIGITS)
    return found


def decide(work: Work, wants: Wants, amount: Amount) -> Answer:
    """The answer for one piece of work, still without words."""
    rows = [_at_price(row, wants, work) for row in work.rows]
    steps = draws(rows, floor=work.floor)
    running = _whole(work, rows, steps, amount)
    seconds = _with_pauses(running, rows)
    hourly = np.array([math.nan if row.usd_per_hour is None else row.usd_per_hour for row in rows])
    usd = hourly[:, None] * running / HOUR
    here = next((place for place, row in enumerate(work.rows) if row is work.here), None)
    options = [
        _option(row, steps[place], seconds[place], usd[place], None if here in (None, place) else steps[here], wants)
        for place, row in enumerate(rows)
    ]
    options = [replace(each, ruled_out=_ruled_out(each, wants, work)) for each in options]
    chosen = [place for place, option in enumerate(options) if option.ruled_out is None]
    value = usd + wants.hour_usd * seconds / HOUR
    timely = [place for place in chosen if (options[place].in_time or 0.0) >= IN_TIME]
    by: By = wants.by if timely or work.mode == "operation" else "time"
    pool = timely if by == "cost" and timely else chosen
    if not pool:
        return Answer(work, wants, amount, tuple(_ordered(options, by)), None, by, True)
    pick = _pick(pool, rows, value, seconds, by)
    late = seconds > wants.deadline
    kept, saved = _chances(chosen, value, seconds, late, by)
    for number, place in enumerate(chosen):
        options[place] = replace(options[place], sure=float(kept[number].mean()), regret=float(saved[number].mean()))
    options = [replace(each, on_front=_on_front(each, options)) for each in options]
    choices = [options[place] for place in chosen]
    best = options[pick]
    rivals = [options[place] for place in pool if place != pick]
    rival = max(rivals, key=lambda each: each.sure or 0.0, default=None)
    others_in_time = [options[place] for place in pool if not rows[place].is_here]
    return Answer(
        work, wants, amount, tuple(_ordered(options, by, best)), best, by,
        matters=any(_is_worse(each, best) for each in choices),
        regret_at_most=float(np.quantile(saved[chosen.index(pick)], 0.9)),
        fastest=min(choices, key=lambda each: (each.seconds or math.inf, math.inf if each.usd is None else each.usd)),
        cheapest=min((each for each in choices if each.usd is not None), key=lambda each: each.usd or 0, default=None),
        rival=rival if (best.sure or 0.0) < LIKELY else None,
        avoid=_to_avoid(best, others_in_time),
    )  # fmt: skip


def _is_worse(option: Option, best: Option) -> bool:
    """Whether it takes noticeably longer or costs noticeably more."""
    longer = (option.seconds or 0.0) > max((best.seconds or 0.0) * (1 + NEAR), (best.seconds or 0.0) + NEAR_SECONDS)
    dearer = (option.usd or 0.0) > max((best.usd or 0.0) * (1 + NEAR), (best.usd or 0.0) + NEAR_USD)
    return longer or dearer


def _at_price(row: Row, wants: Wants, work: Work) -> Row:
    """This machine at the price that the user names."""
    asked = wants.here_usd is not None and row.is_here
    return replace(row, usd_per_hour=wants.here_usd, price="--here-usd") if asked else row


def _whole(work: Work, rows: Sequence[Row], steps: np.ndarray, amount: Amount) -> np.ndarray:
    """Seconds of the whole work in each draw: until it begins, its steps, the prompts of what is generated."""
    count = amount.units / work.units_per_step
    start = np.array([row.start_time for row in rows])[:, None]
    prompts = [(row.prefill_time or 0.0) / row.step_time / (work.prompt or 1) if row.step_time else 0.0 for row in rows]
    return np.asarray(start + count * steps * (1 + np.array(prompts))[:, None])


def _with_pauses(seconds: np.ndarray, rows: Sequence[Row]) -> np.ndarray:
    """Until it ends: a free machine that gives so many hours in a week is waited for where it takes more."""
    week = np.array([min((row.week_hours or math.inf) * HOUR, WEEK) for row in rows])[:, None]
    return np.asarray(seconds + np.where(seconds > week, np.floor(seconds / week) * (WEEK - week), 0.0))


def _option(
    row: Row, steps: np.ndarray, seconds: np.ndarray, usd: np.ndarray, here: np.ndarray | None, wants: Wants
) -> Option:
    if not row.step_time:
        return Option(row)
    found = _ends("seconds", seconds)
    if row.usd_per_hour is not None:
        found |= _ends("usd", usd)
    if here is not None and not np.isnan(here).any():
        found |= _ends("ratio", here / steps)
    floor = row.host_time > 0 and (row.device_time or row.step_time or 0.0) <= row.host_time
    return Option(row, **found, in_time=float((seconds <= wants.deadline).mean()), host_decides=floor)


def _ends(name: str, values: np.ndarray) -> dict[str, Any]:
    return dict(zip((f"{name}_low", name, f"{name}_high"), map(float, np.quantile(values, QUANTILES)), strict=True))


RULED_OUT = {
    "fits": "does not fit",
    "tight": "may not fit",
    "time": "no time is known",
    "price": "no price is known",
    "spot": "may be taken away",
    "free": "is not free",
    "budget": "costs more than {usd:g} USD",
    "session": "a session ends after {hours:g} h",
}


def _ruled_out(option: Option, wants: Wants, work: Work) -> str | None:
    row = option.row
    if row.evidence == DOES_NOT_FIT:
        return RULED_OUT["tight" if row.memory_tight else "fits"]
    if option.seconds is None:
        return row.note or RULED_OUT["time"]
    if row.spot and not wants.spot:
        return RULED_OUT["spot"]
    if option.usd is None:
        return RULED_OUT["price"] if wants.by == "cost" or wants.budget is not None else None
    if wants.only_free and option.usd > 0 and not row.is_here:
        return RULED_OUT["free"]
    if wants.budget is not None and option.usd > wants.budget:
        return RULED_OUT["budget"].format(usd=wants.budget)
    if row.session_hours and option.seconds > row.session_hours * HOUR and not wants.only_free:
        return RULED_OUT["session"].format(hours=row.session_hours)
    return None


def _pick(pool: list[int], rows: Sequence[Row], value: np.ndarray, seconds: np.ndarray, by: By) -> int:
    """Of the least expected cost; of several that are nearly the same the fastest, then the one here or the cheapest.

    Where time decides, time comes before cost.
    """
    mean = {place: float(value[place].mean()) for place in pool}
    long = {place: float(seconds[place].mean()) for place in pool}
    near = pool
    for measure, slack in [(mean, NEAR_USD), (long, NEAR_SECONDS)][:: 1 if by == "cost" else -1]:
        least = min((measure[place] for place in near if not math.isnan(measure[place])), default=0.0)
        near = [place for place in near if not measure[place] > max(least * (1 + NEAR), least + slack)] or near
    here = [place for place in near if rows[place].is_here]
    return min(here or near, key=lambda place: (math.isnan(mean[place]), np.nan_to_num(mean[place]), long[place]))


def _chances(
    chosen: list[int], value: np.ndarray, seconds: np.ndarray, late: np.ndarray, by: By
) -> tuple[np.ndarray, np.ndarray]:
    """For each choice and draw: whether nothing is better by more than 5 %, and what the best would save.

    A choice that ends too late is worse than any that does not.
    """
    worth, slack = (value, NEAR_USD) if by == "cost" else (seconds, NEAR_SECONDS)
    own = np.where(np.isnan(worth[chosen]), np.inf, worth[chosen])
    late = late[chosen] if by == "cost" else np.zeros(own.shape, bool)
    all_late = late.all(axis=0)
    timely = np.where(late & ~all_late, np.inf, own)
    best = timely.min(axis=0)
    kept = (own <= np.maximum(best * (1 + NEAR), best + slack)) & (~late | all_late)
    return kept, np.where(np.isfinite(own), np.maximum(own - best, 0.0), 0.0)


def _on_front(option: Option, options: Sequence[Option]) -> bool:
    """Whether no choice is both cheaper and faster."""
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
        each
        for each in choices
        if (each.seconds or 0) > (best.seconds or 0)
        and (each.usd or 0) > max(2 * (best.usd or 0), (best.usd or 0) + AVOID_USD)
        and each.row.card != best.row.card
    ]
    return max(worse, key=lambda each: each.usd or 0.0, default=None)


def _ordered(options: Sequence[Option], by: By, pick: Option | None = None) -> list[Option]:
    """The pick, then choices by cost or time, then those without a price, then what is ruled out."""

    def place(option: Option) -> tuple[Any, ...]:
        measure = option.usd if by == "cost" else option.seconds
        return option is not pick, option.ruled_out is not None, measure is None, measure or 0.0, option.seconds or 0.0

    return sorted(options, key=place)
