"""The words of an answer: for a terminal, the page, the report and a notebook, made here alone, from facts.

The first line is the decision. What is above the table has at most eight lines. Nothing reads what is written here.
"""

import json
import math
import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any

from whichdevice.base.numbers import between, counted, ends_in_words, number, time_words, two, usd_words
from whichdevice.base.sheets.machines import Cores
from whichdevice.base.sheets.prices import OLD_DAYS, Z80
from whichdevice.decide import facts
from whichdevice.decide.decide import (
    NEAR,
    NEAR_SECONDS,
    NEAR_USD,
    SURE,
    Answer,
    Option,
    Reason,
    RuledOut,
)
from whichdevice.decide.interruptions import HOUR, RATE
from whichdevice.decide.rows import DOES_NOT_FIT, ESTIMATED, MEASURED, AskedWork, Row
from whichdevice.models.address import ARGUMENTS
from whichdevice.models.script.found import Evaluation

MAX_LINES = 8
LATE = 0.05  # of doubt that is left where the deadline is the doubt
CERTAIN = 0.99  # chance from which on no number is given
HALF = "mixed 16 bits"
FORMAT_NAMES = {"float32": "float32", "tf32": "TF32", "mixed_bfloat16": HALF, "mixed_float16": HALF}
MIN_GB = 0.1  # of memory that is told in GB, less in MB
ONE_PER_CENT = 0.01
PART_NAMES = {
    "optimizer": "optimiser", "update": "the optimiser's copies", "rest": "buffers and fragments",
    "kept": "kept by its runtime", "context": "CUDA's context",
}  # fmt: skip
WHY = {
    Reason.FITS: "does not fit", Reason.TIGHT: "may not fit", Reason.TIME: "no time is known",
    Reason.PRICE: "no price known", Reason.SPOT: "may be taken away", Reason.PORT: "needs PyTorch/XLA",
    Reason.FREE: "is not free", Reason.SESSION: "a session ends after {hours:g} h",
}  # fmt: skip
FEEDING = {
    "float32": "float32 products take {share} of the time, --precision {setting}",
    "time steps": "a loop over time steps takes {share} of the time, a batch {setting} times as large",
    "batch": "each chip has few examples, a batch {setting} times as large",
}
INTERVALS = "In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there."
BY_LOOP = (
    "This is the loop of transformers, which waits for the CPU at each token; a server such as vLLM is faster, and "
    "another device may be the cheapest: whichdevice serve."
)


def title(answer: Answer) -> str:
    """Return what the answer is about: model, size of the work, batch, number formats."""
    work, amount = answer.work, amount_words(answer)
    doing = f"predictions of {amount}" if work.mode == "predict" else amount
    engine = "transformers' own loop" if by_loop(work) else ""
    return " · ".join(filter(None, [work.name, doing, batch_words(work), formats(work.rows), engine]))


def batch_words(work: AskedWork) -> str:
    """Return `batch 1,024`."""
    if work.unit == "product":
        return f"N {work.batch:,}"
    return f"batch {work.batch:,}" + " on each" * (work.fixed != "batch" and work.most_devices > 1)


def by_loop(work: AskedWork) -> bool:
    """Return whether tokens come from transformers' own loop rather than from a server."""
    return work.mode == "generate" and work.module.startswith("hf:")


def amount_words(answer: Answer) -> str:
    """Return the size of the work: `60,000 images × 10 epochs`."""
    amount, unit = answer.amount, answer.work.unit
    if not amount.given:
        return f"a million {unit}s"
    count = f"{amount.number:,.0f}" if amount.counted == "steps" else count_words(amount.number)
    if amount.counted != "units":
        return f"{count} {amount.counted}"
    return f"{count} {unit}s" if amount.epochs == 1 else f"{count} {unit}s × {amount.epochs:,.10g} epochs"


def count_words(value: float) -> str:
    """Return a count: `60,000`, `1.1 billion`."""
    for one, word in ((1e9, "billion"), (1e6, "million")):
        hundredths = round(value / one * 100)
        if value >= one and math.isclose(value, hundredths * one / 100, rel_tol=1e-9):
            return f"{hundredths / 100:g} {word}"
    return f"{value:,.0f}"


