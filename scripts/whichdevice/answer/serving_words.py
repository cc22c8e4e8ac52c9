"""The words of an answer about serving, made here alone, from facts. The first line is the decision."""

import json
from collections.abc import Sequence
from textwrap import wrap

from whichdevice.answer.serving import SURE, Load, Option, Server, Serving, as_dict, best_of_each
from whichdevice.answer.words import joined
from whichdevice.numbers import number, time_words, two, usd_words

GB = 1e9
MAX_ROWS = 12
MAX_NAMES = 6
MIN_WIDTH = 60
SENTENCES = {
    "title": "{model} · {prompt} tokens in, {answer} out · first token ≤ {ttft}, then ≤ {tpot} each",
    "rent": "Rent {name}{servers}: USD {usd} an hour, USD {million} a million tokens{at}; {sure} to hold {targets}.",
    "here": "Use this machine: {rate} tokens a second, USD {usd} an hour of electricity; {sure} to hold {targets}.",
    "buy": "Buy {name}{servers}: USD {usd} an hour over three years, USD {million} a million tokens{at}; {sure} to hold "
    "{targets}.",
    "servers": " ({count} servers of {each})",
    "at": " at {rps} requests a second",
    "at_full": " when full",
    "sure": "{share} sure",
    "likely": "only {share} sure",
    "targets": "{ttft} and {tpot}",
    "one": "One such server answers up to {rps} requests a second in time; one user alone gets {rate} tokens a second.",
    "rival": "About as cheap: {name}, USD {usd} an hour, {sure}.",
    "take_over": "From {rps} requests a second on {name} is cheaper: USD {usd} an hour.",
    "never": "The same device stays the cheapest at larger loads.",
    "format": "With {weights} weights: {name}, USD {usd} an hour (--weights {weights}; answers change a little).",
    "api_now": "That API costs USD {usd} an hour at this load; ",
    "api_from": "an own server is cheaper from {rps} requests a second on.",
    "api_never": "it is cheaper than an own server at every load.",
    "log": "The load is your log's: {count} requests in {time}.",
    "engine": "Forecast for {engines}; a request waits in a queue as there. Prices are medians of providers.",
    "small": "Too small: {names}.",
    "late": "Never in time: {names}.",
    "more": "Not shown: {names} (--all).",
    "here_row": "this machine",
}
HEAD = ("device", "weights", "GB: weights + cache", "at once", "tokens/s", "requests/s", "USD/h", "USD/M", "full", "sure")
ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "llama.cpp": "llama.cpp"}


def say(sentence: str, /, **parts: object) -> str:
    """Return a sentence with its parts filled in."""
    return SENTENCES[sentence].format(**parts)


def share_words(share: float) -> str:
    """Return a chance: `93 %`, `> 99 %`."""
    return "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def targets(load: Load) -> str:
    """Return both times that must hold."""
    return say("targets", ttft=time_words(load.ttft), tpot=time_words(load.tpot))


def title(answer: Serving) -> str:
    """Return what was asked."""
    load = answer.load
    return say(
        "title", model=answer.model, prompt=number(load.prompt), answer=number(load.answer), ttft=time_words(load.ttft),
        tpot=time_words(load.tpot),
    )  # fmt: skip


def decision(answer: Serving) -> str:
    """Return the first line: what to rent, what it costs and how sure it holds the targets."""
    pick = answer.pick
    if pick is None:
        return nothing(answer)
    server, rps = pick.server, answer.load.rps
    bought = server.price is not None and server.price.bought_usd is not None
    each = f"{server.count}" if server.count > 1 else "one"
    return say(
        "here" if server.here else "buy" if bought else "rent",
        name=pick.name,
        servers=say("servers", count=pick.servers, each=each) if pick.servers > 1 else "",
        usd=_usd(pick.usd_per_hour),
        million=_usd(pick.usd_million),
        rate=two(server.one_user[1]),
        at=say("at_full") if rps is None else say("at", rps=number(rps)),
        sure=_sure(pick),
        targets=targets(answer.load),
    )


