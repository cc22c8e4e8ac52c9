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
from whichdevice.base.sheets.prices import Z80
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
# Every sentence and part of one, with named parts in braces.
SENTENCES = {
    "decision": "{use}: {time}{start}{instead}{usd}.",
    "as_good": "{use}, or one as good",
    "to_start": " after {time} to start",
    "plus_start": " + {time}",
    "instead": " instead of {time} {where}",
    "here_unfit": "; {where} it does not fit",
    "here_untimed": "; {where} it has no time",
    "here": "here",
    "on": "on {device}",
    "cost": ", USD {usd}",
    "no_cost": ", no price known",
    "operation": "{use}: {rate}{hourly}; {amount}: {time}{usd}.",
    "rate": "{number} {unit}s a second",
    "hourly": " at USD {usd} an hour",
    "electricity": " of electricity",
    "use_here": "Use {device}",
    "use_unpriced": "Use {device}",
    "use_free": "Use {device} ({provider})",
    "use_spot": "Rent {device} ({provider})",
    "use_rented": "Rent {device}",
    "use_at": "Rent {device} ({provider})",
    "use_lowest": "Rent {device} (lowest: {provider})",
    "a_free": "a free {card}",
    "free_cards": "a free machine with {card}",
    "a_spot": "a spot {card}",
    "spot_cards": "{card} as spot machines",
    "alone": "It is the only choice.",
    "no_matter": "The choice hardly matters: none of {count} differs by more than {apart} and {more}.",
    "loop": "transformers' own loop",
    "serve": "This is the loop of transformers, which waits for the CPU at each token; a server such as vLLM is "
    "faster, and another device may be the cheapest: whichdevice serve.",
    "cheapest": "Cheapest",
    "near": "As good as the cheapest",
    "fastest_of_all": "Fastest",
    "by_loop": " by this loop",
    "among": " of {count}",
    "none_in_time": "; none ends within {time}",
    "in_time": " that end within {time}",
    "only": "The only one",
    "ends_late": "over {time}",
    "ends_in_time": " that ends within {time}",
    "sure": "{most}{among}; that is sure.",
    "nearly_sure": "{most}{among}; {chance} sure.",
    "late": "{most}{among}, and {chance} sure to do so.",
    "probably": "Probably {most}{among}: {chance} sure; another saves at most {saves} in 9 of 10 cases.",
    "toss_up": "Too near to call{among}: {devices}; another saves at most {saves} in 9 of 10 cases.",
    "rival": "Or {device}: {apart}.",
    "range": "{low} to {high}",
    "hours_cost": "An hour costs: {prices}.",
    "hour_of_one": "{device} USD {usd} ({provider})",
    "hour_of": "{device} USD {usd} ({range}), the median of {count}, lowest {lowest} ({provider})",
    "old_prices": "Prices are old: {devices}; whichdevice prices --update takes newer ones.",
    "old_price": "{device} {days} days",
    "takes": "it takes {time}",
    "costs": "costs USD {usd}",
    "memory": "has {other} GB instead of {mine}",
    "same": "the two are the same by forecast",
    "fastest": "Fastest: {device}, {time}, USD {usd}{more}.",
    "more": "; worth it if an hour of waiting costs you USD {usd}",
    "more_time": "Cheaper with more time: {device}, {time}, USD {usd} (--deadline {days}d).",
    "tight": "Memory is tight there: {memory} GB.{room}",
    "room": " If it does not fit: {device}, {time}, USD {usd}.",
    "free": "Free devices are not guaranteed{session}{paid}.",
    "spot": "It may be taken away at any moment, {rate} an hour (assumed){save}{paid}.",
    "save": ": save every {interval}",
    "session": "; a session lasts up to {hours} h",
    "week": ", a week {hours} h",
    "keep": ": {count} sessions, save before each ends",
    "paid": ". Paid: {device}, {time}, USD {usd} ({provider})",
    "on_demand": ". On demand: USD {usd} ({provider})",
    "avoid": "Avoid {device}: USD {usd}, and slower than {pick}.",
    "pipeline": "Your pipeline gives {rate} a core{written}; {device}, with {cores} in its machine, would wait {waits} "
    "of the time; {feed} would feed it.",
    "pipeline_own": "Your pipeline gives {rate} in the training's own process{written}; {device} takes {takes} and "
    "would wait {waits} of the time.",
    "pipeline_processes": "Your pipeline gives {rate} in {processes} processes, one for each GPU{written}; {device} "
    "takes {takes} and would wait {waits} of the time.",
    "pipeline_limit": "Your pipeline gives {rate} with any number of cores{written}; {device} takes {takes} and would "
    "wait {waits} of the time.",
    "pipeline_here": "Your pipeline gives {rate} with {cores} here{written}; {device} takes {takes} and would wait "
    "{waits} of the time.",
    "cores_of": "{number} cores",
    "cores_between": "about {number} cores ({low} to {high})",
    "cores_assumed": "{number} cores (assumed)",
    "rate_of": "{number} {unit}s/s",
    "written": ", {rate} with {workers} as written",
    "workers": "As written, with {workers}, your pipeline gives {rate}; {device} takes {takes}: use {best}.",
    "no_worker": "no worker process",
    "collecting": "Your environment decides: {share} of the time on {device} is collecting; no device changes that.",
    "odd": "Is it so long? {source} trains on {amount}: name your own with --examples and --epochs, or --steps.",
    "nothing": "No device is left for {workload}: {reasons}.",
    "why": "{devices}: {why}",
    "no_fits": "does not fit",
    "no_tight": "may not fit",
    "no_time": "no time is known",
    "no_price": "no price known",
    "no_spot": "may be taken away",
    "no_port": "needs PyTorch/XLA",
    "no_free": "is not free",
    "no_session": "a session ends after {hours} h",
    "left_out": "left out",
    "measured": "measured",
    "estimated": "estimated",
    "forecast": "forecast",
    "rough": "{known}, rough",
    "disturbed": "{known}, disturbed",
    "fits": "{needed} of {available}",
    "fits_unknown": "{needed}",
    "fits_tight": "tight: {memory}",
    "fits_no": "no: {memory}",
    "fits_not": "no",
    "units": "{count} {unit}s",
    "epochs": "{count} {unit}s × {epochs} epochs",
    "steps": "{count} steps",
    "tokens": "{count} tokens",
    "a_million": "a million {unit}s",
    "predictions": "predictions of {amount}",
    "product_size": "N {batch}",
    "batch_size": "batch {batch}",
    "batch_each": "batch {batch} on each",
    "by_compile": "{format} by torch.compile",
    "format_here": "{format} here",
    "format_elsewhere": "{format} elsewhere",
    "size": "For {amount}: name your own with --examples and --epochs, --steps or --tokens.",
    "fits_nowhere": "{workload} fits none of these devices: it needs {needs} GB, {device} has {has}{do}.",
    "try_gpus": "; try --gpus auto",
    "try_change": "; with {name} {gb} GB",
    "parts": "Memory{each}, {unit}: {parts}.{way}",
    "of_each": " of each",
    "part_weights": "weights {gb}",
    "part_gradients": "gradients {gb}",
    "part_optimizer": "optimiser {gb}",
    "part_activations": "activations {gb}",
    "part_update": "the optimiser's copies {gb}",
    "part_rest": "buffers and fragments {gb}",
    "part_kept": "kept by its runtime {gb}",
    "part_context": "CUDA's context {gb}",
    "way": " With {way}.",
    "too_small": "{device} is too small ({gb} GB). What to change: {changes}.",
    "tightly": "{device} may be too small ({gb} GB). What to change: {changes}.",
    "change": "{name} {gb} GB ({time} times the time)",
    "shared": "{count} GPUs (--gpus {count})",
    "option": " Ask for it, e.g. --option method=lora.",
    "intervals": "In 8 of 10 cases the true value is inside [ ]. Measured: timed here. Forecast: nobody ran it there.",
    "lived": "As scripts like this run: {times} times the clean step ({low} to {high} in 8 of 10){less}.",
    "prepared": "; with images decoded beforehand: {times} times",
    "whole": " On {device} the whole takes {ends} in 8 of 10 cases.",
    "evaluation": "Evaluation: {times}, {share} of the hours.",
    "evaluation_tokens": "{batches} of {tokens} tokens, one after the other,",
    "evaluation_each": "{batches} {every}",
    "evaluation_once": "{batches} once",
    "evaluation_unknown": "Evaluation is not counted: {reasons}.",
    "evaluation_batches": "how many batches line {line} takes is not known",
    "evaluation_trainer": "how many batches its trainer takes is not known",
    "evaluation_epoch": "how many examples an epoch has is not known",
    "evaluation_often": "how often line {line} runs is not known",
    "batch": "1 batch",
    "batches": "{count} batches",
    "every_epoch": "each epoch",
    "every_epochs": "every {count} epochs",
    "every_step": "each step",
    "every_steps": "every {count} steps",
    "below_1": "less than 1 %",
    "untested": "Untested by published times, so with a wider range: {devices}.",
    "host": "The CPU limits {devices}: a faster device changes nothing.",
    "host_everywhere": "The CPU limits all of them: a faster device changes nothing.",
    "contradicts": "{device} contradicts its forecast: measured is {times} times as long; trust that.",
    "estimate": "{time} a step here, not measured.",
    "disturbed_here": "Other programs disturbed the measurement {where}: measure again when it is quiet.",
    "start": "Starting takes {times}: prices include it, times show it as +.",
    "start_rented": "{time}",
    "start_free": "on a free machine {time}",
    "tpus": "TPUs",
    "without_data": "Not included: loading data, validation.",
    "without_validation": "Not included: validation.",
    "feed": "To feed the {device}: {what}: {time} times the time of an example.",
    "no_rows": "No rows of {devices}: {reason}.",
    "feed_float32": "float32 products take {share} of the time, --precision {setting}",
    "feed_time steps": "a loop over time steps takes {share} of the time, a batch {setting} times as large",
    "feed_batch": "each chip has few examples, a batch {setting} times as large",
    "note": "Note: {note}.",
    "note_of": "Note on {devices}: {note}.",
    "several": "Several GPUs may end in time: --gpus {counts}.",
    "each_gpu": "Each GPU takes {batch}, as the script has it{rest}.",
    "each_gpu_one": "; for several add --gpus 8, or 1,2,4,8 to compare",
    "each_gpu_examples": "; a step of {gpus} GPUs takes {total}",
    "each_gpu_steps": "; a step of {gpus} GPUs takes {total}, and any number of them makes {steps} steps",
    "port_offer": "Cheaper with a port to PyTorch/XLA or JAX: {device}, {time}, USD {usd} (--devices gpu,tpu).",
    "spot_offer": "Cheaper where it may be taken away at any moment: {device}, {time}, USD {usd} (--spot).",
    "settling": "What would settle it: {command}",
    "buying": "To buy one (about USD {usd}) is cheaper from {hours} h of use on.",
    "more_names": "{count} more",
    "and": "{first} and {last}",
    "dearer": "Dearer and slower: {devices} (--all shows them).",
    "smaller": "Too small: {devices}.",
    "folded": "{devices}: {why}.",
    "head_device": "device",
    "head_fits": "memory, GB",
    "head_step": "a step",
    "head_speed_here": "× here",
    "head_speed_pick": "× pick",
    "head_generated": "a token",
    "head_whole": "whole training",
    "running": "Run it as: batch {batch}{passes}, {format}, {checkpointing}{workers}{faster}{largest}.",
    "running_passes": " × {passes}",
    "checkpointing": "gradient checkpointing",
    "no_checkpointing": "no checkpointing",
    "running_workers": ", {workers} to load data",
    "running_faster": ": {time} times the time of an example",
    "longest": "Longest sequence that fits, one in a pass and with gradient checkpointing: {fitting} tokens.",
    "longest_on": "{device} {tokens}",
    "longest_none": "No length surely fits: {names}.",
    "running_largest": "; up to {largest} fit",
    "head_kwh": "kWh",
    "head_source": "source",
    "no_study": "Nothing was measured yet, and nothing was forecast.",
    "uses": "{uses}.",
    "for": "{use} for {workloads}",
    "same_elsewhere": "All rented devices take about the same time and money for {workloads}.",
    "hurry": "In a hurry: {workloads}.",
    "hurried": "{workload} on {device}, {time}, USD {usd}{more}",
    "brief": "{device}: {time}, USD {usd}",
    "head_workload": "workload",
    "head_for": "for",
    "head_here": "here",
    "head_pick": "pick",
    "head_fastest": "fastest",
    "head_stake": "at stake",
    "stake": "up to {stakes}",
    "stakes": "{first} or {last}",
    "usd": "USD {usd}",
    "little": "little",
}