def formats(rows: Sequence[Row]) -> str:
    """Return number formats; where those of measured devices differ from those of forecasts, which is which."""
    timed = [row for row in rows if row.step_time and row.evidence != ESTIMATED]
    known = timed or [row for row in rows if not row.is_here] or list(rows)
    here = dict.fromkeys(_format(row) for row in known if row.is_here and row.precision)
    elsewhere = dict.fromkeys(_format(row) for row in known if not row.is_here and row.precision)
    if not here or not elsewhere or here == elsewhere:
        return ", ".join(here | elsewhere)
    return ", ".join([*(f"{name} here" for name in here), *(f"{name} elsewhere" for name in elsewhere)])


def _format(row: Row) -> str:
    name = FORMAT_NAMES.get(row.precision, row.precision)
    return f"{name} by torch.compile" if row.software == "torch.compile" else name


def lines(answer: Answer) -> list[str]:
    """Return what is above the table; the first line is the decision."""
    if answer.pick is None:
        return _nothing(answer)
    fastest = hurry_words(answer)
    above = [decision(answer), "", _why(answer), _either(answer), fastest and f"Fastest: {fastest}."]
    if facts.is_odd(answer):
        trains = f"{answer.work.source} trains on {amount_words(answer)}"
        above[1] = f"Is it so long? {trains}: name your own with --examples and --epochs, or --steps."
    above += [_with_more_time(answer), waiting(answer), _feeding(answer), _tight(answer), _free(answer), _avoid(answer)]
    size = []  # what nobody named is never left out
    if not answer.amount.given and answer.work.mode != "operation":
        size = [f"For {amount_words(answer)}: name your own with --examples and --epochs, --steps or --tokens."]
    return [*[*filter(None, above)][: MAX_LINES - len(size)], *size]


def _feeding(answer: Answer) -> str:
    """Return what a TPU that is picked, or the fastest device, needs so that its matrix units work."""
    options = [option for option in (answer.pick, answer.fastest) if option is not None and option.row.feed]
    if not options or options[0].host_decides:
        return ""
    row, change = options[0].row, options[0].row.feed[0]
    share, setting, took = chance(change["share"]), change["setting"], f"{change['time']:.2f}"
    what = FEEDING[change["cause"]].format(share=share, setting=setting)
    return f"To feed the {row.card}: {what}: {took} times the time of an example."


def decision(answer: Answer) -> str:
    """Return the pick with the hours and dollars of the whole work, in one sentence."""
    pick = answer.pick
    assert pick is not None and pick.seconds is not None
    row, here = pick.row, answer.here
    cost = ", no price known" if pick.usd is None else f", USD {usd_of(pick)}"
    if answer.work.mode == "operation" and row.step_time:
        hourly = "" if row.usd_per_hour is None else f" at USD {usd_words(row.usd_per_hour)} an hour"
        work = f"{rate_words(answer, row)}{hourly}; {amount_words(answer)}"
        return f"{name_words(pick)}: {work}: {time_of(pick)}{cost}."
    if row.price.kind == "electricity":
        cost += " of electricity"
    instead = ""
    if not row.is_here and here is not None:
        why = "does not fit" if here.row.evidence == DOES_NOT_FIT else "has no time"
        instead = f"; {where(here.row)} it {why}"
        if here.seconds is not None:
            instead = f" instead of {time_of(here, interval=False)} {where(here.row)}"
    start = f" after {start_of(row)} to start" if start_matters(pick) else ""
    use = f"{name_words(pick)}, or one as good" if answer.toss_up else name_words(pick)
    return f"{use}: {begun_of(pick)}{start}{instead}{cost}."


def small(value: float) -> str:
    """Return a number in two digits that may be very small: `<0.001`, `0.034`, `120`."""
    return "<0.001" if 0 < value < 0.001 else two(value)


def rate_words(answer: Answer, row: Row) -> str:
    """Return `128 products a second`."""
    rate = number(answer.work.units_on(row) / (row.step_time or math.inf))
    return f"{rate} {answer.work.unit}s a second"


def name_words(option: Option) -> str:
    """Return what to do: `Use this machine`, `Use a free T4 (Colab or Kaggle)`, `Rent an RTX 4090`."""
    row = option.row
    if row.is_here:
        return f"Use {row.device}"
    if row.price.kind == "free":
        card = f"a free machine with {row.card}" if row.devices > 1 else f"a free {row.card}"
        return f"Use {card} ({row.price.provider})"
    if row.spot:
        card = f"{row.card} as spot machines" if row.devices > 1 else f"a spot {row.card}"
        return f"Rent {card} ({row.price.provider})"
    if row.price.kind == "unknown":
        return f"Use {called(row)}"
    if not row.price.provider:
        return f"Rent {called(row)}"
    return f"Rent {called(row)} ({'' if row.price.providers == 1 else 'lowest: '}{row.price.provider})"


