"""The words of an answer about serving, made here alone, from facts. The first line is the decision."""

import json
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from whichdevice.base.numbers import number, time_words, two, usd_words
from whichdevice.decide.serving import SURE, ServerOption, ServerRow, Serving, as_dict, best_of_each
from whichdevice.decide.table import Cells, in_columns
from whichdevice.decide.words import article, joined
from whichdevice.forecast.serving.forecast import Load

GB = 1e9
MAX_ROWS = 10
NEVER = 0.05  # chance of holding the targets, below which a server is never in time
MAX_NAMES = 6
MIN_WIDTH = 60
HEAD = ("device", "GB: weights + cache", "at once", "context", "tok/s", "requests/s", "USD/h", "USD/M", "sure")
MADE_HEAD = {"GB: weights + cache": "GB", "tok/s": "alone", "USD/M": "USD/1000"}  # of images and videos
OF_TOKENS = [2, 3]  # columns that these lack
LONGEST = 3  # the column that is shown where it is asked for
LEAVE_OUT = (2, 1)  # columns that go first where a terminal is narrow
ENGINES = {"vllm": "vLLM", "llama.cpp": "llama.cpp"}


def share_words(share: float) -> str:
    """Return a chance: `93 %`, `> 99 %`."""
    return "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def targets(load: Load) -> str:
    """Return the times that must hold."""
    if load.made:
        return time_words(load.ttft)
    return f"{time_words(load.ttft)} and {time_words(load.tpot)}"


def title(answer: Serving) -> str:
    """Return what was asked."""
    load, name = answer.load, answer.model.rpartition("/")[2]
    if load.made:
        return f"{name} · answered in {time_words(load.ttft)}"
    tokens = f"{number(load.prompt)} tokens in, {number(load.answer)} out"
    times = f"first ≤ {time_words(load.ttft)}, next ≤ {time_words(load.tpot)}"
    return f"{name} · {format_of(answer)} on {engine_of(answer)} · {tokens} · {times}"


def format_of(answer: Serving) -> str:
    """Return the format of most rows' weights; a row of another says so."""
    formats = [option.server.weights for option in answer.options if not option.server.here]
    return max(formats or [option.server.weights for option in answer.options], key=formats.count)


def engine_of(answer: Serving) -> str:
    """Return the engine of most rows."""
    engines = [option.server.engine for option in answer.options]
    return ENGINES[max(engines, key=engines.count)] if engines else ""


def decision(answer: Serving) -> str:
    """Return the first line: what to rent, what it costs and how sure it holds the targets."""
    return nothing(answer) if answer.pick is None else _use(answer, answer.pick)


def _at(load: Load) -> str:
    """Return the load that a price is of."""
    if load.rps is None:
        return " one after the other" if load.made else " when full"
    rps = number(load.rps)
    return f" at {rps} request{'' if rps == '1' else 's'} a second"


def _use(answer: Serving, pick: ServerOption) -> str:
    server = pick.server
    holds, load = f"{_sure(pick)} to hold {targets(answer.load)}", answer.load
    if server.here:
        return f"Use this machine: {two(server.one_user[1])} tokens a second, {_hourly(pick)} of electricity; {holds}."
    name = pick.name if pick.name != server.device else f"{article(server.device)} {server.device}"
    if pick.servers > 1:
        name += f" ({pick.servers} servers of {server.count if server.count > 1 else 'one'})"
    if server.price is None:
        return f'Use {name}: no price is known (--price "{server.device}=USD"); {holds}.'
    bought, many = server.price.bought_usd is not None, "thousand" if load.made else "million"
    hour = f"{_hourly(pick)} over three years" if bought else _hourly(pick)
    each = f"USD {_usd(_for_many(load, pick.usd_million))} a {many} {load.unit}s{_at(load)}"
    return f"{'Buy' if bought else 'Rent'} {name}: {hour}, {each}; {holds}."


def nothing(answer: Serving) -> str:
    """Return the one line of an answer without a pick: what comes nearest, and what to change."""
    return _nothing(answer) + "".join(
        f". With {kept} weights it is {option.name}, {_hourly(option)} (--weights {kept})"
        for option in answer.other_formats[:1]
        for kept in [option.server.weights]
    )