def say(sentence: str, **values: object) -> str:
    """A sentence of SENTENCES with its parts."""
    return SENTENCES[sentence].format(**values)


def title(answer: Answer) -> str:
    """Return what the answer is about: model, size of the work, batch, number formats."""
    work, amount = answer.work, amount_words(answer)
    doing = say("predictions", amount=amount) if work.mode == "predict" else amount
    engine = say("loop") if by_loop(work) else ""
    return " · ".join(filter(None, [work.name, doing, batch_words(work), formats(work.rows), engine]))


def batch_words(work: AskedWork) -> str:
    """Return `batch 1,024`."""
    size = "batch_size" if work.fixed == "batch" or work.most_devices == 1 else "batch_each"
    return say("product_size" if work.unit == "product" else size, batch=f"{work.batch:,}")


def by_loop(work: AskedWork) -> bool:
    """Return whether tokens come from transformers' own loop rather than from a server."""
    return work.mode == "generate" and work.module.startswith("hf:")


def amount_words(answer: Answer) -> str:
    """Return the size of the work: `60,000 images × 10 epochs`."""
    amount, unit = answer.amount, answer.work.unit
    if not amount.given:
        return say("a_million", unit=unit)
    count = f"{amount.number:,.0f}" if amount.counted == "steps" else count_words(amount.number)
    if amount.counted != "units":
        return say(amount.counted, count=count)
    if amount.epochs == 1:
        return say("units", count=count, unit=unit)
    return say("epochs", count=count, unit=unit, epochs=f"{amount.epochs:,.10g}")


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
    return ", ".join(
        [*(say("format_here", format=name) for name in here)]
        + [say("format_elsewhere", format=name) for name in elsewhere]
    )


