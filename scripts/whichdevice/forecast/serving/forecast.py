"""How a server holds a load: times to first token and a token, the most requests a second, and how sure that is.

    one = serve(served_model("meta-llama/Llama-3.1-8B"), hardware_rows()["L40S"], 2, WEIGHT_FORMATS["fp8"], 16, load)
    one.certainty(5), one.rps.middle, one.one_user.low
    serve_all([Server(model, row, count, kept) for row in rows for count in (1, 2)], load)   # faster than one by one

A server that is s times slower than forecast meets, at a rate, what the forecast one meets at s times the rate, s times
as long. So each server is simulated once at a grid of rates, and every draw of the error reads that curve.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.joint import INTERVAL, normal
from whichdevice.forecast.serving.queue import PERCENTILES, Array, Engines, Requests, Times, simulate
from whichdevice.forecast.serving.server import Server, model_shape
from whichdevice.models.served import ServedModel, WeightFormat

REQUESTS = 240  # simulated at each rate
LOADS = np.array([0.01, 0.05, 0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.88, 0.95, 1.02])  # of the rate at full load
DRAWS, SEED = 1000, 0
HELD = "p90"  # of the requests: a target holds for nine in ten
TESTED, LIKE_OTHERS, UNTESTED = "published servers on this chip", "published servers on other chips", "its rates alone"
SHARED, OWN = 0.5, 0.866  # of what is left for a known model on a known chip, what all its devices share
SHARES = 401  # of full load, at which a target is looked at
FULL = 0.99  # of the rate at full load, up to which a queue stays short
GGUF_ENGINE, ENGINE = "llama.cpp", "vllm"


class Load(Protocol):
    """The load of a server: requests a second (None: one user), tokens of each, and seconds that must hold."""

    @property
    def rps(self) -> float | None: ...
    @property
    def prompt(self) -> float: ...
    @property
    def answer(self) -> float: ...
    @property
    def ttft(self) -> float: ...
    @property
    def tpot(self) -> float: ...


class Log(Protocol):
    """Requests in the order of their arrival: seconds, and tokens of prompt and answer."""

    @property
    def arrivals(self) -> Sequence[float]: ...
    @property
    def prompts(self) -> Sequence[int]: ...
    @property
    def answers(self) -> Sequence[int]: ...


class Range(NamedTuple):
    """A forecast with its 80 % interval."""

    low: float
    middle: float
    high: float

    @classmethod
    def of(cls, values: Array) -> Range:
        """Return the median of draws, and the interval that has INTERVAL of them."""
        shares = [0.5 - INTERVAL / 2, 0.5, 0.5 + INTERVAL / 2]
        return cls(*map(float, np.quantile(values, shares, method="nearest")))


NONE = Range(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class ServingForecast:
    """The forecast of one server; nobody ran it. Memory is of one device in bytes, rates are of the whole server.

    `capacity` has the largest requests a second of each draw at which nine in ten requests hold the load's seconds; 0:
    it never does. A draw has the same errors for all servers. `ttft` and `tpot` are those of nine in ten requests at
    the load, without one those of a user alone; infinite where requests come faster than they are answered.
    """

    server: Server
    source: str  # what the constants are known by: TESTED, LIKE_OTHERS or UNTESTED
    fits: bool
    memory: Mapping[str, float]  # weights, workspace, and what is left for the cache
    available: float
    max_requests: int
    max_context: int
    capacity: tuple[float, ...] = ()
    full: Range = NONE  # requests a second when requests always wait
    one_user: Range = NONE  # tokens a second
    first_token: float = math.inf  # seconds of one user
    ttft: float = math.inf
    tpot: float = math.inf
    times: Mapping[str, Range] = field(default_factory=dict)  # "ttft p50" to "tpot p99" at the load
    utilisation: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)  # seconds of one user's token by class of work

    @property
    def rps(self) -> Range:
        """The largest requests a second in time."""
        return Range.of(np.array(self.capacity)) if self.capacity else NONE

    def certainty(self, rps: float) -> float:
        """Return the chance that it holds the load's seconds at this rate."""
        return float(np.mean(np.array(self.capacity or (0.0,)) >= rps))


def engine_for(row: HardwareRow, weights: WeightFormat) -> str:
    """Return the engine that a person takes there: llama.cpp for its own formats, CPUs and Macs, else vLLM."""
    takes_gguf = weights.gguf or row.kind == "cpu" or row.device.startswith("Apple")
    return GGUF_ENGINE if takes_gguf else ENGINE


def serve(
    model: ServedModel,
    row: HardwareRow,
    count: int,
    weights: WeightFormat,
    cache_bits: int,
    load: Load,
    engine: str | None = None,
    log: Log | None = None,
) -> ServingForecast:
    """Return the forecast of one server: so many devices of a row with a model, in a format of weights and cache."""
    server = Server(model, row, count, weights, cache_bits, engine or engine_for(row, weights))
    return serve_all([server], load, log)[0]