def _nothing(answer: Serving) -> str:
    near, load = answer.nearest, answer.load
    if near is not None and near.holds and load.rps:
        enough = f"nothing answers {number(load.rps)} requests a second in {targets(load)}"
        most = f"at most {two(near.holds)} on {name_of(near)}"
        return f"{answer.model}: {enough}; {most}: ask for fewer (--rps) or other devices (--devices all)"
    if near is not None and load.made:
        alone = near.server.first_token
        return (
            f"{answer.model}: nothing surely answers in {targets(load)}; nearest is {near.name}, {time_words(alone)} "
            f"for one alone: ask for --latency {_rounded_up(max(2 * alone, load.ttft))}, or other devices (--devices)"
        )
    if near is None:
        server = min((option.server for option in answer.options), key=_missing, default=None)
        if server is None:
            return f"{answer.model}: no device is asked about; name some: --devices H100,L40S"
        needed, room = (
            number(round(nbytes * server.count / GB)) for nbytes in (server.memory["weights"], server.available)
        )
        return (
            f"{answer.model}: {server.weights} weights of {needed} GB fit none of these devices; the largest, "
            f"{server.name}, has {room} GB for them: name smaller weights (--weights awq) or larger devices (--devices)"
        )
    server = near.server
    tpot = 1 / server.one_user[1] if server.one_user[1] else 0.0
    if tpot <= load.tpot and server.first_token <= load.ttft:
        return (
            f"{answer.model}: nothing surely holds {targets(load)}; nearest is {near.name}, "
            f"{share_words(near.sure or 0)} sure: ask for more time (--ttft, --tpot) or other devices (--devices all)"
        )
    times = {"--ttft": (server.first_token, load.ttft), "--tpot": (tpot, load.tpot)}
    asked = " ".join(f"{option} {_rounded_up(time)}" for option, (time, most) in times.items() if time > most)
    one_user = f"first token after {time_words(server.first_token)}, then {time_words(tpot)} each, of one user alone"
    return (
        f"{answer.model}: nothing holds {targets(load)}; nearest is {server.name}: {one_user}: ask for {asked} or a "
        "smaller format (--weights)"
    )


def _missing(server: ServerRow) -> float:
    return server.memory.get("weights", 0.0) / max(server.available, 1.0)


def _rounded_up(seconds: float) -> str:
    """A time of two digits above this one, as an option takes it."""
    milliseconds = seconds * 1.2e3
    return f"{two(milliseconds)}ms".replace(",", "") if milliseconds < 1000 else f"{two(milliseconds / 1e3)}s"


def lines(answer: Serving) -> list[str]:
    """Return the sentences above the table, the decision first."""
    pick, load = answer.pick, answer.load
    sentences = [decision(answer)]
    if pick is None:
        return sentences
    server = pick.server
    if server.safe:
        it, in_time = "It" if pick.servers == 1 else "Each server", f"{SURE * 100:.0f} % sure"
        alone = f"one user alone gets {two(server.one_user[1])} tokens a second"
        if load.made:
            alone = f"one alone takes {time_words(server.first_token)}"
        sentences.append(f"{it} answers {two(server.safe)} requests a second in time, {in_time}; {alone}.")
    if (price := server.price) is not None and price.providers > 1:
        hour = f"An hour of one {server.device} is USD {usd_words(price.usd / server.count)}"
        lowest = f"the lowest {usd_words(price.lowest)} ({price.provider})"
        sentences.append(f"{hour}, the median of {price.providers} providers; {lowest}.")
    if answer.rival is not None:
        rival = answer.rival
        sentences.append(f"About as cheap: {rival.name}, {_hourly(rival)}, {_sure(rival)}.")
    if answer.take_over is not None:
        rps, other = answer.take_over
        sentences.append(f"From {two(rps)} requests a second on, the cheapest is {other.name}: {_hourly(other)}.")
    for other in answer.other_formats:
        changes = f"(--weights {other.server.weights}; answers change a little)"
        sentences.append(f"With {other.server.weights} weights: {other.name}, {_hourly(other)} {changes}.")
    return sentences


def _sure(option: ServerOption) -> str:
    share = option.sure or 0.0
    return f"{'' if share >= SURE else 'only '}{share_words(share)} sure"


