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
SENTENCES = {
    "title_made": "{model} · answered in {ttft}",
    "title": "{model} · {weights} on {engine} · {prompt} tokens in, {answer} out · first ≤ {ttft}, next ≤ {tpot}",
    "rent": "Rent {name}{servers}: USD {usd} an hour, USD {million} a million {unit}s{at}; {sure} to hold {targets}.",
    "rent_made": "Rent {name}{servers}: USD {usd} an hour, USD {million} a thousand {unit}s{at}; {sure} to hold "
    "{targets}.",
    "here": "Use this machine: {rate} tokens a second, USD {usd} an hour of electricity; {sure} to hold {targets}.",
    "buy": "Buy {name}{servers}: USD {usd} an hour over three years, USD {million} a million {unit}s{at}; {sure} to "
    "hold {targets}.",
    "unpriced": "Use {name}{servers}: no price is known (--price {price}); {sure} to hold {targets}.",
    "servers": " ({count} servers of {each})",
    "at": " at {rps} requests a second",
    "at_one": " at 1 request a second",
    "at_full": " when full",
    "at_work": " one after the other",
    "sure": "{share} sure",
    "likely": "only {share} sure",
    "targets": "{ttft} and {tpot}",
    "one": f"{{it}} answers {{rps}} requests a second in time, {SURE * 100:.0f} % sure; "
    "one user alone gets {rate} tokens a second.",
    "one_made": f"{{it}} answers {{rps}} requests a second in time, {SURE * 100:.0f} % sure; "
    "one alone takes {time}.",
    "it": "It",
    "each": "Each server",
    "price": "An hour of one {device} is USD {usd}, the median of {count} providers; the lowest {lowest} ({provider}).",
    "rival": "About as cheap: {name}, USD {usd} an hour, {sure}.",
    "take_over": "From {rps} requests a second on, the cheapest is {name}: USD {usd} an hour.",
    "instead": ". With {weights} weights it is {name}, USD {usd} an hour (--weights {weights})",
    "format": "With {weights} weights: {name}, USD {usd} an hour (--weights {weights}; answers change a little).",
    "too_long": "{model}: takes {longest} tokens, and a request has {tokens}: ask for fewer (--tokens), or a "
    "model with a longer context",
    "nothing_asked": "{model}: no device is asked about; name some: --devices H100,L40S",
    "nothing_fits": "{model}: {weights} weights of {needed} GB fit none of these devices; the largest, {name}, has "
    "{room} GB for them: name smaller weights (--weights awq) or larger devices (--devices)",
    "nothing_sure": "{model}: nothing surely holds {targets}; nearest is {name}, {share} sure: ask for more time "
    "(--ttft, --tpot) or other devices (--devices all)",
    "nothing_enough": "{model}: nothing answers {rps} requests a second in {targets}; at most {holds} on {name}: ask "
    "for fewer (--rps) or other devices (--devices all)",
    "nothing_holds": "{model}: nothing holds {targets}; nearest is {name}: first token after {ttft}, then {tpot} each, "
    "of one user alone: ask for {asked} or a smaller format (--weights)",
    "columns": "GB of each device{taken}. tok/s: of one user alone. requests/s: the most in time, inside [ ] in 8 of "
    "10 cases. USD/M: for a million tokens of answers {when}.",
    "when": "at this load",
    "when_full": "at the most requests in time",
    "when_made": "one after the other",
    "taken": ", of which {engines} takes {share}",
    "taken_by_several": ", of which {engines} take {share}",
    "columns_made": "GB: all parts in 16 bits, in at most 95 % of it. requests/s: the most in time for nine in "
    "ten, inside [ ] in 8 of 10 cases. USD/1000: for a thousand {unit}s {when}.",
    "source_made": "Forecast of diffusers in 16 bits without a compiler, one after the other: nobody measured yours.",
    "source": "Forecast of {engines} with a queue of requests: nobody measured yours. Prices: median of providers.",
    "untested_made": "Untested by published times, so with a wider range: {names}.",
    "untested": "Untested by published servers, so with a wider range: {names}.",
    "here_rate": "This machine is forecast from the memory rate that is measured here.",
    "too_few": "Below {rps} requests a second with the most that are run together: {names}.",
    "too_few_name": "{name} ({rps})",
    "holds": "no: {holds} of {rps}",
    "files": "By the headers of its files it has {billions} billion weights, {size} GB in {weights}.",
    "small": "Too small: {names}.",
    "late": "Never in time: {names}.",
    "without_made": "No published times of such chips: {names}.",
    "without": "No {weights} weights there: {names}.",
    "more": "Not shown: {names} (--devices shows those that it names).",
    "here_row": "this machine",
}
HEAD = ("device", "GB: weights + cache", "at once", "context", "tok/s", "requests/s", "USD/h", "USD/M", "sure")
MADE_HEAD = {"GB: weights + cache": "GB", "tok/s": "alone", "USD/M": "USD/1000"}  # of images and videos
OF_TOKENS = [2, 3]  # columns that these lack
LONGEST = 3  # the column that is shown where it is asked for
LEAVE_OUT = (2, 1)  # columns that go first where a terminal is narrow
ENGINES = {"vllm": "vLLM", "llama.cpp": "llama.cpp"}