def called(row: Row) -> str:
    """Return the device in a sentence: `an RTX 4090`, `8 × T4`, `T4, spot`."""
    several = " × " in row.card
    return row.device if several or row.device != row.card else f"{article(row.card)} {row.card}"


SPELT = "AEFHILMNORSX"  # letters whose names begin with a vowel: an H100, an RX 7900


def article(name: str) -> str:
    """Return `an` before a name that begins with a vowel when spoken, else `a`."""
    first = name.split()[0]
    vowels = SPELT if first.isupper() else "AEIO"
    return "an" if first[0] in vowels else "a"


def where(row: Row) -> str:
    """Return `here`, or `on cpu` where a study gives the machine another name."""
    return "here" if row.device == "this machine" else f"on {row.device}"


def time_of(option: Option, interval: bool = True) -> str:
    """Return the time of the whole work: `16 s [14–19 s] + 7 min` where a part of it is to start the machine."""
    start = f" + {time_words(option.row.start_time)}" if start_matters(option) else ""
    return begun_of(option, interval) + start


def begun_of(option: Option, interval: bool = True) -> str:
    """Return the time of the whole work once the machine has started."""
    if option.begun is None:
        return "–"
    rough = option.row.rough
    written = partial(time_words, like=option.begun)
    ends = "" if rough or not interval else between(option.begun_low, option.begun_high, written)
    return time_words(option.begun, rough) + ends


def start_matters(option: Option) -> bool:
    """Return whether a time without the start would mislead."""
    return option.begun is not None and option.row.start_time > NEAR * option.begun


def start_of(row: Row) -> str:
    """Return the time until the work begins: `7 min [4.2–12 min]`."""
    half, written = math.exp(Z80 * row.start_log_sd), partial(time_words, like=row.start_time)
    return time_words(row.start_time) + between(row.start_time / half, row.start_time * half, written)


def usd_of(option: Option, interval: bool = True) -> str:
    """Return the price of the whole work."""
    if option.usd is None:
        return "–"
    rough = option.row.rough
    ends = "" if rough or not interval else between(option.usd_low, option.usd_high, usd_words)
    return ("about " if rough and option.usd >= 0.1 else "") + usd_words(option.usd) + ends


def cost_words(option: Option, interval: bool = False) -> str:
    """Return `2.1 h, USD 1.20`: the time, with its interval where that is wanted, and the price of the whole work."""
    return f"{time_of(option, interval)}, USD {usd_of(option, interval=False)}"


def _why(answer: Answer) -> str:
    """Return why it is this one, and how sure that is."""
    pick, by, choices = answer.pick, answer.by, answer.choices
    assert pick is not None
    if len(choices) == 1:
        return "It is the only choice."
    if not answer.matters:
        apart = "5 %" if (pick.seconds or 0) * NEAR > NEAR_SECONDS else f"{NEAR_SECONDS / 60:.0f} min"
        dollars = "5 %" if (pick.usd or 0) * NEAR > NEAR_USD else f"USD {NEAR_USD:.2f}"
        return f"The choice hardly matters: none of {len(choices)} differs by more than {apart} and {dollars}."
    among = _among(answer)
    most, sure = _most(answer) + (" by this loop" if by_loop(answer.work) else ""), pick.sure or 0.0
    if sure >= SURE:
        return f"{most}{among}; that is sure." if sure >= CERTAIN else f"{most}{among}; {chance(sure)} sure."
    most_saved = answer.regret_at_most
    saves = f"another saves at most {f'USD {usd_words(most_saved)}' if by == 'cost' else time_words(most_saved)}"
    in_time = pick.in_time if pick.in_time is not None else 1.0
    if by != "time" and in_time < SURE and in_time - sure < LATE:
        return f"{most}{among}, and {chance(in_time)} sure to do so."
    if answer.toss_up:
        devices = joined([option.device for option in answer.toss_up])
        return f"Too near to call{among}: {devices}; {saves} in 9 of 10 cases."
    return f"Probably {most.lower()}{among}: {chance(sure)} sure; {saves} in 9 of 10 cases."


