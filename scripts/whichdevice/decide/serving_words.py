"""The words of an answer about serving, made here alone, from facts. The first line is the decision."""

import json
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from whichdevice.base.numbers import number, time_words, two, usd_words
from whichdevice.decide.serving import SURE, Load, Option, Server, Serving, as_dict, best_of_each
from whichdevice.decide.words import article, joined

GB = 1e9
MAX_ROWS = 10
NEVER = 0.05  # chance of holding the targets, below which a server is never in time
MAX_NAMES = 6
MIN_WIDTH = 60
SENTENCES = {
    "title_request": "{model} · predictions · answered in {ttft}",
    "title_made": "{model} · answered in {ttft}",
    "title": "{model} · {weights} on {engine} · {prompt} tokens in, {answer} out · first ≤ {ttft}, next ≤ {tpot}",
    "rent": "Rent {name}{servers}: USD {usd} an hour, USD {million} a million {unit}s{at}; {sure} to hold {targets}.",
    "rent_made": "Rent {name}{servers}: USD {usd} an hour, USD {million} a thousand {unit}s{at}; {sure} to hold "
    "{targets}.",
    "here": "Use this machine: {rate} tokens a second, USD {usd} an hour of electricity; {sure} to hold {targets}.",
    "here_request": "Use this machine: USD {usd} an hour of electricity; {sure} to hold {targets}.",
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
    "one_request": f"{{it}} answers {{rps}} requests a second in time, {SURE * 100:.0f} % sure; "
    "one alone takes {time}.",
    "it": "It",
    "each": "Each server",
    "price": "An hour of one {device} is USD {usd}, the median of {count} providers; the lowest {lowest} ({provider}).",
    "rival": "About as cheap: {name}, USD {usd} an hour, {sure}.",
    "take_over": "From {rps} requests a second on, the cheapest is {name}: USD {usd} an hour.",
    "instead": ". With {weights} weights it is {name}, USD {usd} an hour (--weights {weights})",
    "format": "With {weights} weights: {name}, USD {usd} an hour (--weights {weights}; answers change a little).",
    "api": "Use that API: USD {usd} an hour at {rps} requests a second; own servers cost USD {own}{from_load}.",
    "api_pays": " and are cheaper from {rps} requests a second on",
    "api_now": "That API costs USD {usd} an hour at this load; ",
    "api_from": "an own server is cheaper from {rps} requests a second on.",
    "api_never": "it is cheaper than an own server at every load.",
    "log": "The load is your log's: {count} requests in {time}.",
    "too_long": "{model}: takes {longest} tokens, and a request has {tokens}: ask for fewer (--prompt, --answer), or a "
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
    "when": "at this load; full: at the most requests in time",
    "when_full": "at the most requests in time",
    "columns_request": "requests/s: the most in time for nine in ten, inside [ ] in 8 of 10 cases; batches of at most "
    "{most}. USD/M: for a million requests, at this load and at the most that is in time.",
    "taken": ", of which {engines} takes {share}",
    "taken_by_several": ", of which {engines} take {share}",
    "columns_made": "GB: all parts in 16 bits, in at most 95 % of it. requests/s: the most in time for nine in "
    "ten, inside [ ] in 8 of 10 cases. USD/1000: for a thousand {unit}s, at this load and one after the other.",
    "source_made": "Forecast of diffusers in 16 bits without a compiler, one after the other: nobody measured yours.",
    "source_request": "Requests that wait go together, as TensorFlow Serving and Triton batch them. Not included: the "
    "network, and decoding inputs.",
    "source": "Forecast of {engines} with a queue of requests: nobody measured yours. Prices: median of providers.",
    "untested_request": "Untested by published times, so with a wider range: {names}.",
    "untested": "Untested by published servers, so with a wider range: {names}.",
    "here_rate": "This machine is forecast from the memory rate that is measured here.",
    "here_engine": "This machine is measured with {engine}.",
    "too_few": "Below {rps} requests a second with the most that are run together: {names}.",
    "too_few_name": "{name} ({rps})",
    "holds": "no: {holds} of {rps}",
    "files": "By the headers of its files it has {billions} billion weights, {size} GB in {weights}.",
    "small": "Too small: {names}.",
    "late": "Never in time: {names}.",
    "without_made": "No published times of such chips: {names}.",
    "without": "No {weights} weights there: {names}.",
    "more": "Not shown: {names} (--all).",
    "here_row": "this machine",
}
HEAD = (
    "device", "GB: weights + cache", "at once", "context", "tok/s", "requests/s", "USD/h", "USD/M", "full", "sure",
)  # fmt: skip
REQUEST_HEAD = {"GB: weights + cache": "GB", "tok/s": "alone"}  # of predictions
MADE_HEAD = {"USD/M": "USD/1000"}
OF_TOKENS = (2, 3)  # columns that predictions lack
LONGEST = (3,)  # columns that are shown where they are asked for
FULL = 8  # the same as the one before where no load is given
LEAVE_OUT = (2, 8, 1)  # columns that go first where a terminal is narrow
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "llama.cpp": "llama.cpp"}
ENGINES |= {"onnxruntime": "ONNX Runtime", "tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}  # predictions


def say(sentence: str, /, **parts: object) -> str:
    """Return a sentence with its parts filled in."""
    return SENTENCES[sentence].format(**parts)


def share_words(share: float) -> str:
    """Return a chance: `93 %`, `> 99 %`."""
    return "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def targets(load: Load) -> str:
    """Return the times that must hold."""
    if load.unit != "token":
        return time_words(load.ttft)
    return say("targets", ttft=time_words(load.ttft), tpot=time_words(load.tpot))


def title(answer: Serving) -> str:
    """Return what was asked."""
    load, name = answer.load, answer.model.rpartition("/")[2]
    if load.unit != "token":
        return say("title_made" if load.made else "title_request", model=name, ttft=time_words(load.ttft))
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
    """Return the first line: what to rent, what it costs and how sure it holds the targets; or what else costs less."""
    if answer.pick is None:
        return nothing(answer)
    return _api(answer) or _own(answer, answer.pick)


def _api(answer: Serving) -> str:
    """Return the decision for somebody else's interface, where it costs less than the pick at the load."""
    api, rps = answer.api, answer.load.rps
    server_usd = None if answer.pick is None else answer.pick.usd_per_hour
    if api is None or api.usd_per_hour is None or rps is None or server_usd is None or api.usd_per_hour >= server_usd:
        return ""
    pays = "" if api.cheaper_from is None else say("api_pays", rps=two(api.cheaper_from))
    return say("api", usd=_usd(api.usd_per_hour), rps=number(rps), own=_usd(server_usd), from_load=pays)


def _at(load: Load) -> str:
    """Return the load that a price is of."""
    if load.rps is None:
        return say("at_work" if load.made else "at_full")
    return say("at_one" if number(load.rps) == "1" else "at", rps=number(load.rps))


def _own(answer: Serving, pick: Option) -> str:
    server = pick.server
    bought = server.price is not None and server.price.bought_usd is not None
    of_here = "here_request" if answer.load.unit != "token" else "here"
    count, rent = f"{server.count}" if server.count > 1 else "one", "rent_made" if answer.load.made else "rent"
    return say(
        of_here if server.here else "unpriced" if server.price is None else "buy" if bought else rent,
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
    if near is not None and load.unit != "token":
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


def _missing(server: Server) -> float:
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
    if _api(answer):
        sentences.append(_own(answer, pick))
    if answer.log is not None:
        sentences.append(say("log", count=f"{answer.log.requests:,}", time=time_words(3600 * answer.log.hours)))
    server = pick.server
    if server.safe:
        it = say("it" if pick.servers == 1 else "each")
        alone = time_words(server.first_token)
        one = "one_request" if load.unit != "token" else "one"
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
    sentences += format_lines(answer)
    if answer.api is not None and not _api(answer):
        api = answer.api
        now = say("api_now", usd=_usd(api.usd_per_hour)) if api.usd_per_hour is not None and load.rps else ""
        then = say("api_never") if api.cheaper_from is None else say("api_from", rps=two(api.cheaper_from))
        sentence = now + then
        sentences.append(sentence[0].upper() + sentence[1:])
    return sentences


def format_lines(answer: Serving) -> list[str]:
    """Return what costs less with other weights than the pick."""
    return [
        say("format", weights=other.server.weights, name=other.name, usd=_usd(other.usd_per_hour))
        for other in answer.other_formats
    ]


def _sure(option: Option) -> str:
    share = option.sure or 0.0
    return say("sure" if share >= SURE else "likely", share=share_words(share))


def _usd(usd: float | None) -> str:
    return "–" if usd is None else usd_words(usd)


def _for_many(load: Load, million: float | None) -> float | None:
    """USD for a million, or for a thousand images."""
    return million / 1000 if million is not None and load.made else million


def shown(answer: Serving, everything: bool = False) -> list[Option]:
    """Return the options of the table: one a device, without those that are too small or never in time."""
    if everything:
        return list(answer.options)
    tried = best_of_each(answer.options, answer.pick)
    best = [option for option in tried if option.server.here or in_time(option) or option.holds]
    here = [option for option in best[MAX_ROWS:] if option.server.here]
    return [*best[:MAX_ROWS], *here]


def in_time(option: Option) -> bool:
    """Return whether it sometimes holds the targets."""
    return option.server.fits and (option.sure or 0.0) >= NEVER


def folded(answer: Serving, everything: bool = False) -> list[str]:
    """Return what the table leaves out and why."""
    rows = {option.server.device for option in shown(answer, everything)}
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


def cells(answer: Serving, everything: bool = False) -> list[tuple[bool, list[str]]]:
    """Return a row of texts in the columns of HEAD, and whether it is the pick."""
    usual = format_of(answer)
    return [(option is answer.pick, _cells(option, usual, answer.load)) for option in shown(answer, everything)]


def _cells(option: Option, usual: str, load: Load) -> list[str]:
    server, price = option.server, option.server.price
    weights, cache = (max(server.memory.get(part, 0.0), 0.0) for part in ("weights", "cache"))
    parts = f"{_gb(weights)} + {_gb(cache)}" if server.fits else f"no: {_gb(weights)}"
    alone = two(server.one_user[1])
    if not server.one_user[1]:  # of predictions
        weights += server.memory.get("values", 0.0)
        parts, alone = (_gb(weights) if server.fits else f"no: {_gb(weights)}"), time_words(server.first_token)
    low, middle, high = (option.servers * server.quantile(share) for share in (0.1, 0.5, 0.9))
    hour = _usd(option.usd_per_hour)
    if price is not None and price.low < price.high:
        hour += f" [{_usd(price.low * option.servers)}–{_usd(price.high * option.servers)}]"
    name, often = name_of(option), in_time(option)
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
        _usd(_for_many(load, option.usd_million)) if often else "–",
        _usd(_for_many(load, option.usd_million_full)) if often else "–",
        sure,
    ]


def name_of(option: Option) -> str:
    """Return all devices of an option, or that it is this machine."""
    return say("here_row") if option.server.here else option.name


def _gb(nbytes: float) -> str:
    return two(nbytes / GB)


def text(answer: Serving, width: int = 100, everything: bool = False, longest: bool = False) -> list[str]:
    """Return the whole answer for a terminal of this width; `longest` shows the longest context that fits."""
    width = max(width, MIN_WIDTH)
    above = [part for line in [title(answer), "", *lines(answer)] for part in (wrap(line, width) or [""])]
    below = [part for line in notes(answer, everything) for part in wrap(line, width)]
    return [*above, "", *_table(answer, width, everything, longest), "", *below]


def notes(answer: Serving, everything: bool = False) -> list[str]:
    """Return what is below the table: what it leaves out, what its columns are, and what it is a forecast of."""
    rows = shown(answer, everything)
    if answer.load.unit != "token":
        most, made = max((option.server.max_requests for option in rows), default=1), answer.load.made
        columns = say("columns_made", unit=answer.load.unit) if made else say("columns_request", most=most)
        known = [*folded(answer, everything), columns, say("source_made" if made else "source_request")]
        if engine := next((option.server.engine.partition(",")[0] for option in rows if option.server.here), None):
            known.append(say("here_engine", engine=ENGINES.get(engine, engine)))
    else:
        engines = joined([ENGINES[option.server.engine] for option in rows])
        when = say("when_full" if answer.load.rps is None else "when")
        by_several = len({option.server.engine for option in rows}) > 1
        share = say("taken_by_several" if by_several else "taken", engines=engines, share=taken(rows)) if rows else ""
        columns = say("columns", taken=share, when=when)
        known = [*folded(answer, everything), columns, say("source", engines=engines)]
    if untested := [option.server.device for option in rows if not option.server.tested and not option.server.here]:
        sentence = "untested_request" if answer.load.unit != "token" else "untested"
        known.append(say(sentence, names=joined(untested, MAX_NAMES)))
    if (files := answer.files) is not None:
        size = {"billions": f"{files.weights / GB:.3g}", "size": f"{files.nbytes / GB:.3g}"}
        known.append(say("files", **size, weights=files.format))
    from_rate = answer.load.unit == "token" and any(option.server.here for option in rows)
    return [*known, say("here_rate")] if from_rate else known


def taken(rows: Sequence[Option]) -> str:
    """Return the share of a device's memory that the engines take: `92 %`, `75 to 92 %`."""
    shares = sorted(round(100 * option.server.available / option.server.device_memory) for option in rows)
    return " to ".join(str(share) for share in dict.fromkeys((shares[0], shares[-1]))) + " %"


def _table(answer: Serving, width: int, everything: bool, longest: bool) -> list[str]:
    rows = [["  " + name if place == 0 else name for place, name in enumerate(head(answer))]]
    rows += [[("▶ " if pick else "  ") + row[0], *row[1:]] for pick, row in cells(answer, everything)]
    hidden = (*(() if longest else LONGEST), *((FULL,) if answer.load.rps is None else ()))
    hidden += OF_TOKENS if answer.load.unit != "token" else ()
    kept = [place for place in range(len(HEAD)) if place not in hidden]
    for left_out in (None, *LEAVE_OUT):
        kept = [place for place in kept if place != left_out]
        widths = [max(len(row[place]) for row in rows) for place in kept]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
    return [_line([row[place] for place in kept], widths)[:width] for row in rows]


def head(answer: Serving) -> list[str]:
    """Return the names of the columns."""
    others = REQUEST_HEAD | (MADE_HEAD if answer.load.made else {})
    return [others.get(name, name) if answer.load.unit != "token" else name for name in HEAD]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = enumerate(zip(row, widths, strict=True))
    return "  ".join(cell.rjust(size) if place else cell.ljust(size) for place, (cell, size) in cells).rstrip()


def page_parts(answer: Serving, chart: str, everything: bool = False) -> dict[str, Any]:
    """Return what the page of an answer shows, under its names; `chart`: its pictures."""
    left_out = OF_TOKENS if answer.load.unit != "token" else ()

    def kept(row: Sequence[str]) -> list[str]:
        return [text for place, text in enumerate(row) if place not in left_out]

    return {
        "title": title(answer), "lines": lines(answer), "typed": None, "chart": chart, "head": kept(head(answer)),
        "cells": [(pick, kept(row)) for pick, row in cells(answer, everything)], "notes": notes(answer, everything),
    }  # fmt: skip


def as_json(answer: Serving) -> str:
    """Return facts, sentences and table as JSON."""
    rows = [dict(zip(head(answer), row, strict=True)) for _, row in cells(answer, everything=True)]
    words = {"title": title(answer), "lines": lines(answer), "notes": notes(answer, True), "table": rows}
    return json.dumps(as_dict(answer) | words, indent=1)