def nothing(answer: Serving) -> str:
    """Return the one line of an answer without a pick: what comes nearest, and what to change."""
    near, load = answer.nearest, answer.load
    if near is None:
        server = min((option.server for option in answer.options), key=_missing, default=None)
        if server is None:
            return f"{answer.model}: no device is asked about; name some: --devices H100,L40S"
        needs = server.memory["weights"] * server.count / GB
        return (
            f"{answer.model}: {server.weights} weights of {number(round(needs))} GB fit none of these devices; the "
            f"largest, {server.name}, has {number(round(server.available * server.count / GB))} GB: name smaller "
            "weights (--weights awq) or larger devices (--devices)"
        )
    server = near.server
    tpot = 1 / server.one_user[1] if server.one_user[1] else 0.0
    if tpot > load.tpot or server.first_token > load.ttft:
        wanted = []
        if server.first_token > load.ttft:
            wanted.append(f"--ttft {_rounded_up(server.first_token)}")
        if tpot > load.tpot:
            wanted.append(f"--tpot {_rounded_up(tpot)}")
        return (
            f"{answer.model}: nothing holds {targets(load)}; nearest is {server.name}: first token after "
            f"{time_words(server.first_token)}, then {time_words(tpot)} each, of one user alone: ask for "
            f"{' '.join(wanted)} or a smaller format (--weights)"
        )
    return (
        f"{answer.model}: nothing surely holds {targets(load)}; nearest is {near.name}, {share_words(near.sure or 0)} "
        "sure: ask for more time (--ttft, --tpot) or other devices (--devices all)"
    )


def _missing(server: Server) -> float:
    return server.memory.get("weights", 0.0) / max(server.available, 1.0)


def _rounded_up(seconds: float) -> str:
    """A time of two digits above this one, as an option takes it."""
    milliseconds = seconds * 1.2e3
    return f"{two(milliseconds)}ms".replace(",", "") if milliseconds < 1000 else f"{two(milliseconds / 1e3)}s"


def lines(answer: Serving) -> list[str]:
    """Return the sentences above the table, the decision first."""
    pick, load = answer.pick, answer.load
    found = [decision(answer)]
    if pick is None:
        return found
    if answer.log is not None:
        found.append(say("log", count=f"{answer.log.requests:,}", time=time_words(3600 * answer.log.hours)))
    server = pick.server
    if server.safe:
        found.append(say("one", rps=two(server.safe), rate=two(server.one_user[1])))
    if answer.rival is not None:
        rival = answer.rival
        found.append(say("rival", name=rival.name, usd=_usd(rival.usd_per_hour), sure=_sure(rival)))
    if answer.take_over is not None:
        rps, other = answer.take_over
        found.append(say("take_over", rps=two(rps), name=other.name, usd=_usd(other.usd_per_hour)))
    for other in answer.other_formats:
        found.append(say("format", weights=other.server.weights, name=other.name, usd=_usd(other.usd_per_hour)))
    if answer.api is not None:
        api = answer.api
        now = say("api_now", usd=_usd(api.usd_per_hour)) if api.usd_per_hour is not None and load.rps else ""
        then = say("api_never") if api.cheaper_from is None else say("api_from", rps=two(api.cheaper_from))
        sentence = now + then
        found.append(sentence[0].upper() + sentence[1:])
    return found


def _sure(option: Option) -> str:
    share = option.sure or 0.0
    return say("sure" if share >= SURE else "likely", share=share_words(share))


def _usd(usd: float | None) -> str:
    return "–" if usd is None else usd_words(usd)


def shown(answer: Serving, everything: bool = False) -> list[Option]:
    """Return the options of the table: one a device, without those that are too small or never in time."""
    if everything:
        return list(answer.options)
    best = best_of_each(answer.options, answer.pick)
    able = [option for option in best if option.server.here or (option.server.fits and (option.sure or 0.0) >= 0.05)]
    kept = able[:MAX_ROWS]
    here = [option for option in able[MAX_ROWS:] if option.server.here]
    return [*kept, *here]


