"""The words of an answer: for a terminal, the page, the report and a notebook, made here alone.

The first line is the decision. What stands above the table has at most eight lines.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from whichdevice.answer.decide import (
    DAY,
    HOUR,
    IN_TIME,
    NEAR,
    NEAR_SECONDS,
    NEAR_USD,
    RULED_OUT,
    SURE,
    Answer,
    Option,
)
from whichdevice.answer.rows import DOES_NOT_FIT, ESTIMATED, Row, Work
from whichdevice.config.prices import USD_PER_KWH
from whichdevice.numbers import between, counted, number, time_words, two, usd_words

MOST_LINES = 8
LATE = 0.05  # of doubt that is left where the deadline is the doubt
CERTAIN = 0.99  # chance from which on no number is given
FORMATS = {"float32": "float32", "tf32": "TF32", "mixed_bfloat16": "mixed 16 bits", "mixed_float16": "mixed 16 bits"}
# Sentences that a live page makes anew while its reader types (report/live.js): named parts in braces.
SENTENCES = {
    "decision": "{use}: {time}{instead}{usd}.",
    "instead": " instead of {time} {where}",
    "operation": "{use}: {rate}{hourly}; {amount}: {time}{usd}.",
    "hourly": " at USD {usd} an hour",
    "electricity": " of electricity",
    "alone": "Nothing else is left to choose from.",
    "no_matter": "The choice hardly matters: none of {count} differs by more than {apart} and {more}.",
    "cheapest": "Cheapest",
    "near": "As good as the cheapest",
    "fastest_of_all": "Fastest",
    "among": " of {count}",
    "none_in_time": "; none ends within {time}",
    "in_time": " that end within {time}",
    "only": "The only one",
    "ends_in_time": " that ends within {time}",
    "sure": "{most}{among}; that is sure.",
    "nearly_sure": "{most}{among}; {chance} sure.",
    "late": "{most}{among}, and {chance} sure to do so.",
    "probably": "Probably {most}{among}: {chance} sure; another saves at most {saves} in 9 of 10 cases.",
    "rival": "Or {device}: {apart}.",
    "takes": "it takes {time}",
    "costs": "costs USD {usd}",
    "memory": "has {other} GB instead of {mine}",
    "same": "the two are the same by forecast",
    "fastest": "Fastest: {device}, {time}, USD {usd}{more}.",
    "more": "; worth it if an hour of waiting costs you USD {usd} or more",
    "more_time": "Cheaper with more time: {device}, {time}, USD {usd} (--deadline {days}d).",
    "tight": "Memory is tight there: {memory} GB.{room}",
    "room": " If it does not fit: {device}, {time}, USD {usd}.",
    "free": "Nobody is promised a free one{session}{paid}.",
    "spot": "It may be taken away at any moment: keep checkpoints{session}{paid}.",
    "session": "; a session lasts up to {hours} h",
    "week": ", a week {hours} h",
    "keep": ": keep checkpoints",
    "paid": ". Paid: USD {usd} ({provider})",
    "on_demand": ". On demand: USD {usd} ({provider})",
    "avoid": "Avoid {device}: USD {usd}, and slower than {pick}.",
    "pipeline": "Your pipeline gives {rate} with {cores}{written}; {device} takes {takes}: it would wait {waits} of "
    "the time; about {feed} such cores feed it.",
    "written": ", {rate} with {workers} as written",
    "workers": "As written, with {workers}, your pipeline gives {rate}; {device} takes {takes}: use {best} for {more}.",
    "nothing": "No device is left for {workload}: {reasons}.",
}


def say(name: str, **values: object) -> str:
    """A sentence of SENTENCES with its parts."""
    return SENTENCES[name].format(**values)


def title(answer: Answer) -> str:
    """What the answer is about: model, size of the work, batch, number formats."""
    work = answer.work
    what = f"N {work.batch:,}" if work.unit == "product" else f"batch {work.batch:,}"
    doing = {"predict": "predictions of ", "generate": "", "train": "", "operation": ""}[work.mode]
    return " · ".join(filter(None, [work.workload, f"{doing}{answer.amount.words}", what, _formats(work.rows)]))


def _formats(rows: Sequence[Row]) -> str:
    """Number formats; where those of measured devices differ from those of forecasts, which is which."""
    timed = [row for row in rows if row.step_time and row.evidence != ESTIMATED]
    known = timed or [row for row in rows if not row.is_here] or rows
    here, there = (
        dict.fromkeys(_format(row) for row in known if row.is_here == own and row.precision) for own in (1, 0)
    )
    if not here or not there or here == there:
        return ", ".join(here | there)
    return ", ".join([*(f"{name} here" for name in here), *(f"{name} there" for name in there)])


def _format(row: Row) -> str:
    by = " by torch.compile" if row.software == "torch.compile" else ""
    return f"{FORMATS.get(row.precision, row.precision)}{by}"


def lines(answer: Answer) -> list[str]:
    """What stands above the table; the first line is the decision."""
    if answer.pick is None:
        return _nothing(answer)
    found = [decision(answer), _why(answer), *_either(answer), *fastest_line(answer), *_with_more_time(answer)]
    found += [*filter(None, [waiting(answer)]), *_tight(answer), *_free(answer), *_avoid(answer), *_size(answer)]
    return found[:MOST_LINES]


def decision(answer: Answer) -> str:
    """The pick with the hours and dollars of the whole work, in one sentence."""
    pick = answer.pick
    assert pick is not None and pick.seconds is not None
    row, here = pick.row, answer.here
    took = time_of(pick)
    cost = "" if pick.usd is None else f", USD {usd_of(pick)}"
    if answer.work.mode == "operation" and row.step_time:
        hourly = "" if row.usd_per_hour is None else say("hourly", usd=usd_words(row.usd_per_hour))
        rate, amount = rate_words(answer, row), answer.amount.words
        return say("operation", use=name_words(pick), rate=rate, hourly=hourly, amount=amount, time=took, usd=cost)
    if row.is_here:
        cost += SENTENCES["electricity"] * row.price.startswith("electricity")
    instead = "" if row.is_here or here is None else without_time(here)
    if not row.is_here and here is not None and here.seconds is not None:
        instead = say("instead", time=time_of(here, interval=False), where=where(here.row))
    return say("decision", use=name_words(pick), time=took, instead=instead, usd=cost)


def rate_words(answer: Answer, row: Row) -> str:
    """`128 products a second`."""
    return f"{number(answer.work.units_per_step / (row.step_time or math.inf))} {answer.work.unit}s a second"


def without_time(here: Option) -> str:
    """What is so of a measured machine that has no time."""
    return f"; {where(here.row)} it {'does not fit' if here.row.evidence == DOES_NOT_FIT else 'has no time'}"


def name_words(option: Option) -> str:
    """What to do: `Use this machine`, `Use a free T4 (Colab or Kaggle)`, `Rent an RTX 4090`."""
    row = option.row
    if row.is_here:
        return f"Use {row.device}"
    plain = row.card
    if row.usd_per_hour == 0:
        return f"Use {'' if row.devices > 1 else 'a '}free {plain} ({row.provider})"
    if row.spot:
        what = f"{plain} as spot machines" if row.devices > 1 else f"a spot {plain}"
        return f"Rent {what} ({row.provider})"
    article = "" if plain[0].isdigit() else "an " if plain.startswith(VOWELS) else "a "
    return f"Rent {article}{plain}"


VOWELS = ("A", "H", "L", "M", "RTX")  # first sounds of names: an A100, an H100, an L4, an RTX 4090


def where(row: Row) -> str:
    """`here`, or `on cpu` where a study gives the machine another name."""
    return "here" if row.device == "this machine" else f"on {row.device}"


def time_of(option: Option, interval: bool = True) -> str:
    if option.seconds is None:
        return "no time"
    rough = option.row.rough
    written = partial(time_words, like=option.seconds)
    ends = "" if rough or not interval else between(option.seconds_low, option.seconds_high, written)
    return time_words(option.seconds, rough) + ends


def usd_of(option: Option, interval: bool = True) -> str:
    if option.usd is None:
        return "–"
    rough = option.row.rough
    ends = "" if rough or not interval else between(option.usd_low, option.usd_high, usd_words)
    return ("about " if rough and option.usd >= 0.1 else "") + usd_words(option.usd) + ends


def _why(answer: Answer) -> str:
    """Why this one, and how sure that is."""
    pick, by = answer.pick, answer.by
    assert pick is not None
    choices = [option for option in answer.options if option.ruled_out is None]
    if len(choices) == 1:
        return SENTENCES["alone"]
    if not answer.matters:
        apart = "5 %" if (pick.seconds or 0) * NEAR > NEAR_SECONDS else f"{NEAR_SECONDS / 60:.0f} min"
        more = "5 %" if (pick.usd or 0) * NEAR > NEAR_USD else f"USD {NEAR_USD:.2f}"
        return say("no_matter", count=len(choices), apart=apart, more=more)
    least = answer.cheapest
    near = by == "cost" and least is not None and (least.in_time or 0) >= IN_TIME and (least.usd or 0) < (pick.usd or 0)
    timely = choices
    if by == "cost" and answer.work.mode != "operation":
        timely = [option for option in choices if (option.in_time or 0) >= IN_TIME]
    only = len(timely) == 1
    most = SENTENCES["only" if only else "near" if near else "cheapest" if by == "cost" else "fastest_of_all"]
    among = say("among", count=len(choices if only else timely))
    if answer.wants.by == "cost" and by == "time":
        among += say("none_in_time", time=time_words(answer.wants.deadline))
    elif by == "cost" and answer.work.mode != "operation":
        among += say("ends_in_time" if only else "in_time", time=time_words(answer.wants.deadline))
    sure = pick.sure or 0.0
    if sure >= SURE:
        return say("sure" if sure >= CERTAIN else "nearly_sure", most=most, among=among, chance=chance(sure))
    saves = answer.regret_at_most
    what = f"USD {usd_words(saves)}" if by == "cost" else time_words(saves)
    in_time = pick.in_time if pick.in_time is not None else 1.0
    if by == "cost" and in_time < SURE and in_time - sure < LATE:
        return say("late", most=most, among=among, chance=chance(in_time))
    return say("probably", most=most.lower(), among=among, chance=chance(sure), saves=what)


def chance(share: float) -> str:
    """A probability in per cent."""
    return f"{math.floor(100 * share + 0.5)} %"  # as a browser rounds


def _either(answer: Answer) -> list[str]:
    """The other choice where the pick is not sure, and what tells them apart."""
    pick, rival = answer.pick, answer.rival
    if pick is None or rival is None or not answer.matters:
        return []
    apart = []
    if rival.seconds and pick.seconds and abs(math.log(rival.seconds / pick.seconds)) > NEAR:
        apart.append(say("takes", time=time_of(rival, interval=False)))
    if rival.usd is not None and pick.usd is not None and usd_words(rival.usd) != usd_words(pick.usd):
        apart.append(say("costs", usd=usd_of(rival, interval=False)))
    mine, other = pick.row.memory_available, rival.row.memory_available
    if mine and other and abs(math.log(mine / other)) > 0.2:
        apart.append(say("memory", other=f"{other / 1e9:.0f}", mine=f"{mine / 1e9:.0f}"))
    return [say("rival", device=rival.device, apart=", ".join(apart) or SENTENCES["same"])]


def fastest_line(answer: Answer) -> list[str]:
    pick, fastest = answer.pick, answer.fastest
    if pick is None or fastest is None or fastest is pick or not fastest.seconds or not pick.seconds:
        return []
    if pick.seconds < max(fastest.seconds * (1 + NEAR), fastest.seconds + NEAR_SECONDS):
        return []
    more = ""
    if fastest.usd is not None and pick.usd is not None and fastest.usd > pick.usd:
        hourly = (fastest.usd - pick.usd) / (pick.seconds - fastest.seconds) * HOUR
        more = say("more", usd=usd_words(hourly))
    device, usd = fastest.device, usd_of(fastest, interval=False)
    return [say("fastest", device=device, time=time_of(fastest), usd=usd, more=more)]


def _with_more_time(answer: Answer) -> list[str]:
    """A choice that is cheaper and ends after the deadline."""
    pick, cheapest = answer.pick, answer.cheapest
    if pick is None or cheapest is None or cheapest is pick or answer.wants.by == "time":
        return []
    if (cheapest.in_time or 0) >= 0.5 or not cheapest.seconds or (pick.usd or 0) - (cheapest.usd or 0) < NEAR_USD:
        return []
    days = math.ceil((cheapest.seconds_high or cheapest.seconds) / DAY)
    if days > 365:
        return []
    time, usd = time_of(cheapest, interval=False), usd_of(cheapest, interval=False)
    return [say("more_time", device=cheapest.device, time=time, usd=usd, days=days)]


def waiting(answer: Answer) -> str:
    """How long the pick, or else the fastest device, waits for the input pipeline; empty where it hardly does."""
    work, fastest = answer.work, min((row for row in answer.work.rows if row.step_time), key=_step, default=None)
    if not work.pipeline_rate or fastest is None:
        return ""
    asked = [answer.pick.row, fastest] if answer.pick else [fastest]
    best, written = work.pipeline_rate, work.written_rate or work.pipeline_rate
    better = written * (1 + NEAR) < best  # with more workers than the file has
    for row in asked:
        if _waits(row, work, best) > NEAR:
            takes, cores = work.batch / _step(row), max(1, work.pipeline_workers)
            as_written = say("written", rate=two(written), workers=_workers(work.written_workers)) if better else ""
            return say(
                "pipeline", rate=f"{two(best)} {work.unit}s/s", cores=counted(cores, "core"), written=as_written,
                device=row.card, takes=two(takes), waits=chance(_waits(row, work, best)),
                feed=two(math.ceil(takes / best * cores)),
            )  # fmt: skip
    for row in asked:
        if better and _waits(row, work, written) > NEAR:
            return say(
                "workers", workers=_workers(work.written_workers), rate=f"{two(written)} {work.unit}s/s",
                device=row.card, takes=two(work.batch / _step(row)), best=_workers(work.pipeline_workers),
                more=two(best),
            )  # fmt: skip
    return ""


def _workers(count: int) -> str:
    return counted(count, "worker") if count else "no worker process"


def _step(row: Row) -> float:
    return row.step_time or math.inf


def _waits(row: Row, work: Work, rate: float) -> float:
    """Share of the time in which a device waits for a pipeline of this rate, in examples per second."""
    return 1 - _step(row) * rate / work.batch if row.step_time else 0.0


def _tight(answer: Answer) -> list[str]:
    """Where the pick may turn out to be too small, the best choice that is not."""
    pick = answer.pick
    if pick is None or not pick.row.memory_tight:
        return []
    others = [each for each in answer.options if each.ruled_out is None and not each.row.memory_tight]
    timely = [each for each in others if (each.in_time or 0.0) >= IN_TIME] or others
    other = min(timely, key=lambda each: math.inf if each.usd is None else each.usd, default=None)
    room = ""
    if other is not None:
        room = say("room", device=other.device, time=time_of(other, False), usd=usd_of(other, False))
    return [say("tight", memory=fits_words(pick.row).partition(": ")[2], room=room)]


def _free(answer: Answer) -> list[str]:
    """Beside a pick that is free or spot the paid one, and whether a session is long enough."""
    pick = answer.pick
    if pick is None or pick.row.is_here or not (pick.row.spot or pick.row.usd_per_hour == 0):
        return []
    session, hours, week = "", pick.row.session_hours, pick.row.week_hours
    if hours:
        session = say("session", hours=f"{hours:g}")
        if (pick.seconds or 0.0) > hours * HOUR:
            session += (say("week", hours=f"{week:g}") if week else "") + SENTENCES["keep"]
    other = next((each for each in answer.options if each.device == pick.row.card), None)
    paid = ""
    if other is not None and other.usd is not None:
        way = "on_demand" if pick.row.spot else "paid"
        paid = say(way, usd=usd_of(other, interval=False), provider=other.row.provider)
    return [say("spot" if pick.row.spot else "free", session=session, paid=paid)]


def _avoid(answer: Answer) -> list[str]:
    pick, avoid = answer.pick, answer.avoid
    if pick is None or avoid is None or avoid.usd is None:
        return []
    return [say("avoid", device=avoid.device, usd=usd_words(avoid.usd), pick=pick.device)]


def _size(answer: Answer) -> list[str]:
    if answer.amount.given or answer.work.mode == "operation":
        return []
    return [f"For {answer.amount.words}: name your own with --examples and --epochs, --steps or --tokens."]


def _nothing(answer: Answer) -> list[str]:
    """Why there is no pick; where nothing fits what is missing and what to do, in the first line."""
    reasons: dict[str, list[str]] = {}
    for option in answer.options:
        if option.ruled_out != RULED_OUT["spot"]:  # its card is there without that, too
            reasons.setdefault(option.ruled_out or "", []).append(option.row.card)
    rows = [option.row for option in answer.options if option.row.memory_needed and option.row.memory_available]
    if not answer.fits_nowhere or not rows:
        whole = "; ".join(f"{joined(names)}: {why}" for why, names in reasons.items() if why)
        return [say("nothing", workload=answer.work.workload, reasons=whole)]
    row = max(rows, key=lambda row: (row.memory_available or 0.0) * row.devices)
    needs, has = (two((value or 0.0) / 1e9) for value in (row.memory_needed, row.memory_available))
    least = min((each for each in row.changes if _fits(each, row)), key=lambda each: each["time"], default=None)
    do = "" if row.kind != "gpu" else "; try --gpus auto"
    if least is not None:
        do = f"; with {least['name']} {two(least['memory_needed'] / 1e9)} GB"
    first = f"{answer.work.workload} fits none of these devices: it needs {needs} GB, {row.device} has {has}{do}."
    return [first, *filter(None, [parts_words(row), changes_words(row)])]


def _fits(change: Mapping[str, Any], row: Row) -> bool:
    return bool(change["memory_needed"] <= SURELY * _memory(row))


def memory_words(answer: Answer) -> list[str]:
    """What takes the memory of the pick, and what to change where a device that costs less an hour is too small."""
    pick = answer.pick
    if pick is None:
        return []
    traced = [option.row for option in answer.options if option.row.memory_parts]
    several = any(row.devices > 1 for row in traced)
    shown = next((row for row in traced if row.device == pick.device), max(traced, key=_memory, default=None))
    hourly = math.inf if pick.row.usd_per_hour is None or pick.row.is_here else pick.row.usd_per_hour
    small = [row for row in traced if row.fits is False or row.memory_tight]
    small = [row for row in small if (row.usd_per_hour or 0.0) < hourly or row.memory_tight]
    cheaper = None if several else max(small, key=_memory, default=None)
    change = changes_words(cheaper) if cheaper else ""
    if change and answer.work.module.startswith("hf:"):
        change += OPTIONS
    return [line for line in (parts_words(shown) if shown else "", change) if line]


OPTIONS = " Ask for it, e.g. --option method=lora."


def _memory(row: Row) -> float:
    return row.memory_available or 0.0


PART_NAMES = {"optimizer": "optimiser"}


def parts_words(row: Row) -> str:
    """What adds up to the memory needed, and CUDA's context, which the memory available is without; may be empty."""
    parts = {name: each for name, each in row.memory_parts.items() if name != "context" and each}
    if not parts:
        return ""
    rest = (row.memory_needed or 0.0) - sum(parts.values())
    parts |= {"buffers and fragments": rest} if rest > 0.01 * (row.memory_needed or 0.0) else {}
    found = [f"{PART_NAMES.get(name, name)} {two(each / 1e9)}" for name, each in parts.items()]
    where = " of each" if row.devices > 1 else ""
    context = row.memory_parts.get("context")
    besides = f"; CUDA's context takes {two(context / 1e9)} besides" if context else ""
    way = f" With {row.way}." if row.way else ""
    return f"Memory{where}, GB: {', '.join(found)}{besides}.{way}"