def _format(row: Row) -> str:
    name = FORMAT_NAMES.get(row.precision, row.precision)
    return say("by_compile", format=name) if row.software == "torch.compile" else name


def lines(answer: Answer) -> list[str]:
    """Return what is above the table; the first line is the decision."""
    if answer.pick is None:
        return _nothing(answer)
    odd = [say("odd", source=answer.work.source, amount=amount_words(answer))] if facts.is_odd(answer) else []
    above = [decision(answer), *odd, _why(answer), *_either(answer)]
    above += [*_fastest(answer), *_with_more_time(answer)]
    above += [*filter(None, [waiting(answer)]), *_feeding(answer), *_tight(answer), *_free(answer)]
    size = _size(answer)  # what nobody named is never left out
    return [*[*above, *_avoid(answer)][: MAX_LINES - len(size)], *size]


def _feeding(answer: Answer) -> list[str]:
    """Return what a TPU that is picked, or the fastest device, needs so that its matrix units work."""
    options = [option for option in (answer.pick, answer.fastest) if option is not None and option.row.feed]
    if not options or options[0].host_decides:
        return []
    row, change = options[0].row, options[0].row.feed[0]
    share, setting, took = chance(change["share"]), change["setting"], f"{change['time']:.2f}"
    what = say(f"feed_{change['cause']}", share=share, setting=setting)
    return [say("feed", device=row.card, what=what, time=took)]