def _hourly(option: ServerOption) -> str:
    return f"USD {_usd(option.usd_per_hour)} an hour"


def _usd(usd: float | None) -> str:
    return "–" if usd is None else usd_words(usd)


def _for_many(load: Load, million: float | None) -> float | None:
    """USD for a million, or for a thousand images."""
    return million / 1000 if million is not None and load.made else million


def shown(answer: Serving) -> list[ServerOption]:
    """Return the options of the table: one a device, without those that are too small or never in time."""
    tried = best_of_each(answer.options, answer.pick)
    best = [option for option in tried if option.server.here or in_time(option) or option.holds]
    here = [option for option in best[MAX_ROWS:] if option.server.here]
    return [*best[:MAX_ROWS], *here]


def in_time(option: ServerOption) -> bool:
    """Return whether it sometimes holds the targets."""
    return option.server.fits and (option.sure or 0.0) >= NEVER


def folded(answer: Serving) -> list[str]:
    """Return what the table leaves out and why."""
    rows = {option.server.device for option in shown(answer)}
    best = best_of_each(answer.options, answer.pick)
    left = [option for option in best if option.server.device not in rows]
    small = [option.server.device for option in left if not option.server.fits]
    more = [option.server.device for option in left if option.server.fits and (in_time(option) or option.holds)]
    late = [option.server.device for option in left if option.server.device not in (*small, *more)]
    reasons = {"Too small": small, "Never in time": late}
    named = {reason: joined(names, MAX_NAMES) for reason, names in reasons.items() if names}
    too_few = [f"{name_of(option)} ({two(option.holds)})" for option in best if option.holds]
    words = []
    if too_few:
        below = f"Below {number(answer.load.rps or 0)} requests a second with the most that are run together"
        words.append(f"{below}: {joined(too_few, MAX_NAMES)}.")
    words += [f"{reason}: {names}." for reason, names in named.items()]
    if more:
        words.append(f"Not shown: {joined(more, MAX_NAMES)} (--devices shows those that it names).")
    if answer.without:
        none = "published times of such chips" if answer.load.made else f"{format_of(answer)} weights there"
        words.append(f"No {none}: {joined(answer.without, MAX_NAMES)}.")
    return words


def cells(answer: Serving, options: Sequence[ServerOption] | None = None) -> Cells:
    """Return a row of texts in the columns of HEAD for each option that is shown, and whether it is the pick."""
    usual = format_of(answer)
    chosen = shown(answer) if options is None else options
    return [(option is answer.pick, _cells(option, usual, answer.load)) for option in chosen]


def _cells(option: ServerOption, usual: str, load: Load) -> list[str]:
    server, price = option.server, option.server.price
    weights, cache = (max(server.memory.get(part, 0.0), 0.0) for part in ("weights", "cache"))
    parts = f"{_gb(weights)} + {_gb(cache)}" if server.fits else f"no: {_gb(weights)}"
    alone = two(server.one_user[1])
    if load.made:
        weights += server.memory.get("values", 0.0)
        parts, alone = (_gb(weights) if server.fits else f"no: {_gb(weights)}"), time_words(server.first_token)
    low, middle, high = (option.servers * server.quantile(share) for share in (0.1, 0.5, 0.9))
    hour = _usd(option.usd_per_hour)
    if price is not None and price.low < price.high:
        hour += f" [{_usd(price.low * option.servers)}–{_usd(price.high * option.servers)}]"
    name = name_of(option)
    sure = "–" if option.sure is None else share_words(option.sure)
    if option.holds:
        sure = f"no: {two(option.holds)} of {number(load.rps or 0)}"
    return [
        name if server.weights == usual else f"{name}, {server.weights}",
        f"{parts} of {_gb(server.device_memory)}",
        f"{option.servers * server.max_requests:,}" if server.fits else "–",
        f"{server.max_context:,}" if server.fits else "–",
        alone if server.fits else "–",
        f"{two(middle)} [{two(low)}–{two(high)}]" if middle else "–",
        hour,
        _usd(_for_many(load, option.usd_million)) if in_time(option) else "–",
        sure,
    ]


def name_of(option: ServerOption) -> str:
    """Return all devices of an option, or that it is this machine."""
    return "this machine" if option.server.here else option.name