def changes_words(row: Row) -> str:
    """What takes less memory on a device: all that fits, from the most memory to the least; else the smallest."""
    fit = sorted((each for each in row.changes if _fits(each, row)), key=lambda each: -each["memory_needed"])
    less = [each for each in row.changes if each["memory_needed"] < SAFE * (row.memory_needed or 0.0)]
    chosen = fit[-MOST_CHANGES:] or sorted(less, key=lambda each: each["memory_needed"])[:1]
    found = [
        f"{each['name']} {two(each['memory_needed'] / 1e9)} GB ({two(each['time'])} times the time)" for each in chosen
    ]
    if row.devices == 1 and row.kind == "gpu" and (count := _gpus(row)):
        found.append(f"{count} GPUs (--gpus {count})")
    if not found:
        return ""
    tight = "may be too small" if row.memory_tight else "is too small"
    return f"{row.device} {tight} ({two(_memory(row) / 1e9)} GB). What to change: {'; '.join(found)}."


def _gpus(row: Row) -> int | None:
    """How many of them hold the step by FSDP, which shares weights, gradients and the optimiser's state out."""
    shared = sum(row.memory_parts.get(name, 0.0) for name in ("weights", "gradients", "optimizer"))
    rest = (row.memory_needed or 0.0) - shared
    return next((count for count in (2, 4, 8) if shared / count + rest <= SAFE * _memory(row)), None)