def decision(answer: Answer) -> str:
    """Return the pick with the hours and dollars of the whole work, in one sentence."""
    pick = answer.pick
    assert pick is not None and pick.seconds is not None
    row, here = pick.row, answer.here
    cost = say("no_cost") if pick.usd is None else say("cost", usd=usd_of(pick))
    if answer.work.mode == "operation" and row.step_time:
        hourly = "" if row.usd_per_hour is None else say("hourly", usd=usd_words(row.usd_per_hour))
        rate, amount, took = rate_words(answer, row), amount_words(answer), time_of(pick)
        return say("operation", use=name_words(pick), rate=rate, hourly=hourly, amount=amount, time=took, usd=cost)
    if row.price.kind == "electricity":
        cost += say("electricity")
    instead = "" if row.is_here or here is None else without_time(here)
    if not row.is_here and here is not None and here.seconds is not None:
        instead = say("instead", time=time_of(here, interval=False), where=where(here.row))
    start = say("to_start", time=start_of(row)) if start_matters(pick) else ""
    use = say("as_good", use=name_words(pick)) if answer.toss_up else name_words(pick)
    return say("decision", use=use, time=begun_of(pick), start=start, instead=instead, usd=cost)


def small(value: float) -> str:
    """Return a number in two digits that may be very small: `<0.001`, `0.034`, `120`."""
    return "<0.001" if 0 < value < 0.001 else two(value)


def kwh_cell(option: Option) -> str:
    """Return kilowatt-hours of the whole work."""
    return "–" if option.kwh is None else small(option.kwh)


def rate_words(answer: Answer, row: Row) -> str:
    """Return `128 products a second`."""
    rate = number(answer.work.units_on(row) / (row.step_time or math.inf))
    return say("rate", number=rate, unit=answer.work.unit)


def without_time(here: Option) -> str:
    """Return why a measured machine has no time."""
    return say("here_unfit" if here.row.evidence == DOES_NOT_FIT else "here_untimed", where=where(here.row))


def name_words(option: Option) -> str:
    """Return what to do: `Use this machine`, `Use a free T4 (Colab or Kaggle)`, `Rent an RTX 4090`."""
    row = option.row
    if row.is_here:
        return say("use_here", device=row.device)
    if row.price.kind == "free":
        card = say("free_cards" if row.devices > 1 else "a_free", card=row.card)
        return say("use_free", device=card, provider=row.provider)
    if row.spot:
        card = say("spot_cards" if row.devices > 1 else "a_spot", card=row.card)
        return say("use_spot", device=card, provider=row.provider)
    if row.price.kind == "unknown":
        return say("use_unpriced", device=called(row))
    if not row.provider:
        return say("use_rented", device=called(row))
    return say("use_at" if row.price.providers == 1 else "use_lowest", device=called(row), provider=row.provider)


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
    return say("here") if row.device == "this machine" else say("on", device=row.device)


def time_of(option: Option, interval: bool = True) -> str:
    """Return the time of the whole work: `16 s [14–19 s] + 7 min` where a part of it is to start the machine."""
    start = say("plus_start", time=time_words(option.row.start_time)) if start_matters(option) else ""
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


def with_option(sentence: str, option: Option, **values: object) -> str:
    """Return a sentence about an option: its device, time and price, without their intervals."""
    time, usd = time_of(option, interval=False), usd_of(option, interval=False)
    return say(sentence, **{"device": option.device, "time": time, "usd": usd, **values})


def _why(answer: Answer) -> str:
    """Why this one, and how sure that is."""
    pick, by, choices = answer.pick, answer.by, answer.choices
    assert pick is not None
    if len(choices) == 1:
        return say("alone")
    if not answer.matters:
        apart = "5 %" if (pick.seconds or 0) * NEAR > NEAR_SECONDS else f"{NEAR_SECONDS / 60:.0f} min"
        dollars = "5 %" if (pick.usd or 0) * NEAR > NEAR_USD else say("usd", usd=f"{NEAR_USD:.2f}")
        return say("no_matter", count=len(choices), apart=apart, more=dollars)
    among = _among(answer)
    most, sure = say(_most(answer)) + (say("by_loop") if by_loop(answer.work) else ""), pick.sure or 0.0
    if sure >= SURE:
        return say("sure" if sure >= CERTAIN else "nearly_sure", most=most, among=among, chance=chance(sure))
    saves = _saves(answer)
    in_time = pick.in_time if pick.in_time is not None else 1.0
    if by != "time" and in_time < SURE and in_time - sure < LATE:
        return say("late", most=most, among=among, chance=chance(in_time))
    if answer.toss_up:
        devices = joined([option.device for option in answer.toss_up])
        return say("toss_up", among=among, devices=devices, saves=saves)
    return say("probably", most=most.lower(), among=among, chance=chance(sure), saves=saves)