def say(sentence: str, /, **parts: object) -> str:
    """Return a sentence with its parts filled in."""
    return SENTENCES[sentence].format(**parts)


def share_words(share: float) -> str:
    """Return a chance: `93 %`, `> 99 %`."""
    return "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def targets(load: Load) -> str:
    """Return the times that must hold."""
    if load.made:
        return time_words(load.ttft)
    return say("targets", ttft=time_words(load.ttft), tpot=time_words(load.tpot))


def title(answer: Serving) -> str:
    """Return what was asked."""
    load, name = answer.load, answer.model.rpartition("/")[2]
    if load.made:
        return say("title_made", model=name, ttft=time_words(load.ttft))
    return say(
        "title", model=name, weights=format_of(answer), engine=engine_of(answer), prompt=number(load.prompt),
        answer=number(load.answer), ttft=time_words(load.ttft), tpot=time_words(load.tpot),
    )  # fmt: skip


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
        return say("at_work" if load.made else "at_full")
    return say("at_one" if number(load.rps) == "1" else "at", rps=number(load.rps))


def _use(answer: Serving, pick: ServerOption) -> str:
    server = pick.server
    bought = server.price is not None and server.price.bought_usd is not None
    count, rent = f"{server.count}" if server.count > 1 else "one", "rent_made" if answer.load.made else "rent"
    return say(
        "here" if server.here else "unpriced" if server.price is None else "buy" if bought else rent,
        price=f'"{server.device}=USD"',
        name=pick.name if pick.name != server.device else f"{article(server.device)} {server.device}",
        servers=say("servers", count=pick.servers, each=count) if pick.servers > 1 else "",
        usd=_usd(pick.usd_per_hour),
        million=_usd(_for_many(answer.load, pick.usd_million)),
        unit=answer.load.unit,
        rate=two(server.one_user[1]),
        at=_at(answer.load),
        sure=_sure(pick),
        targets=targets(answer.load),
    )


def nothing(answer: Serving) -> str:
    """Return the one line of an answer without a pick: what comes nearest, and what to change."""
    return _nothing(answer) + "".join(
        say("instead", weights=option.server.weights, name=option.name, usd=_usd(option.usd_per_hour))
        for option in answer.other_formats[:1]
    )