def _most(answer: Answer) -> str:
    """Return what the pick is of its kind."""
    if len(answer.pool) == 1:
        return "The only one"
    if answer.by == "time" or answer.pick is None:
        return "Fastest"
    usd = answer.pick.usd or 0
    near = any(option.usd is not None and option.usd < usd for option in answer.pool)
    return "As good as the cheapest" if near else "Cheapest"


def _among(answer: Answer) -> str:
    only = len(answer.pool) == 1
    among = f" of {len(answer.choices if only else answer.pool)}"
    deadline = time_words(answer.wants.deadline)
    if answer.late:
        return among + f"; none ends within {deadline}"
    if answer.by != "time" and answer.work.mode != "operation":
        among += f" that {'ends' if only else 'end'} within {deadline}"
    return among


def chance(share: float) -> str:
    """Return a probability in per cent."""
    return f"{100 * share:.0f} %"


def range_words(row: Row) -> str:
    """Return what an hour costs: `0.29 to 0.69`, or a price without a spread."""
    low, high = (usd_words(end or 0.0) for end in row.usd_ends)
    return low if low == high else f"{low} to {high}"


def _hourly(answer: Answer) -> list[str]:
    """Return the price of an hour of the choices that matter most, and how old it is where it is old."""
    parts, old = [], []
    for option in facts.priced(answer):
        row, price = option.row, option.row.price
        median = f" ({range_words(row)}), the median of {counted(price.providers, 'provider')}"
        several = "" if price.providers == 1 else f"{median}, lowest {usd_words(price.lowest or 0.0)}"
        parts.append(f"{row.device} USD {usd_words(row.usd_per_hour or 0.0)}{several} ({price.provider})")
        if (price.age or 0) > OLD_DAYS:
            old.append(f"{row.device} {price.age} days")
    hours = [f"An hour costs: {'; '.join(parts)}."] * bool(parts)
    return hours + ([f"Prices are old: {joined(old)}; whichdevice prices --update takes newer ones."] if old else [])


def _either(answer: Answer) -> str:
    """Return the other choice where the pick is not sure, and what tells them apart."""
    pick, rival = answer.pick, answer.rival
    if pick is None or rival is None or not answer.matters or rival.device == pick.row.card:
        return ""  # of a free one the paid one has a line of its own
    apart = []
    if rival.seconds and pick.seconds and abs(math.log(rival.seconds / pick.seconds)) > NEAR:
        apart.append(f"it takes {time_of(rival, interval=False)}")
    if rival.usd is not None and pick.usd is not None and usd_words(rival.usd) != usd_words(pick.usd):
        apart.append(f"costs USD {usd_of(rival, interval=False)}")
    mine, other = pick.row.memory, rival.row.memory
    if mine and other and abs(math.log(mine / other)) > 0.2:
        apart.append(f"has {other / 1e9:.0f} GB instead of {mine / 1e9:.0f}")
    return f"Or {rival.device}: {', '.join(apart) or 'the two are the same by forecast'}."


def hurry_words(answer: Answer) -> str:
    """Return the fastest choice, and the price of an hour of waiting that it is worth; empty where it saves little."""
    fastest, usd = facts.hurry(answer), facts.hurry_usd(answer)
    if fastest is None:
        return ""
    worth = "" if usd is None else f"; worth it if an hour of waiting costs you USD {hour_words(usd)}"
    return f"{fastest.device}, {cost_words(fastest, interval=True)}{worth}"


def hour_words(usd: float) -> str:
    """Return the price of an hour, rounded up: `0.15`, `1.30`, `14`."""
    return f"{math.ceil(usd * 100 - 1e-6) / 100:.2f}" if usd < 10 else f"{math.ceil(usd):,}"


def _with_more_time(answer: Answer) -> str:
    """Return a choice that is cheaper and ends after the deadline."""
    option, days = facts.more_time(answer) or (None, 0)
    if option is None:
        return ""
    return f"Cheaper with more time: {option.device}, {cost_words(option)} (--deadline {days}d)."