def _saves(answer: Answer) -> str:
    """Return how much another choice saves at most in 9 of 10 cases."""
    most = answer.regret_at_most
    return say("usd", usd=usd_words(most)) if answer.by == "cost" else time_words(most)


def _most(answer: Answer) -> str:
    """The sentence that says what the pick is of its kind."""
    pick = answer.pick
    assert pick is not None
    if _is_only(answer):
        return "only"
    if answer.by == "time":
        return "fastest_of_all"
    near = any(option.usd is not None and option.usd < (pick.usd or 0) for option in _timely(answer))
    return "near" if near else "cheapest"


def _timely(answer: Answer) -> Sequence[Option]:
    if answer.by == "time" or answer.work.mode == "operation":
        return answer.choices
    return [option for option in answer.choices if option.timely]


def _is_only(answer: Answer) -> bool:
    return len(_timely(answer)) == 1


def _among(answer: Answer) -> str:
    only = _is_only(answer)
    among = say("among", count=len(answer.choices if only else _timely(answer)))
    deadline = time_words(answer.wants.deadline)
    if answer.late:
        return among + say("none_in_time", time=deadline)
    if answer.by != "time" and answer.work.mode != "operation":
        among += say("ends_in_time" if only else "in_time", time=deadline)
    return among


def chance(share: float) -> str:
    """Return a probability in per cent."""
    return f"{100 * share:.0f} %"


def range_words(row: Row) -> str:
    """Return what an hour costs: `0.29 to 0.69`, or a price without a spread."""
    low, high = (usd_words(end or 0.0) for end in (row.usd_per_hour_low, row.usd_per_hour_high))
    return low if low == high else say("range", low=low, high=high)


def _hourly(answer: Answer) -> list[str]:
    """The price of an hour of the choices that matter most, and how old it is where it is old."""
    parts = []
    for option in facts.priced(answer):
        row, price = option.row, option.row.price
        usd, lowest = usd_words(row.usd_per_hour or 0.0), usd_words(price.lowest or 0.0)
        count = counted(price.providers, "provider")
        parts.append(
            say("hour_of_one" if price.providers == 1 else "hour_of", device=row.device, usd=usd,
                range=range_words(row), count=count, lowest=lowest, provider=price.provider)
        )  # fmt: skip
    hours = [say("hours_cost", prices="; ".join(parts))] if parts else []
    old = [say("old_price", device=option.device, days=option.row.price.age) for option in facts.old_prices(answer)]
    return hours + ([say("old_prices", devices=joined(old))] if old else [])


def _either(answer: Answer) -> list[str]:
    """The other choice where the pick is not sure, and what tells them apart."""
    pick, rival = answer.pick, answer.rival
    if pick is None or rival is None or not answer.matters or rival.device == pick.row.card:
        return []  # of a free one the paid one has a line of its own
    apart = []
    if rival.seconds and pick.seconds and abs(math.log(rival.seconds / pick.seconds)) > NEAR:
        apart.append(say("takes", time=time_of(rival, interval=False)))
    if rival.usd is not None and pick.usd is not None and usd_words(rival.usd) != usd_words(pick.usd):
        apart.append(say("costs", usd=usd_of(rival, interval=False)))
    mine, other = pick.row.memory, rival.row.memory
    if mine and other and abs(math.log(mine / other)) > 0.2:
        apart.append(say("memory", other=f"{other / 1e9:.0f}", mine=f"{mine / 1e9:.0f}"))
    return [say("rival", device=rival.device, apart=", ".join(apart) or say("same"))]


def _fastest(answer: Answer) -> list[str]:
    """The fastest choice, and what an hour of waiting has to cost that it is worth it."""
    fastest = facts.hurry(answer)
    if fastest is None:
        return []
    return [with_option("fastest", fastest, time=time_of(fastest), more=worth_words(answer))]


def worth_words(answer: Answer) -> str:
    """Return from which price of an hour of waiting on the fastest is worth it."""
    usd = facts.hurry_usd(answer)
    return "" if usd is None else say("more", usd=hour_words(usd))


def hour_words(usd: float) -> str:
    """Return the price of an hour, rounded up: `0.15`, `1.30`, `14`."""
    return f"{math.ceil(usd * 100 - 1e-6) / 100:.2f}" if usd < 10 else f"{math.ceil(usd):,}"


def _with_more_time(answer: Answer) -> list[str]:
    """A choice that is cheaper and ends after the deadline."""
    later = facts.more_time(answer)
    return [] if later is None else [with_option("more_time", later[0], days=later[1])]


def waiting(answer: Answer) -> str:
    """Return how long the pick, or else the fastest device, waits for the pipeline; empty where it hardly does."""
    work, limit = answer.work, facts.pipeline(answer)
    if answer.pick is not None and (share := facts.collecting(answer)) is not None:
        return say("collecting", share=chance(share), device=answer.pick.row.card)
    if limit is None:
        return ""
    device = say("a_free", card=limit.card) if limit.free else limit.card
    takes, waits = two(limit.takes), chance(limit.waits)
    rate, written = say("rate_of", number=two(limit.rate), unit=work.unit), _workers(work.written_workers or 0)
    if limit.as_written:
        best = _workers(limit.workers)
        return say("workers", workers=written, rate=rate, device=device, takes=takes, best=best)
    less = "" if limit.written is None else say("written", rate=two(limit.written), workers=written)
    known = {"written": less, "device": device, "takes": takes, "waits": waits}
    if limit.cores is None:
        return say("pipeline_here", rate=rate, cores=counted(max(1, work.pipeline_workers), "core"), **known)
    if limit.processes > 1:
        return say("pipeline_processes", rate=rate, processes=limit.processes, **known)
    if not limit.core_rate:
        return say("pipeline_limit", rate=rate, **known)
    if limit.processes:
        return say("pipeline_own", rate=rate, **known)
    rate = say("rate_of", number=two(limit.core_rate), unit=work.unit)
    return say("pipeline", rate=rate, cores=_cores(limit.cores), feed=two(limit.feed), **known)


