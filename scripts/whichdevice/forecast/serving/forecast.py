"""How a server holds a load: times to first token and a token, the most requests a second, and how sure that is.

    load = Load(rps=5, prompt=1000, answer=300, ttft=1.0, tpot=0.05)
    [one] = serve_all([Server(model, hardware_rows()["L40S"], 2, WEIGHT_FORMATS["fp8"])], load)
    one.capacity, one.one_user, one.ttft

A server that is s times slower than forecast meets, at a rate, what the forecast one meets at s times the rate, s times
as long. So each server is simulated once at a grid of rates, and every draw of the error reads that curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whichdevice.forecast.joint import INTERVAL, normal
from whichdevice.forecast.serving.queue import Array, Engines, Requests, simulate
from whichdevice.forecast.serving.server import Server, model_shape

REQUESTS = 240  # simulated at each rate
LOADS = np.array([0.01, 0.05, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88, 0.95, 1.02])  # of the rate at full load
DRAWS, SEED = 1000, 0
TESTED, LIKE_OTHERS, UNTESTED = "published servers on this chip", "published servers on other chips", "its rates alone"
SHARED, OWN = 0.5, 0.866  # of what is left for a known model on a known chip, what all its devices share
SHARES = 401  # of full load, at which a target is looked at
FULL = 0.99  # of the rate at full load, up to which a queue stays short


@dataclass(frozen=True)
class Load:
    """The question about servers: requests a second (None: one user), tokens of each, and times that must hold."""

    rps: float | None
    prompt: float
    answer: float
    ttft: float  # seconds to the first token; to a whole image or video
    tpot: float  # seconds from token to token
    unit: Literal["token", "image", "video"] = "token"  # that is paid for

    @property
    def made(self) -> bool:
        """Whether images or videos are made, which are dear: a thousand have a price, not a million."""
        return self.unit != "token"


@dataclass(frozen=True)
class ServingForecast:
    """The forecast of one server; nobody ran it. Memory is of one device in bytes, rates are of the whole server.

    `capacity` has the largest requests a second of each draw at which nine in ten requests hold the load's seconds; 0:
    it never does. A draw has the same errors for all servers. Nine in ten requests at the load have `ttft` and
    `tpot` or less; without a load one user has. They are infinite where requests come faster than their answers.
    """

    server: Server
    source: str  # what the constants are known by: TESTED, LIKE_OTHERS or UNTESTED
    memory: Mapping[str, float]  # weights, workspace, and what is left for the cache
    fits: bool = False
    max_requests: int = 0
    capacity: tuple[float, ...] = ()
    one_user: tuple[float, float, float] = (0.0, 0.0, 0.0)  # tokens a second, with the ends of the 80 % interval
    first_token: float = math.inf  # seconds of one user
    ttft: float = math.inf
    tpot: float = math.inf


def serve_all(servers: Sequence[Server], load: Load) -> list[ServingForecast]:
    """Return the forecast of each server under a load; many together are faster than one by one."""
    requests = Requests.drawn(REQUESTS, load.prompt, load.answer, SEED)
    forecasts = [ServingForecast(server, source_of(server), server.memory()) for server in servers]
    places = [place for place, server in enumerate(servers) if server.max_requests(requests.tokens) >= 1]
    if not places:
        return forecasts
    engines = Engines.of([servers[place] for place in places], requests.tokens)
    full = engines.full_rate(requests)
    rows = np.repeat(np.arange(len(places)), len(LOADS))
    times = simulate(engines.take(rows), (full[:, None] * LOADS).ravel(), requests)
    ttft, tpot = (np.log(seconds).reshape(len(places), -1) for seconds in (times.ttft, times.tpot))
    for row, place in enumerate(places):
        curves = {"ttft": ttft[row], "tpot": tpot[row]}
        forecasts[place] = _forecast(servers[place], load, requests, float(full[row]), curves)
    return forecasts


def source_of(server: Server) -> str:
    """Return what the constants of a server are known by."""
    if server.row.device in server.fitted["chips"]:
        return TESTED
    return LIKE_OTHERS if server.generation in server.fitted["generations"] else UNTESTED


def slowness(server: Server) -> Array:
    """Return draws of how many times longer than forecast a server takes: by its model, its chip and the rest.

    A model is known by published servers of it on this engine.
    """
    spread, kind = server.fitted["sd"], "experts" if server.model.experts else "dense"
    unexplained = spread["rest"][kind]
    known = f"{model_shape(server.model)} on {server.engine}" in server.fitted["known"]
    model = 0.0 if known else spread["unseen model"][kind]
    chip = {TESTED: 0.0, LIKE_OTHERS: spread["unseen chip"], UNTESTED: spread["unseen generation"]}[source_of(server)]
    logs = math.hypot(model, unexplained * SHARED) * normal(DRAWS, SEED, "shared", "serving", server.engine)
    logs = logs + chip * normal(DRAWS, SEED, "own", "serving", server.row.device)
    logs = logs + unexplained * OWN * normal(DRAWS, SEED, "rest", server.row.device, server.count, server.weights.name)
    return np.asarray(np.exp(logs))


def _forecast(
    server: Server, load: Load, requests: Requests, full: float, curves: Mapping[str, Array]
) -> ServingForecast:
    """The forecast of a server that answers `full` requests a second at most.

    `curves` are logarithms of seconds of nine in ten requests at LOADS.
    """
    slow = slowness(server)
    prompt, answer = float(requests.prompts.mean()), float(requests.answers.mean())
    token = float(server.seconds(1.0, prompt + answer / 2))
    ahead = server.first_token
    reading = float(server.seconds(0.0, 0.0, prompt, prompt**2 / 2))
    share = (LOADS[0] if load.rps is None else load.rps / full) * slow  # of the server's full load, in each draw
    first = slow * np.exp(server.fitted["sd"]["first token"] * normal(DRAWS, SEED, "first token", server.engine))
    times = {
        kind: np.where(share > FULL, np.inf, (first if kind == "ttft" else slow) * np.exp(_between(share, curve)))
        for kind, curve in curves.items()
    }
    return ServingForecast(
        server,
        source_of(server),
        server.memory(),
        fits=True,
        max_requests=server.max_requests(requests.tokens),
        capacity=tuple(_most(curves, load, slow, first) * full / slow),
        one_user=_interval(1 / (token * slow)),
        first_token=ahead["seconds"] + ahead["reading"] * reading + ahead["tokens"] * token,
        ttft=_interval(times["ttft"])[1],
        tpot=_interval(times["tpot"])[1],
    )


def _interval(values: Array) -> tuple[float, float, float]:
    """The median of draws between the ends of the interval that has INTERVAL of them."""
    shares = [0.5 - INTERVAL / 2, 0.5, 0.5 + INTERVAL / 2]
    low, middle, high = map(float, np.quantile(values, shares, method="nearest"))
    return low, middle, high


def _between(shares: Any, values: Array) -> Any:
    """Return the values of a curve at shares of full load."""
    return np.interp(np.log(shares), np.log(LOADS), values)


def _most(curves: Mapping[str, Array], load: Load, slow: Array, first: Array) -> Array:
    """Return for each draw the largest share of its full load at which the seconds hold; 0 where none does."""
    shares = np.geomspace(LOADS[0], FULL, SHARES)
    most = np.full(len(slow), FULL)
    for curve, target in ((curves["ttft"], load.ttft / first), (curves["tpot"], load.tpot / slow)):
        worst = np.maximum.accumulate(_between(shares, curve))
        place = np.searchsorted(worst, np.log(target), "right")
        most = np.minimum(most, np.where(place > 0, shares[np.maximum(place, 1) - 1], 0.0))
    return most