def _nothing(answer: Serving) -> str:
    near, load = answer.nearest, answer.load
    if near is not None and near.holds and load.rps:
        holds = {"rps": number(load.rps), "holds": two(near.holds), "name": name_of(near)}
        return say("nothing_enough", model=answer.model, targets=targets(load), **holds)
    if near is not None and load.made:
        alone = near.server.first_token
        return (
            f"{answer.model}: nothing surely answers in {targets(load)}; nearest is {near.name}, {time_words(alone)} "
            f"for one alone: ask for --latency {_rounded_up(max(2 * alone, load.ttft))}, or other devices (--devices)"
        )
    if near is None:
        server = min((option.server for option in answer.options), key=_missing, default=None)
        if server is None:
            return say("nothing_asked", model=answer.model)
        needed, room = (
            number(round(nbytes * server.count / GB)) for nbytes in (server.memory["weights"], server.available)
        )
        return say(
            "nothing_fits", model=answer.model, weights=server.weights, needed=needed, name=server.name, room=room
        )
    server = near.server
    tpot = 1 / server.one_user[1] if server.one_user[1] else 0.0
    if tpot <= load.tpot and server.first_token <= load.ttft:
        return say(
            "nothing_sure", model=answer.model, targets=targets(load), name=near.name, share=share_words(near.sure or 0)
        )
    times = {"--ttft": (server.first_token, load.ttft), "--tpot": (tpot, load.tpot)}
    asked = " ".join(f"{option} {_rounded_up(time)}" for option, (time, most) in times.items() if time > most)
    return say(
        "nothing_holds", model=answer.model, targets=targets(load), name=server.name,
        ttft=time_words(server.first_token), tpot=time_words(tpot), asked=asked,
    )  # fmt: skip


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
        it = say("it" if pick.servers == 1 else "each")
        alone = time_words(server.first_token)
        one = "one_made" if load.unit != "token" else "one"
        sentences.append(say(one, it=it, rps=two(server.safe), rate=two(server.one_user[1]), time=alone))
    if (price := server.price) is not None and price.providers > 1:
        usd, lowest = usd_words(price.usd / server.count), usd_words(price.lowest)
        words = {"device": server.device, "usd": usd, "count": price.providers, "lowest": lowest}
        sentences.append(say("price", **words, provider=price.provider))
    if answer.rival is not None:
        rival = answer.rival
        sentences.append(say("rival", name=rival.name, usd=_usd(rival.usd_per_hour), sure=_sure(rival)))
    if answer.take_over is not None:
        rps, other = answer.take_over
        sentences.append(say("take_over", rps=two(rps), name=other.name, usd=_usd(other.usd_per_hour)))
    sentences += [
        say("format", weights=other.server.weights, name=other.name, usd=_usd(other.usd_per_hour))
        for other in answer.other_formats
    ]
    return sentences


def _sure(option: ServerOption) -> str:
    share = option.sure or 0.0
    return say("sure" if share >= SURE else "likely", share=share_words(share))


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
    left = [option for option in best_of_each(answer.options, answer.pick) if option.server.device not in rows]
    reasons: dict[str, list[str]] = {"small": [], "late": [], "more": []}
    for option in left:
        reason = "small" if not option.server.fits else "more" if in_time(option) or option.holds else "late"
        reasons[reason].append(option.server.device)
    words = [say(reason, names=joined(names, MAX_NAMES)) for reason, names in reasons.items() if names]
    if answer.without:
        sentence = "without_made" if answer.load.made else "without"
        words.append(say(sentence, weights=format_of(answer), names=joined(answer.without, MAX_NAMES)))
    return [*too_few(answer), *words]


def too_few(answer: Serving) -> list[str]:
    """Return which devices hold the times, and not the load, in the largest number that somebody would run."""
    some = [option for option in best_of_each(answer.options, answer.pick) if option.holds]
    names = [say("too_few_name", name=name_of(option), rps=two(option.holds or 0.0)) for option in some]
    return [say("too_few", rps=number(answer.load.rps or 0), names=joined(names, MAX_NAMES))] if names else []


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
        sure = say("holds", holds=two(option.holds), rps=number(load.rps or 0))
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
    return say("here_row") if option.server.here else option.name


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
        known.append(say("untested_made" if made else "untested", names=joined(untested, MAX_NAMES)))
    if (files := answer.files) is not None:
        size = {"billions": f"{files.weights / GB:.3g}", "size": f"{files.nbytes / GB:.3g}"}
        known.append(say("files", **size, weights=files.format))
    return [*known, say("here_rate")] if any(option.server.here for option in rows) else known


def _about_made(answer: Serving) -> list[str]:
    when = say("when_made" if answer.load.rps is None else "when")
    return [say("columns_made", unit=answer.load.unit, when=when), say("source_made")]


def _about_text(answer: Serving, rows: Sequence[ServerOption]) -> list[str]:
    engines = joined([ENGINES[option.server.engine] for option in rows])
    when = say("when_full" if answer.load.rps is None else "when")
    by_several = len({option.server.engine for option in rows}) > 1
    share = say("taken_by_several" if by_several else "taken", engines=engines, share=taken(rows)) if rows else ""
    return [say("columns", taken=share, when=when), say("source", engines=engines)]


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