def _cores(cores: Cores) -> str:
    ends = {name: f"{getattr(cores, name):,.0f}" for name in ("number", "low", "high")}
    kind = "assumed" if cores.assumed else "of" if cores.low == cores.high else "between"
    return say(f"cores_{kind}", **ends)


def _workers(count: int) -> str:
    return counted(count, "worker") if count else say("no_worker")


def _tight(answer: Answer) -> list[str]:
    """The best choice with room, in case the pick turns out to be too small."""
    if answer.pick is None or not answer.pick.row.memory_tight:
        return []
    other = facts.with_room(answer)
    room = "" if other is None else with_option("room", other)
    return [say("tight", memory=memory_of(answer.pick.row), room=room)]


def _free(answer: Answer) -> list[str]:
    """The paid one of a pick that is free or spot, and whether a session is long enough."""
    pick = answer.pick
    if pick is None or pick.row.price.kind not in ("free", "spot"):
        return []
    session, hours, week = "", pick.row.session_hours, pick.row.week_hours
    if hours:
        session = say("session", hours=f"{hours:g}")
        if pick.times_taken:
            week_words = say("week", hours=f"{week:g}") if week else ""
            session += week_words + say("keep", count=f"{pick.times_taken + 1:.0f}")
    other = facts.rented_instead(answer)
    paid = ""
    if other is not None and other.usd is not None:
        usd, provider, time = usd_of(other, interval=False), other.row.provider, time_of(other, interval=False)
        way = "on_demand" if pick.row.spot else "paid"
        paid = say(way, device=other.device, time=time, usd=usd, provider=provider)
    if not pick.row.spot:
        return [say("free", session=session, paid=paid)]
    save = facts.saving(answer)
    interval = "" if save is None else say("save", interval=time_words(save))
    return [say("spot", rate=chance(RATE * HOUR), save=interval, paid=paid)]


def _avoid(answer: Answer) -> list[str]:
    pick, avoid = answer.pick, answer.avoid
    if pick is None or avoid is None or avoid.usd is None:
        return []
    return [say("avoid", device=avoid.device, usd=usd_words(avoid.usd), pick=pick.device)]


def _size(answer: Answer) -> list[str]:
    if answer.amount.given or answer.work.mode == "operation":
        return []
    return [say("size", amount=amount_words(answer))]


def _nothing(answer: Answer) -> list[str]:
    """Why there is no pick; where nothing fits what is missing and what to do, in the first line."""
    row = facts.largest_too_small(answer)
    if row is None:
        reasons: dict[RuledOut, list[str]] = {}
        for option in answer.options:
            if option.ruled_out is not None and option.why != Reason.SPOT:  # its card is there without that, too
                reasons.setdefault(option.ruled_out, []).append(option.row.card)
        whole = "; ".join(say("why", devices=joined(names), why=why_words(why)) for why, names in reasons.items())
        return [say("nothing", workload=answer.work.name, reasons=whole)]
    needs, has = (two((value or 0.0) / 1e9) for value in (row.memory_taken, row.memory))
    fit = [change for change in row.changes if facts.surely_fits(change, row)]
    least = min(fit, key=lambda change: change["time"], default=None)
    do = "" if row.kind != "gpu" else say("try_gpus")
    if least is not None:
        do = say("try_change", name=least["name"], gb=two((least["memory_needed"] + row.memory_kept) / 1e9))
    first = say("fits_nowhere", workload=answer.work.name, needs=needs, device=row.device, has=has, do=do)
    return [first, *filter(None, [parts_words(row), changes_words(row)])]


def why_words(ruled_out: RuledOut) -> str:
    """Return why a device is no choice."""
    if ruled_out.reason == Reason.TIME and ruled_out.detail:
        return ruled_out.detail
    return say(f"no_{ruled_out.reason}", hours=f"{ruled_out.hours or 0:g}")


def known_words(option: Option) -> str:
    """Return how a row is known."""
    row = option.row
    known = say(row.evidence if row.evidence in (MEASURED, ESTIMATED) else "forecast")
    known = say("rough", known=known) if row.rough else known
    return say("disturbed", known=known) if row.disturbed else known


def memory_words(answer: Answer) -> list[str]:
    """Return what takes the memory of the pick, and what to change where a cheaper device is too small."""
    pick = answer.pick
    if pick is None:
        return []
    traced = [option.row for option in answer.options if option.row.memory_parts]
    largest = max(traced, key=facts.memory, default=None)
    shown = next((row for row in traced if row.device == pick.device), largest)
    cheaper = facts.to_enlarge(answer)
    change = changes_words(cheaper) if cheaper else ""
    if cheaper and facts.changes(cheaper) and answer.work.tunable and answer.work.mode == "train":
        change += say("option")
    return [line for line in (parts_words(shown) if shown else "", change) if line]


