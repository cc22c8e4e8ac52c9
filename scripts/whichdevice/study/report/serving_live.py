"""The facts of an answer about servers that a live page carries; report/serving.js decides anew from them.

A server at one length of requests is a curve: seconds of nine in ten over the share of its full load. Load and targets
are then free; of lengths the page has a few. A draw of the error is how many times longer than forecast it takes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whichdevice.decide import serving, serving_words, words
from whichdevice.decide.serving import Serving
from whichdevice.forecast.serving.forecast import FULL, LOADS, SHARES, ServingForecast
from whichdevice.study.report import chart, serving_pictures

PROMPTS, ANSWERS = (100, 1_000, 4_000, 16_000), (100, 300, 1_000)  # tokens that a page offers
STEPS_OF_SLOWNESS = 10_000  # of the logarithm of a draw, as the page has it
DIGITS = 6
SERVING_LIMITS = {
    "sure": serving.SURE, "likely": serving.LIKELY, "same": serving.SAME,
    "cheaper": serving.CHEAPER, "steps": serving.STEPS, "max_times": serving.MAX_TIMES, "never": serving_words.NEVER,
    "max_rows": serving_words.MAX_ROWS, "max_names": serving_words.MAX_NAMES,
}  # fmt: skip

Tables = Mapping[tuple[int, int], Sequence[ServingForecast]]


def lengths(answer: Serving) -> list[tuple[int, int]]:
    """Return the lengths that the page of an answer offers: its own in place of the nearest usual ones."""
    load = answer.load
    prompts, answers = _with(PROMPTS, round(load.prompt)), _with(ANSWERS, round(load.answer))
    return [(prompt, tokens) for prompt in prompts for tokens in answers if prompt + tokens <= answer.longest]


def _with(usual: Sequence[int], asked: int) -> list[int]:
    nearest = min(usual, key=lambda one: abs(np.log(one / asked)))
    return sorted({asked, *usual} - ({nearest} - {asked}))


def live_data(answer: Serving, tables: Tables, everything: bool = False) -> dict[str, Any]:
    """Return the answer's facts for JSON; `tables` has the forecasts of all its servers at each length."""
    load = answer.load
    prompts, answers = ([*dict.fromkeys(sorted(length[place] for length in tables))] for place in (0, 1))
    return {
        "model": answer.model,
        "load": {"rps": load.rps, "prompt": load.prompt, "answer": load.answer, "ttft": load.ttft, "tpot": load.tpot},
        "longest": answer.longest,
        "api": answer.api and [answer.api.usd_in, answer.api.usd_out],
        "prompts": prompts,
        "answers": answers,
        "weights": serving_words.format_of(answer),
        "engine": serving_words.engine_of(answer),
        "engines": serving_words.ENGINES,
        "without": answer.without,
        "everything": everything,
        "formats": serving_words.format_lines(answer),
        "head": serving_words.HEAD,
        "sentences": serving_words.SENTENCES | {name: words.SENTENCES[name] for name in ("and", "more_names")},
        "limits": SERVING_LIMITS,
        "loads": LOADS.tolist(),
        "full": FULL,
        "shares": SHARES,
        "steps_of_slowness": STEPS_OF_SLOWNESS,
        "chart": chart.CHART_SIZES | serving_pictures.PICTURE_SIZES,
        "frames": {name: vars(frame) for name, frame in serving_pictures.FRAMES.items()},
        "servers": _servers(answer, tables, [(prompt, tokens) for prompt in prompts for tokens in answers]),
    }


def _servers(answer: Serving, tables: Tables, pairs: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return the servers in the order in which they were tried: of two that are equal the first is taken."""
    known = {(one.server.device, one.server.count): one.server for one in answer.options}
    tried = next(iter(tables.values()))
    return [
        facts_of(known[forecast.server.row.device, forecast.server.count])
        | {
            "slow": _steps(next((one.slow for one in of_lengths if one.fits), ())),
            "at": [_at(tables[pair][place]) if pair in tables else None for pair in pairs],
        }
        for place, forecast in enumerate(tried)
        for of_lengths in [[table[place] for table in tables.values()]]
    ]


def facts_of(server: serving.Server) -> dict[str, Any]:
    """Return what is the same at every load and length."""
    price = server.price
    return {
        "device": server.device, "count": server.count, "here": server.here, "weights": server.weights,
        "engine": server.engine, "tested": server.tested, "article": words.article(server.device),
        "weights_bytes": server.memory.get("weights", 0.0), "cache_bytes": server.memory.get("cache", 0.0),
        "device_memory": server.device_memory, "available": server.available, "max_context": server.max_context,
        "most_servers": server.most_servers,
        "price": price and {
            "usd": price.usd, "low": price.low, "high": price.high, "bought_usd": price.bought_usd,
            "provider": price.provider, "lowest": price.lowest, "providers": price.providers,
        },
    }  # fmt: skip


def _steps(slow: Sequence[float]) -> list[int]:
    """Return the logarithms of draws in order, each less the one before, in whole steps."""
    whole = np.round(np.sort(np.log(slow)) * STEPS_OF_SLOWNESS).astype(int)
    return [int(step) for step in np.diff(whole, prepend=0)]


def _at(forecast: ServingForecast) -> list[float] | None:
    """Return requests at once and a second, tokens a second of one user, the first token, and both curves."""
    if not forecast.fits:
        return None
    curves = [*forecast.curve["ttft"], *forecast.curve["tpot"]]
    numbers = [forecast.full_rate, *forecast.one_user, forecast.first_token, *curves]
    return [forecast.max_requests, *(round(float(number), DIGITS) for number in numbers)]