def serve_all(servers: Sequence[Server], load: Load, log: Log | None = None) -> list[ServingForecast]:
    """Return the forecast of each server under a load; with a log, its lengths and times between requests count."""
    if log is None:
        requests = Requests.drawn(REQUESTS, load.prompt, load.answer, SEED)
    else:
        requests = Requests.logged(REQUESTS, log.arrivals, log.prompts, log.answers)
    longest = float((requests.prompts + requests.answers).max())
    fitting = [server for server in servers if server.max_requests(longest) >= 1]
    forecasts: dict[int, ServingForecast] = {}
    if fitting:
        engines = Engines.of(fitting, requests.tokens)
        full = engines.full_rate(requests)
        rows = np.repeat(np.arange(len(fitting)), len(LOADS))
        times = simulate(engines.take(rows), (full[:, None] * LOADS).ravel(), requests)
        for row, server in enumerate(fitting):
            forecasts[id(server)] = _forecast(server, load, requests, float(full[row]), _curve(times, row))
    return [forecasts.get(id(server)) or _without_room(server) for server in servers]


def _curve(times: Times, row: int) -> dict[str, Any]:
    """The curves of one server over LOADS."""
    places = slice(row * len(LOADS), (row + 1) * len(LOADS))
    return {
        "ttft": {name: np.log(values[places]) for name, values in times.ttft.items()},
        "tpot": {name: np.log(values[places]) for name, values in times.tpot.items()},
        "utilisation": times.utilisation[places],
    }


def source_of(server: Server) -> str:
    """Return what the constants of a server are known by."""
    if server.row.device in server.fitted["chips"]:
        return TESTED
    return LIKE_OTHERS if server.generation in server.fitted["generations"] else UNTESTED


def slowness(server: Server) -> Array:
    """Return draws of how many times longer than forecast a server takes: by its model, its chip and the rest."""
    spread, kind = server.fitted["sd"], "experts" if server.model.experts else "dense"
    rest = spread["rest"][kind]
    model = 0.0 if model_shape(server.model) in server.fitted["models"] else spread["unseen model"][kind]
    chip = {TESTED: 0.0, LIKE_OTHERS: spread["unseen chip"], UNTESTED: spread["unseen generation"]}[source_of(server)]
    logs = math.hypot(model, rest * SHARED) * normal(DRAWS, SEED, "shared", "serving", server.engine)
    logs = logs + chip * normal(DRAWS, SEED, "own", "serving", server.row.device)
    logs = logs + rest * OWN * normal(DRAWS, SEED, "rest", server.row.device, server.count, server.weights.name)
    return np.asarray(np.exp(logs))


def _forecast(server: Server, load: Load, requests: Requests, full: float, curve: Mapping[str, Any]) -> ServingForecast:
    slow = slowness(server)
    prompt, answer = float(requests.prompts.mean()), float(requests.answers.mean())
    work = server.work(1.0, prompt + answer / 2)
    parts = {name: float(seconds) * server.factors[name] for name, seconds in work.items()}
    token = sum(parts.values())
    ahead = server.first_token
    reading = float(server.seconds(0.0, 0.0, prompt, prompt**2 / 2))
    first = ahead["seconds"] + ahead["reading"] * reading + ahead["tokens"] * token
    share = (LOADS[0] if load.rps is None else load.rps / full) * slow  # of the server's full load, in each draw
    times = {
        f"{kind} {name}": Range.of(np.where(share > FULL, np.inf, slow * np.exp(_between(share, curve[kind][name]))))
        for kind in ("ttft", "tpot")
        for name in PERCENTILES
    }
    most = _most(curve, load, slow)
    return ServingForecast(
        server,
        source_of(server),
        True,
        server.memory(),
        server.usable,
        server.max_requests(requests.tokens),
        server.max_context,
        tuple(most * full / slow),
        Range.of(full / slow),
        Range.of(1 / (token * slow)),
        first,
        times[f"ttft {HELD}"].middle,
        times[f"tpot {HELD}"].middle,
        times,
        float(_between(np.median(share), curve["utilisation"])),
        parts,
    )


def _between(shares: Any, values: Array) -> Any:
    """Return the values of a curve at shares of full load."""
    return np.interp(np.log(shares), np.log(LOADS), values)


def _most(curve: Mapping[str, Any], load: Load, slow: Array) -> Array:
    """Return for each draw the largest share of its full load at which the seconds hold; 0 where none does."""
    shares = np.geomspace(LOADS[0], FULL, SHARES)
    most = np.full(len(slow), FULL)
    for kind, target in (("ttft", load.ttft), ("tpot", load.tpot)):
        worst = np.maximum.accumulate(_between(shares, curve[kind][HELD]))
        place = np.searchsorted(worst, np.log(target / slow), "right")
        most = np.minimum(most, np.where(place > 0, shares[np.maximum(place, 1) - 1], 0.0))
    return most


def _without_room(server: Server) -> ServingForecast:
    return ServingForecast(server, source_of(server), False, server.memory(), server.usable, 0, server.max_context)