def waiting(answer: Answer) -> str:
    """Return how long the pick, or else the fastest device, waits for the pipeline; empty where it hardly does."""
    work, limit = answer.work, facts.pipeline(answer)
    if answer.pick is not None and (share := facts.collecting(answer)) is not None:
        time = f"{chance(share)} of the time on {answer.pick.row.card}"
        return f"Your environment decides: {time} is collecting; no device changes that."
    if limit is None:
        return ""
    device = f"a free {limit.card}" if limit.free else limit.card
    takes, waits = two(limit.takes), f"would wait {chance(limit.waits)} of the time"
    rate, written = f"{two(limit.rate)} {work.unit}s/s", _workers(work.written_workers or 0)
    if limit.as_written:
        best = _workers(limit.workers)
        return f"As written, with {written}, your pipeline gives {rate}; {device} takes {takes}: use {best}."
    less = "" if limit.written is None else f", {two(limit.written)} with {written} as written"
    if limit.cores is None:
        gives = f"{rate} with {counted(max(1, work.pipeline_workers), 'core')} here"
    elif limit.processes > 1:
        gives = f"{rate} in {limit.processes} processes, one for each GPU"
    elif not limit.core_rate:
        gives = f"{rate} with any number of cores"
    elif limit.processes:
        gives = f"{rate} in the training's own process"
    else:
        machine = f"{device}, with {_cores(limit.cores)} in its machine"
        core = f"{two(limit.core_rate)} {work.unit}s/s a core"
        return f"Your pipeline gives {core}{less}; {machine}, {waits}; {two(limit.feed)} would feed it."
    return f"Your pipeline gives {gives}{less}; {device} takes {takes} and {waits}."


def _cores(cores: Cores) -> str:
    number = f"{cores.number:,.0f} cores"
    if cores.assumed:
        return f"{number} (assumed)"
    return number if cores.low == cores.high else f"about {number} ({cores.low:,.0f} to {cores.high:,.0f})"


def _workers(count: int) -> str:
    return counted(count, "worker") if count else "no worker process"


def _tight(answer: Answer) -> str:
    """Return the best choice with room, in case the pick turns out to be too small."""
    if answer.pick is None or not answer.pick.row.memory_tight:
        return ""
    other = facts.with_room(answer)
    room = "" if other is None else f" If it does not fit: {other.device}, {cost_words(other)}."
    return f"Memory is tight there: {memory_of(answer.pick.row)} GB.{room}"


def _free(answer: Answer) -> str:
    """Return the paid one of a pick that is free or spot, and whether a session is long enough."""
    pick = answer.pick
    if pick is None or pick.row.price.kind not in ("free", "spot"):
        return ""
    session, hours, week = "", pick.row.session_hours, pick.row.week_hours
    if hours:
        session = f"; a session lasts up to {hours:g} h"
        if pick.times_taken:
            week_words = f", a week {week:g} h" if week else ""
            session += week_words + f": {pick.times_taken + 1:.0f} sessions, save before each ends"
    other = facts.rented_instead(answer)
    paid = ""
    if other is not None and other.usd is not None:
        on_demand = f". On demand: USD {usd_of(other, interval=False)}"
        paid = on_demand if pick.row.spot else f". Paid: {other.device}, {cost_words(other)}"
        paid += f" ({other.row.price.provider})"
    if not pick.row.spot:
        return f"Free devices are not guaranteed{session}{paid}."
    save = facts.saving(answer)
    interval = "" if save is None else f": save every {time_words(save)}"
    return f"It may be taken away at any moment, {chance(RATE * HOUR)} an hour (assumed){interval}{paid}."


def _avoid(answer: Answer) -> str:
    pick, avoid = answer.pick, answer.avoid
    if pick is None or avoid is None or avoid.usd is None:
        return ""
    return f"Avoid {avoid.device}: USD {usd_words(avoid.usd)}, and slower than {pick.device}."


def _nothing(answer: Answer) -> list[str]:
    """Why there is no pick; where nothing fits what is missing and what to do, in the first line."""
    row = facts.largest_too_small(answer)
    if row is None:
        reasons: dict[RuledOut, list[str]] = {}
        for option in answer.options:
            if option.ruled_out is not None and option.why != Reason.SPOT:  # its card is there without that, too
                reasons.setdefault(option.ruled_out, []).append(option.row.card)
        whole = "; ".join(f"{joined(names)}: {why_words(why)}" for why, names in reasons.items())
        return [f"No device is left for {answer.work.name}: {whole}."]
    needs, has = (two((value or 0.0) / 1e9) for value in (row.memory_taken, row.memory))
    fit = [change for change in row.changes if facts.surely_fits(change, row)]
    least = min(fit, key=lambda change: change["time"], default=None)
    do = "" if row.kind != "gpu" else "; try --gpus auto"
    if least is not None:
        do = f"; with {least['name']} {two((least['memory_needed'] + row.memory_kept) / 1e9)} GB"
    first = f"{answer.work.name} fits none of these devices: it needs {needs} GB, {row.device} has {has}{do}."
    return [first, *filter(None, [parts_words(row), changes_words(row)])]