MOST_CHANGES = 4
SURELY = 0.95  # of a GPU's memory: nearer to it fragmentation decides
SAFE = 0.9  # of a GPU's memory; a rank holds some layers whole, too


def notes(answer: Answer) -> list[str]:
    """What stands below the table: how to read it, and what limits it."""
    own = [*_several(answer), *_taken_away(answer), *_settling(answer), *_buying(answer)]
    return [*memory_words(answer), *lasting_notes(answer), *own]


def lasting_notes(answer: Answer) -> list[str]:
    """Those that hold whatever is picked."""
    found = [*answer.work.remarks]
    rows = [option.row for option in answer.options]
    if any(option.seconds and not option.row.rough for option in answer.options):
        found.append(
            "In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there."
        )
    unknown = [row.card for row in rows if row.step_time and not row.known and row.usd_per_hour != 0]
    if unknown:
        found.append(f"Nobody published times that test forecasts for {joined(unknown, 4)}: their intervals are wider.")
    elsewhere = [option for option in answer.options if option.seconds and not option.row.is_here]
    hosts = [option.row.card for option in elsewhere if option.host_decides]
    if hosts:
        which = "on every one of them" if len(hosts) == len(elsewhere) > 1 else f"on {joined(hosts, 4)}"
        found.append(f"The host decides {which}, not the device: a faster one changes nothing.")
    for row in rows:
        if row.contradicts and row.forecast_time and row.step_time:
            times = number(row.step_time / row.forecast_time)
            found.append(f"{row.device} contradicts its forecast: measured is {times} times as long; trust that.")
        if row.evidence == ESTIMATED and row.step_time:
            found.append(
                f"{time_words(row.step_time, True).capitalize()} a step here, not measured: --again measures it."
            )
        if row.is_here and row.disturbed:
            found.append(f"Other programs disturbed the measurement {where(row)}: measure again when it is quiet.")
    if any(row.start_time and row.step_time for row in rows):
        minutes = max(row.start_time for row in rows) / 60
        found.append(f"A rented machine takes {minutes:.0f} min to start; they are in its time and price.")
    if answer.work.mode == "train" and answer.pick is not None:
        found.append("Not included: validation." if answer.work.floor else "Not included: loading data, validation.")
    return found