def _gb(nbytes: float) -> str:
    return two(nbytes / GB)


def text(answer: Serving, width: int = 100, longest: bool = False) -> list[str]:
    """Return the whole answer for a terminal of this width; `longest` shows the longest context that fits."""
    width = max(width, MIN_WIDTH)
    above = [part for line in [title(answer), "", *lines(answer)] for part in (wrap(line, width) or [""])]
    below = [part for line in notes(answer) for part in wrap(line, width)]
    rows, hidden = cells(answer), [] if longest else [LONGEST]
    hidden += OF_TOKENS * answer.load.made
    return [*above, "", *in_columns(head(answer), rows, rows, width, LEAVE_OUT, hidden), "", *below]


def notes(answer: Serving) -> list[str]:
    """Return what is below the table: what it leaves out, what its columns are, and what it is a forecast of."""
    rows, made = shown(answer), answer.load.made
    known = [*folded(answer), *(_about_made(answer) if made else _about_text(answer, rows))]
    if untested := [option.server.device for option in rows if not option.server.tested and not option.server.here]:
        published = "times" if made else "servers"
        known.append(f"Untested by published {published}, so with a wider range: {joined(untested, MAX_NAMES)}.")
    if (files := answer.files) is not None:
        size = f"{files.weights / GB:.3g} billion weights, {files.nbytes / GB:.3g} GB in {files.format}"
        known.append(f"By the headers of its files it has {size}.")
    if any(option.server.here for option in rows):
        known.append("This machine is forecast from the memory rate that is measured here.")
    return known


def _about_made(answer: Serving) -> list[str]:
    when = "one after the other" if answer.load.rps is None else "at this load"
    return [
        "GB: all parts in 16 bits, in at most 95 % of it. requests/s: the most in time for nine in ten, inside [ ] in "
        f"8 of 10 cases. USD/1000: for a thousand {answer.load.unit}s {when}.",
        "Forecast of diffusers in 16 bits without a compiler, one after the other: nobody measured yours.",
    ]


def _about_text(answer: Serving, rows: Sequence[ServerOption]) -> list[str]:
    engines = joined([ENGINES[option.server.engine] for option in rows])
    when = "at the most requests in time" if answer.load.rps is None else "at this load"
    takes = "take" if len({option.server.engine for option in rows}) > 1 else "takes"
    share = f", of which {engines} {takes} {taken(rows)}" if rows else ""
    return [
        f"GB of each device{share}. tok/s: of one user alone. requests/s: the most in time, inside [ ] in 8 of 10 "
        f"cases. USD/M: for a million tokens of answers {when}.",
        f"Forecast of {engines} with a queue of requests: nobody measured yours. Prices: median of providers.",
    ]


def taken(rows: Sequence[ServerOption]) -> str:
    """Return the share of a device's memory that the engines take: `92 %`, `75 to 92 %`."""
    shares = sorted(round(100 * option.server.available / option.server.device_memory) for option in rows)
    return " to ".join(str(share) for share in dict.fromkeys((shares[0], shares[-1]))) + " %"


def head(answer: Serving) -> list[str]:
    """Return the names of the columns."""
    return [MADE_HEAD.get(name, name) if answer.load.made else name for name in HEAD]


def page_parts(answer: Serving, chart: str) -> dict[str, Any]:
    """Return what the page of an answer shows, under its names; `chart`: its pictures."""
    left_out = OF_TOKENS if answer.load.made else ()

    def kept(row: Sequence[str]) -> list[str]:
        return [text for place, text in enumerate(row) if place not in left_out]

    return {
        "title": title(answer), "lines": lines(answer), "typed": None, "chart": chart, "head": kept(head(answer)),
        "cells": [(pick, kept(row)) for pick, row in cells(answer)], "notes": notes(answer),
    }  # fmt: skip


def as_json(answer: Serving) -> str:
    """Return facts, sentences and table as JSON."""
    rows = [dict(zip(head(answer), row, strict=True)) for _, row in cells(answer, answer.options)]
    words = {"title": title(answer), "lines": lines(answer), "notes": notes(answer), "table": rows}
    return json.dumps(as_dict(answer) | words, indent=1)