def why_words(ruled_out: RuledOut) -> str:
    """Return why a device is no choice."""
    if ruled_out.reason == Reason.TIME and ruled_out.detail:
        return ruled_out.detail
    return WHY[ruled_out.reason].format(hours=ruled_out.hours or 0)


def known_words(option: Option) -> str:
    """Return how a row is known."""
    row = option.row
    known = row.evidence if row.evidence in (MEASURED, ESTIMATED) else "forecast"
    known = f"{known}, rough" if row.rough else known
    return f"{known}, disturbed" if row.disturbed else known


def memory_words(answer: Answer) -> list[str]:
    """Return what takes the memory of the pick, and what to change where a cheaper device is too small."""
    pick = answer.pick
    if pick is None:
        return []
    traced = [option.row for option in answer.options if option.row.memory_parts]
    largest = max(traced, key=lambda row: row.memory_available or 0.0, default=None)
    shown = next((row for row in traced if row.device == pick.device), largest)
    cheaper = facts.to_enlarge(answer)
    change = changes_words(cheaper) if cheaper else ""
    if cheaper and facts.changes(cheaper) and answer.work.tunable and answer.work.mode == "train":
        change += " Ask for it, e.g. --option method=lora."
    return [line for line in (parts_words(shown) if shown else "", change) if line]


def longest_words(answer: Answer) -> list[str]:
    """Return the longest sequence that fits each device, the longest first, where that was asked for."""
    asked = [row for row in answer.work.rows if row.longest_sequence is not None]
    lengths = {row.card or row.device: row.longest_sequence or 0 for row in asked}
    if not lengths:
        return []
    ordered = sorted(lengths, key=lambda device: -lengths[device])
    fitting = ", ".join(f"{device} {lengths[device]:,}" for device in ordered if lengths[device])
    none = joined([device for device in ordered if not lengths[device]])
    longest = f"Longest sequence that fits, one in a pass and with gradient checkpointing: {fitting} tokens."
    return [longest] * bool(fitting) + [f"No length surely fits: {none}."] * bool(none)


def parts_words(row: Row) -> str:
    """Return what adds up to the memory that the step takes."""
    known = facts.parts(row)
    if not known:
        return ""
    little = sum(known.values()) - known.get("context", 0.0) - known.get("kept", 0.0) < MIN_GB * 1e9
    unit, size = ("MB", 1e6) if little else ("GB", 1e9)
    parts = ", ".join(f"{PART_NAMES.get(name, name)} {small(nbytes / size)}" for name, nbytes in known.items())
    of_each = " of each" if row.devices > 1 else ""
    way = f" With {row.way}." if row.way else ""
    return f"Memory{of_each}, {unit}: {parts}.{way}"


def changes_words(row: Row) -> str:
    """Return what takes less memory on a device, in words; empty where nothing does."""
    changes = [
        f"{one['name']} {two((one['memory_needed'] + row.memory_kept) / 1e9)} GB ({two(one['time'])} times the time)"
        for one in facts.changes(row)
    ]
    if count := facts.gpus_that_hold(row):
        changes.append(f"{count} GPUs (--gpus {count})")
    if not changes:
        return ""
    small = f"{row.device} {'may be' if row.memory_tight else 'is'} too small ({two((row.memory or 0.0) / 1e9)} GB)"
    return f"{small}. What to change: {'; '.join(changes)}."


def notes(answer: Answer) -> list[str]:
    """Return what is below the table: how to read it, and what limits it."""
    return [*notes_without_command(answer), *settling_line(answer)]


def notes_without_command(answer: Answer) -> list[str]:
    """Return the same notes without a command to copy, whose line is never broken."""
    passing, counts, buy = _hourly(answer), facts.several_in_time(answer), facts.buying(answer)
    if counts:
        passing.append(f"Several GPUs may end in time: --gpus {','.join(map(str, counts))}.")
    passing += _offers(answer)
    if buy is not None:
        price, hours = usd_words(buy.usd), two(buy.hours)
        passing.append(f"To buy one (about USD {price}) is cheaper from {hours} h of use on.")
    return [*_each_gpu(answer), *running_lines(answer), *memory_words(answer), *lasting_notes(answer), *passing]