def longest_words(answer: Answer) -> list[str]:
    """Return the longest sequence that fits each device, the longest first, where that was asked for."""
    asked = [row for row in answer.work.rows if row.longest_sequence is not None]
    lengths = {row.card or row.device: row.longest_sequence or 0 for row in asked}
    if not lengths:
        return []
    ordered = sorted(lengths, key=lambda device: -lengths[device])
    fitting = [say("longest_on", device=device, tokens=f"{lengths[device]:,}") for device in ordered if lengths[device]]
    none = joined([device for device in ordered if not lengths[device]])
    return [say("longest", fitting=", ".join(fitting))] * bool(fitting) + [say("longest_none", names=none)] * bool(none)


def parts_words(row: Row) -> str:
    """Return what adds up to the memory that the step takes."""
    known = facts.parts(row)
    if not known:
        return ""
    little = sum(known.values()) - known.get("context", 0.0) - known.get("kept", 0.0) < MIN_GB * 1e9
    unit, size = ("MB", 1e6) if little else ("GB", 1e9)
    parts = [say(f"part_{name}", gb=small(nbytes / size)) for name, nbytes in known.items()]
    of_each = say("of_each") if row.devices > 1 else ""
    way = say("way", way=row.way) if row.way else ""
    return say("parts", each=of_each, unit=unit, parts=", ".join(parts), way=way)


def changes_words(row: Row) -> str:
    """Return what takes less memory on a device, in words; empty where nothing does."""
    changes = [
        say(
            "change",
            name=change["name"],
            gb=two((change["memory_needed"] + row.memory_kept) / 1e9),
            time=two(change["time"]),
        )
        for change in facts.changes(row)
    ]
    if count := facts.gpus_that_hold(row):
        changes.append(say("shared", count=count))
    if not changes:
        return ""
    sentence = "tightly" if row.memory_tight else "too_small"
    return say(sentence, device=row.device, gb=two((row.memory or 0.0) / 1e9), changes="; ".join(changes))


def notes(answer: Answer) -> list[str]:
    """Return what is below the table: how to read it, and what limits it."""
    return [*notes_without_command(answer), *settling_line(answer)]


def notes_without_command(answer: Answer) -> list[str]:
    """Return the same notes without a command to copy, whose line is never broken."""
    passing = [*_hourly(answer), *_several(answer), *_offers(answer), *_buying(answer)]
    return [*_each_gpu(answer), *running_lines(answer), *memory_words(answer), *lasting_notes(answer), *passing]


def running_lines(answer: Answer) -> list[str]:
    """Return how to run the pick, where that differs from what was asked for."""
    run, pick = facts.running(answer), answer.pick
    if run is None or pick is None:
        return []
    passes = say("running_passes", passes=f"{run.passes:,}") if run.passes > 1 else ""
    light = say("checkpointing" if run.checkpointing else "no_checkpointing")
    workers = "" if run.workers is None else say("running_workers", workers=_workers(run.workers))
    faster = say("running_faster", time=f"{run.time:.2f}") if abs(run.time - 1) > NEAR else ""
    largest = "" if run.largest is None else say("running_largest", largest=f"{run.largest:,}")
    return [
        say("running", batch=f"{run.batch:,}", passes=passes, format=_format(pick.row), checkpointing=light,
            workers=workers, faster=faster, largest=largest)
    ]  # fmt: skip


def lasting_notes(answer: Answer) -> list[str]:
    """Return the notes that hold whatever is picked."""
    rows, lasting = answer.work.rows, [*longest_words(answer), *answer.work.remarks]
    if by_loop(answer.work):
        lasting.insert(0, say("serve"))
    tpus = {row.card for row in rows if row.kind == "tpu" and row.rented and row.step_time}
    for note, cards in facts.step_notes(answer).items():
        noted = say("tpus") if len(cards) > 1 and set(cards) == tpus else joined(cards, 4) if cards else ""
        lasting.append(say("note_of", devices=noted, note=note) if cards else say("note", note=note))
    if any(option.seconds and not option.row.rough for option in answer.options):
        lasting.append(say("intervals"))
    if untested := facts.untested(answer):
        lasting.append(say("untested", devices=joined(untested, 4)))
    if step := facts.lived(answer):
        ends = {name: f"{getattr(step, name):.1f}" for name in ("times", "low", "high")}
        less = say("prepared", times=f"{step.prepared:.1f}") if step.prepared else ""
        written = partial(time_words, like=max(step.whole or (0.0,)))
        whole = say("whole", device=step.card, ends=ends_in_words(*step.whole, written)) if step.whole else ""
        lasting.append(say("lived", **ends, less=less) + whole)
    lasting += evaluation_lines(answer)
    hosts, everywhere = facts.host_bound(answer)
    if hosts:
        lasting.append(say("host_everywhere") if everywhere else say("host", devices=joined(hosts, 4)))
    lasting += contradiction_lines(answer)
    lasting += [
        say("estimate", time=time_words(row.step_time or 0.0, True).capitalize()) for row in facts.estimates(answer)
    ]
    lasting += [say("disturbed_here", where=where(row)) for row in rows if row.is_here and row.disturbed]
    started = {row.price.kind == "free": row for row in rows if row.start_time and row.step_time}
    if started:
        times = [
            say("start_free" if free else "start_rented", time=start_of(started[free])) for free in sorted(started)
        ]
        lasting.append(say("start", times=", ".join(times)))
    if answer.work.mode == "train" and answer.pick is not None and answer.work.lived is None:
        lasting.append(say("without_validation" if answer.work.pipeline_rate else "without_data"))
    return lasting