def _several(answer: Answer) -> list[str]:
    """Where one GPU is too late, that several may not be; PyTorch's are asked about by themselves."""
    late = answer.by != answer.wants.by and answer.work.mode == "train"
    if not late or any(row.devices > 1 and row.kind == "gpu" for row in answer.work.rows):
        return []
    counts = [str(count) for count in (2, 4, 8) if answer.work.batch % count == 0]
    return [f"Several GPUs that share the batch may end in time: --gpus {','.join(counts)}."] if counts else []


def _taken_away(answer: Answer) -> list[str]:
    """A spot machine that is not asked for, where it saves much."""
    pick, wants = answer.pick, answer.wants
    spot = [each for each in answer.options if each.ruled_out == RULED_OUT["spot"] and each.seconds]
    best = min(
        (each for each in spot if (each.in_time or 0.0) >= IN_TIME), key=lambda each: each.usd or 0.0, default=None
    )
    if best is None or pick is None or wants.only_free or answer.by != "cost":
        return []
    if (pick.usd or 0.0) - (best.usd or 0.0) < max(SPOT_SAVES * (pick.usd or 0.0), 1.0):
        return []
    what = f"{best.row.card}, {time_of(best, False)}, USD {usd_of(best, False)}"
    return [f"Cheaper where it may be taken away at any moment: {what} (--spot)."]