def running_lines(answer: Answer) -> list[str]:
    """Return how to run the pick, where that differs from what was asked for."""
    run, pick = facts.running(answer), answer.pick
    if run is None or pick is None:
        return []
    passes = f" × {run.passes:,}" if run.passes > 1 else ""
    light = "gradient checkpointing" if run.checkpointing else "no checkpointing"
    workers = "" if run.workers is None else f", {_workers(run.workers)} to load data"
    faster = f": {run.time:.2f} times the time of an example" if abs(run.time - 1) > NEAR else ""
    largest = "" if run.largest is None else f"; up to {run.largest:,} fit"
    step = f"batch {run.batch:,}{passes}, {_format(pick.row)}, {light}"
    return [f"Run it as: {step}{workers}{faster}{largest}."]


def lasting_notes(answer: Answer) -> list[str]:
    """Return the notes that hold whatever is picked."""
    rows, lasting = answer.work.rows, [*longest_words(answer), *answer.work.remarks]
    if by_loop(answer.work):
        lasting.insert(0, BY_LOOP)
    tpus = {row.card for row in rows if row.kind == "tpu" and row.rented and row.step_time}
    for note, cards in facts.step_notes(answer).items():
        noted = "TPUs" if len(cards) > 1 and set(cards) == tpus else joined(cards, 4) if cards else ""
        lasting.append(f"Note on {noted}: {note}." if cards else f"Note: {note}.")
    if any(option.seconds and not option.row.rough for option in answer.options):
        lasting.append(INTERVALS)
    if untested := facts.untested(answer):
        lasting.append(f"Untested by published times, so with a wider range: {joined(untested, 4)}.")
    if step := facts.lived(answer):
        less = f"; with images decoded beforehand: {step.prepared:.1f} times" if step.prepared else ""
        written = partial(time_words, like=max(step.whole or (0.0,)))
        ends_of_whole = ends_in_words(*step.whole, written) if step.whole else ""
        whole = f" On {step.card} the whole takes {ends_of_whole} in 8 of 10 cases." if step.whole else ""
        steps = f"{step.times:.1f} times the clean step ({step.low:.1f} to {step.high:.1f} in 8 of 10)"
        lasting.append(f"As scripts like this run: {steps}{less}.{whole}")
    lasting += evaluation_lines(answer)
    hosts, everywhere = facts.host_bound(answer)
    if hosts:
        limited = "all of them" if everywhere else joined(hosts, 4)
        lasting.append(f"The CPU limits {limited}: a faster device changes nothing.")
    lasting += contradiction_lines(answer)
    lasting += [
        f"{time_words(row.step_time or 0.0, True).capitalize()} a step here, not measured."
        for row in rows
        if row.evidence == ESTIMATED and row.step_time
    ]
    lasting += [
        f"Other programs disturbed the measurement {where(row)}: measure again when it is quiet."
        for row in rows
        if row.is_here and row.disturbed
    ]
    started = {row.price.kind == "free": row for row in rows if row.start_time and row.step_time}
    if started:
        times = ", ".join("on a free machine " * free + start_of(started[free]) for free in sorted(started))
        lasting.append(f"Starting takes {times}: prices include it, times show it as +.")
    if answer.work.mode == "train" and answer.pick is not None and answer.work.lived is None:
        lasting.append(f"Not included: {'' if answer.work.pipeline_rate else 'loading data, '}validation.")
    return lasting


def _each_gpu(answer: Answer) -> list[str]:
    """Return how the batch grows with the GPUs."""
    on_each = facts.each_gpu(answer)
    if on_each is None:
        return []
    rest = "for several add --gpus 8, or 1,2,4,8 to compare"
    if on_each.gpus is not None:
        rest = f"a step of {on_each.gpus} GPUs takes {on_each.total:,}"
    if on_each.gpus is not None and on_each.steps is not None:
        rest += f", and any number of them makes {on_each.steps:,.0f} steps"
    return [f"Each GPU takes {counted(on_each.batch, 'example')}, as the script has it; {rest}."]