def _each_gpu(answer: Answer) -> list[str]:
    """Return how the batch grows with the GPUs."""
    on_each = facts.each_gpu(answer)
    if on_each is None:
        return []
    kind = "one" if on_each.gpus is None else "examples" if on_each.steps is None else "steps"
    rest = say(f"each_gpu_{kind}", gpus=on_each.gpus, total=f"{on_each.total:,}", steps=f"{on_each.steps or 0:,.0f}")
    return [say("each_gpu", batch=counted(on_each.batch, "example"), rest=rest)]


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
        taken = say("batch") if round(count) == 1 else say("batches", count=f"{count:,.0f}")
        taken = say("evaluation_tokens", batches=taken, tokens=tokens) if tokens else taken
        plural = "" if every == 1 else "s"
        period = (
            ""
            if per == "training"
            else say(f"every_{per}{plural}", count=f"{every:,.0f}" if every == round(every) else two(every))
        )
        times.append(say("evaluation_once" if per == "training" else "evaluation_each", batches=taken, every=period))
    reasons = dict.fromkeys(_why_not_counted(one) for one in besides.missing)
    share = chance(besides.share) if besides.share >= ONE_PER_CENT else say("below_1")
    counted_line = [say("evaluation", times=joined(times), share=share)] if times else []
    return counted_line + ([say("evaluation_unknown", reasons=joined(list(reasons)))] if reasons else [])


def _why_not_counted(one: Evaluation) -> str:
    if one.known:
        return say("evaluation_epoch")
    if one.line is None:
        return say("evaluation_trainer")
    return say("evaluation_batches" if one.batches is None else "evaluation_often", line=one.line)


def contradiction_lines(answer: Answer) -> list[str]:
    """Return a line for each measured device that contradicts its forecast."""
    return [
        say("contradicts", device=row.device, times=number((row.step_time or 0.0) / (row.forecast_time or 1.0)))
        for row in facts.contradictions(answer)
    ]


def _several(answer: Answer) -> list[str]:
    counts = facts.several_in_time(answer)
    return [say("several", counts=",".join(map(str, counts)))] if counts else []


def _offers(answer: Answer) -> list[str]:
    """Return what would be cheaper as a spot machine, and after a port to other software."""
    spot, port = facts.cheaper(answer, Reason.SPOT), facts.cheaper(answer, Reason.PORT)
    offers = [] if spot is None else [with_option("spot_offer", spot, device=spot.row.card)]
    return offers + ([] if port is None else [with_option("port_offer", port)])


def settling_line(answer: Answer) -> list[str]:
    """Return the command that settles the choice, where that pays."""
    settle = facts.settling(answer)
    return [] if settle is None else [say("settling", command=rent_command(answer.work, settle))]


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


def _buying(answer: Answer) -> list[str]:
    buy = facts.buying(answer)
    return [] if buy is None else [say("buying", usd=usd_words(buy.usd), hours=two(buy.hours))]


def fits_words(row: Row) -> str:
    """Return `3.5 of 25`, with `no` where it does not fit and `tight` where it may or may not."""
    if row.memory_needed is None:
        return say("fits_not") if row.fits is False else ""
    sentence = "fits_tight" if row.memory_tight else "fits_no" if row.fits is False else None
    return say(sentence, memory=memory_of(row)) if sentence else memory_of(row)


def memory_of(row: Row) -> str:
    """Return `3.5 of 25`, in GB of a whole device; what is very small `<0.01 of 25`."""
    size = (row.memory_taken or 0.0) / 1e9
    needed = "<0.01" if 0 < size < 0.01 else two(size)
    if not row.memory:
        return say("fits_unknown", needed=needed)
    return say("fits", needed=needed, available=two(row.memory / 1e9))


def joined(names: Sequence[str], most: int = 99) -> str:
    """Return `T4, L4 and A10G`; of many the first few."""
    names = list(dict.fromkeys(names))
    if len(names) > most:
        names = [*names[: most - 1], say("more_names", count=len(names) - most + 1)]
    return say("and", first=", ".join(names[:-1]), last=names[-1]) if len(names) > 1 else names[0]


def as_json(answer: Answer) -> dict[str, Any]:
    """Return the facts of an answer as plain data, with its words beside them."""
    plain: dict[str, Any] = facts.as_dict(answer)
    for row, option in zip(plain["rows"], answer.options, strict=True):
        row["why_not"] = None if option.ruled_out is None else why_words(option.ruled_out)
    plain["amount"]["words"] = amount_words(answer)
    return plain | {"words": lines(answer), "notes": notes(answer)}