SPOT_SAVES = 0.2  # of the pick's price


def _settling(answer: Answer) -> list[str]:
    """How to measure the pick, where that costs much less than a wrong choice."""
    pick = answer.pick
    if (
        pick is None
        or pick.row.is_here
        or not pick.row.usd_per_hour
        or (pick.row.devices > 1 and pick.row.kind == "gpu")
        or answer.by != "cost"
    ):
        return []
    price = math.ceil(MEASURING_HOURS * pick.row.usd_per_hour)
    if (pick.sure or 0.0) >= SURE or answer.regret_at_most < 2 * price:
        return []
    spot = " --spot" * pick.row.spot
    return [
        f'What would settle it: whichdevice rent {answer.work.module} --on "{pick.row.card}"{spot} --max-usd {price}'
    ]


MEASURING_HOURS = 0.5  # to start a machine and to measure one model there


def _buying(answer: Answer) -> list[str]:
    """From how many hours of use on buying the card is cheaper than renting it, where that may matter."""
    pick = answer.pick
    if pick is None or pick.row.card_usd is None or not pick.row.usd_per_hour or not pick.seconds:
        return []
    saved = pick.row.usd_per_hour - pick.row.card_watts / 1000 * USD_PER_KWH
    hours = pick.row.card_usd / saved if saved > 0 else math.inf
    if not pick.seconds / HOUR > 0.1 * hours:
        return []
    return [f"To buy one (about USD {usd_words(pick.row.card_usd)}) is cheaper from {two(hours)} h of use on."]


def fits_words(row: Row) -> str:
    """`3.5 of 25`, with `no` where it does not fit and `tight` where it may or may not."""
    if row.memory_needed is None:
        return "no" if row.fits is False else ""
    available = f" of {two(row.memory_available / 1e9)}" if row.memory_available else ""
    mark = "tight: " if row.memory_tight else "no: " if row.fits is False else ""
    return f"{mark}{two(row.memory_needed / 1e9)}{available}"


def joined(names: Sequence[str], most: int = 99) -> str:
    """`T4, L4 and A10G`; of many the first few."""
    names = list(dict.fromkeys(names))
    if len(names) > most:
        names = [*names[: most - 1], f"{len(names) - most + 1} more"]
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