def evaluation_lines(answer: Answer) -> list[str]:
    """Return what a script does besides its steps, and what of that is not counted."""
    besides = facts.evaluating(answer)
    if besides is None:
        return []
    batches: dict[tuple[str, float, int], float] = {}
    for one in besides.counted:
        every = one.every or 1.0
        key = one.per, max(1.0, every), one.tokens
        batches[key] = batches.get(key, 0.0) + (one.batches or 0.0) / min(1.0, every)  # several in an epoch are summed
    times = []
    for (per, every, tokens), count in batches.items():
        taken = "1 batch" if round(count) == 1 else f"{count:,.0f} batches"
        taken = f"{taken} of {tokens} tokens, one after the other," if tokens else taken
        number = f"{every:,.0f}" if every == round(every) else two(every)
        period = "once" if per == "training" else f"each {per}" if every == 1 else f"every {number} {per}s"
        times.append(f"{taken} {period}")
    reasons = dict.fromkeys(_why_not_counted(one) for one in besides.missing)
    share = chance(besides.share) if besides.share >= ONE_PER_CENT else "less than 1 %"
    counted_line = [f"Evaluation: {joined(times)}, {share} of the hours."] if times else []
    return counted_line + ([f"Evaluation is not counted: {joined(list(reasons))}."] if reasons else [])


def _why_not_counted(one: Evaluation) -> str:
    if one.known:
        return "how many examples an epoch has is not known"
    if one.line is None:
        return "how many batches its trainer takes is not known"
    unknown = f"how many batches line {one.line} takes" if one.batches is None else f"how often line {one.line} runs"
    return f"{unknown} is not known"


def contradiction_lines(answer: Answer) -> list[str]:
    """Return a line for each measured device that contradicts its forecast."""
    times = {row.device: (row.step_time or 0.0) / (row.forecast_time or 1.0) for row in facts.contradictions(answer)}
    return [
        f"{device} contradicts its forecast: measured is {number(longer)} times as long; trust that."
        for device, longer in times.items()
    ]


def _offers(answer: Answer) -> list[str]:
    """Return what would be cheaper as a spot machine, and after a port to other software."""
    spot, port = facts.cheaper(answer, Reason.SPOT), facts.cheaper(answer, Reason.PORT)
    offers = []
    if spot is not None:
        cost = f"{spot.row.card}, {cost_words(spot)} (--spot)"
        offers.append(f"Cheaper where it may be taken away at any moment: {cost}.")
    if port is not None:
        cost = f"{port.device}, {cost_words(port)} (--devices gpu,tpu)"
        offers.append(f"Cheaper with a port to PyTorch/XLA or JAX: {cost}.")
    return offers


def settling_line(answer: Answer) -> list[str]:
    """Return the command that settles the choice, where that pays."""
    settle = facts.settling(answer)
    return [] if settle is None else [f"What would settle it: {rent_command(answer.work, settle)}"]


def rent_command(work: AskedWork, settle: facts.Settling) -> str:
    """Return the command that measures the same step on a rented device, as a shell takes it."""
    model, _, script_arguments = work.module.partition(ARGUMENTS)
    command = ["whichdevice", "rent", model, "--on", settle.device, *["--spot"] * settle.spot]
    command += ["--max-usd", str(settle.max_usd), "--batch", str(work.batch), "--precision", settle.precision]
    if work.mode != "train":
        command += ["--mode", work.mode]
    if work.sequence_length is not None:
        command += ["--sequence-length", str(work.sequence_length)]
    for name, value in work.options.items():
        command += ["--option", f"{name}={json.dumps(value)}"]
    return shlex.join(command) + (f"{ARGUMENTS}{script_arguments}" if script_arguments else "")


def fits_words(row: Row) -> str:
    """Return `3.5 of 25`, with `no` where it does not fit and `tight` where it may or may not."""
    if row.memory_needed is None:
        return "no" if row.fits is False else ""
    return ("tight: " if row.memory_tight else "no: " if row.fits is False else "") + memory_of(row)


def memory_of(row: Row) -> str:
    """Return `3.5 of 25`, in GB of a whole device; what is very small `<0.01 of 25`."""
    size = (row.memory_taken or 0.0) / 1e9
    needed = "<0.01" if 0 < size < 0.01 else two(size)
    if not row.memory:
        return needed
    return f"{needed} of {two(row.memory / 1e9)}"


def joined(names: Sequence[str], most: int = 99) -> str:
    """Return `T4, L4 and A10G`; of many the first few; of none nothing."""
    names = list(dict.fromkeys(names))
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def as_json(answer: Answer) -> dict[str, Any]:
    """Return the facts of an answer as plain data, with its words beside them."""
    plain: dict[str, Any] = facts.as_dict(answer)
    for row, option in zip(plain["rows"], answer.options, strict=True):
        row["why_not"] = None if option.ruled_out is None else why_words(option.ruled_out)
    plain["amount"]["words"] = amount_words(answer)
    return plain | {"words": lines(answer), "notes": notes(answer)}