def folded(answer: Serving, everything: bool = False) -> list[str]:
    """Return what the table leaves out and why."""
    rows = shown(answer, everything)
    best = best_of_each(answer.options, answer.pick)
    left = [option for option in best if not any(option.server.device == row.server.device for row in rows)]
    small = [option.server.device for option in left if not option.server.fits]
    late = [option.server.device for option in left if option.server.fits and (option.sure or 0.0) < 0.05]
    more = [option.server.device for option in left if option.server.device not in (*small, *late)]
    named = (("small", small), ("late", late), ("more", more))
    return [say(name, names=joined(names, MAX_NAMES)) for name, names in named if names]


def cells(answer: Serving, everything: bool = False) -> list[tuple[bool, list[str]]]:
    """Return a row of texts in the columns of HEAD, and whether it is the pick."""
    return [(option is answer.pick, _cells(option)) for option in shown(answer, everything)]


def _cells(option: Option) -> list[str]:
    server = option.server
    memory = server.memory
    weights, cache = (max(memory.get(part, 0.0), 0.0) for part in ("weights", "cache"))
    gigabytes = f"{_gb(weights)} + {_gb(cache)} of {_gb(server.available)}"
    if not server.fits:
        gigabytes = f"no: {_gb(weights)} of {_gb(server.available)}"
    low, middle, high = (server.quantile(share) for share in (0.1, 0.5, 0.9))
    rates = f"{two(middle)} [{two(low)}–{two(high)}]" if middle else "–"
    price = server.price
    hour = "–" if price is None else f"{_usd(option.usd_per_hour)}"
    if price is not None and price.low < price.high:
        hour += f" [{_usd(price.low * option.servers)}–{_usd(price.high * option.servers)}]"
    return [
        say("here_row") if server.here else option.name,
        server.weights,
        gigabytes if server.count == 1 else f"{server.count} × {gigabytes}",
        f"{server.max_requests:,}" if server.fits else "–",
        two(server.one_user[1]) if server.one_user[1] else "–",
        rates,
        hour,
        _usd(option.usd_million),
        _usd(option.usd_million_full),
        "–" if option.sure is None else share_words(option.sure),
    ]


def _gb(nbytes: float) -> str:
    return two(nbytes / GB)


def text(answer: Serving, width: int = 100, everything: bool = False) -> list[str]:
    """Return the whole answer for a terminal of this width."""
    width = max(width, MIN_WIDTH)
    above = [part for line in [title(answer), "", *lines(answer)] for part in (wrap(line, width) or [""])]
    engines = [ENGINES[option.server.engine] for option in shown(answer, everything)]
    below = [*folded(answer, everything), say("engine", engines=joined(engines))]
    return [*above, "", *_table(answer, width, everything), "", *(part for line in below for part in wrap(line, width))]


LEAVE_OUT = (2, 8, 3)  # columns that go first where a terminal is narrow


def _table(answer: Serving, width: int, everything: bool) -> list[str]:
    rows = [["  " + HEAD[0], *HEAD[1:]]]
    rows += [[("▶ " if pick else "  ") + row[0], *row[1:]] for pick, row in cells(answer, everything)]
    kept = list(range(len(HEAD)))
    for left_out in (None, *LEAVE_OUT):
        kept = [place for place in kept if place != left_out]
        widths = [max(len(row[place]) for row in rows) for place in kept]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
    return [_line([row[place] for place in kept], widths, width) for row in rows]


def _line(row: Sequence[str], widths: Sequence[int], width: int) -> str:
    cells = enumerate(zip(row, widths, strict=True))
    return "  ".join(cell.ljust(size) if place < 2 else cell.rjust(size) for place, (cell, size) in cells)[:width].rstrip()


def as_json(answer: Serving) -> str:
    """Return facts, sentences and table as JSON."""
    rows = [dict(zip(HEAD, row, strict=True)) for _, row in cells(answer, everything=True)]
    return json.dumps(as_dict(answer) | {"lines": lines(answer), "table": rows}, indent=1)
