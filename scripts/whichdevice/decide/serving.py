"""Which machine serves a language model: its rows, the decision, and what turns it. Pure functions.

A server is one model on `count` devices of one machine; a load may need several servers. Everything is decided from
draws of the largest load that a server answers in time: one draw has the same errors in all rows.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from whichdevice.decide.decide import HOUR, MILLION, QUANTILES, finite
from whichdevice.decide.rows import Machine

if TYPE_CHECKING:
    from whichdevice.forecast.serving.forecast import Load

SAFE = 0.8  # chance of holding the targets from which on servers are a choice
LIKELY = 0.5  # from which on they are one where nothing is surer
MAX_SERVERS = 64  # of GPUs in data centres with links of their own
SAME = 1.05  # times the price of the pick, up to which another costs about the same
CHEAPER = 0.9  # times a price, below which another choice is named
STEPS, MAX_TIMES = 600, 100.0  # loads at which a take-over is looked for, up to so many times the load
CURVES = 3  # devices of the picture


@dataclass(frozen=True)
class ServerRow(Machine):
    """One model on one machine, forecast, with its price. Memory is of one device in bytes, rates of the whole.

    `memory_parts` has the weights, the workspace, and what is left for the cache.
    """

    max_requests: int = 0
    max_context: int = 0
    capacity: tuple[float, ...] = ()  # the largest requests a second in time, in each draw; 0: never in time
    one_user: tuple[float, float, float] = (0.0, 0.0, 0.0)  # tokens a second of one user: low, middle, high
    first_token: float = 0.0  # seconds to it, of one user
    ttft: float | None = None  # seconds at the load of one server, of nine in ten requests
    tpot: float | None = None
    most_servers: int = MAX_SERVERS  # that somebody would run together

    @property
    def device(self) -> str:
        """The devices of one server."""
        return self.card if self.devices == 1 else f"{self.devices} × {self.card}"

    @cached_property
    def safe(self) -> float:
        """Requests a second that it surely answers in time."""
        return self.quantile(1 - SAFE)

    def quantile(self, share: float) -> float:
        """Return the load below which it stays in this share of draws."""
        return float(np.quantile(self.capacity, share)) if self.capacity else 0.0

    def sure(self, rps: float | None, servers: int = 1) -> float:
        """Return the share of draws in which so many answer the load in time; without a load, one user."""
        if not self.capacity:
            return 0.0
        capacity = servers * np.asarray(self.capacity)
        return float(np.mean(capacity > 0 if rps is None else capacity >= rps))

    def servers_for(self, rps: float | None) -> int | None:
        """Return how many of them surely answer the load; None where no number does."""
        if rps is None:
            return 1 if self.safe > 0 else None
        needed = rps / self.safe - 1e-9 if self.safe > 0 else math.inf
        return math.ceil(needed) if needed <= self.most_servers else None

    def usd_for(self, rps: float | None) -> float:
        """Return USD an hour of the servers that surely answer the load, infinite where there is none or no price."""
        servers = self.servers_for(rps)
        return math.inf if servers is None or self.usd_per_hour is None else servers * self.usd_per_hour


@dataclass(frozen=True)
class ServerOption:
    """So many servers of one kind for the load."""

    row: ServerRow
    servers: int
    sure: float | None  # chance that they answer the load in time; None where that is not known
    usd_per_hour: float | None
    usd_million: float | None  # tokens of answers at this load, or at what they hold of it ...
    usd_million_full: float | None  # ... and at the largest that they surely answer in time
    holds: float | None = None  # requests a second of as many as somebody would run, where these are too few

    @property
    def name(self) -> str:
        """All its devices."""
        devices = self.servers * self.row.devices
        return self.row.card if devices == 1 else f"{devices} × {self.row.card}"


@dataclass(frozen=True)
class Files:
    """Weights as the headers of a model's files state them, where the sizes are not in the table."""

    weights: float
    nbytes: float
    format: str


@dataclass(frozen=True)
class Serving:
    """A decision for one model and load, and the rows that it is made from."""

    model: str
    load: "Load"
    options: tuple[ServerOption, ...]  # choices by price, then the others
    pick: ServerOption | None = None
    nearest: ServerOption | None = None  # without a pick: what comes nearest
    rival: ServerOption | None = None  # another device for about the same money
    take_over: tuple[float, ServerOption] | None = None  # from which load on another device is cheaper
    other_formats: tuple[ServerOption, ...] = ()  # the best choices with other weights that cost less than the pick
    without: tuple[str, ...] = ()  # devices on which the engine lacks this format of weights
    files: Files | None = None


def option_of(server: ServerRow, load: "Load") -> ServerOption:
    """Return the fewest servers that surely answer the load; else the most that somebody would run, or one."""
    enough = server.servers_for(load.rps)
    too_few = enough is None and server.safe > 0
    servers = enough or (server.most_servers if too_few else 1)
    hour = None if server.usd_per_hour is None else server.usd_per_hour * servers
    most = 1 / server.first_token if load.made and server.first_token else server.safe  # one after the other
    full = _million(hour, servers * most * load.answer)
    now = full if load.rps is None or enough is None else _million(hour, load.rps * load.answer)
    sure = server.sure(load.rps, servers) if server.capacity else None
    return ServerOption(server, servers, sure, hour, now, full, servers * server.safe if too_few else None)


def _million(usd_per_hour: float | None, tokens_per_second: float) -> float | None:
    if usd_per_hour is None or tokens_per_second <= 0:
        return None
    return usd_per_hour / HOUR / tokens_per_second * MILLION


def decide(
    model: str,
    load: "Load",
    servers: Sequence[ServerRow],
    without: tuple[str, ...] = (),
    files: Files | None = None,
) -> Serving:
    """Return the decision between servers of one format of weights."""
    options = [option_of(server, load) for server in servers]
    choices = _choices(options)
    answer = Serving(model, load, _ordered(options, choices), without=without, files=files)
    if not choices:
        return replace(answer, nearest=_nearest(options))
    pick = choices[0]
    rival = next((one for one in choices if one.row.card != pick.row.card), None)
    near = rival is not None and pick.usd_per_hour is not None and _usd(rival) <= SAME * pick.usd_per_hour
    later = _take_over(pick, [option.row for option in choices], load)
    return replace(answer, pick=pick, rival=rival if near else None, take_over=later)


def with_formats(answer: Serving, others: Iterable[Sequence[ServerRow]]) -> Serving:
    """Return an answer that names the best servers of other formats of weights, where they cost less than the pick."""
    best = [one for rows in others for one in _choices([option_of(server, answer.load) for server in rows])[:1]]
    most = math.inf if answer.pick is None else CHEAPER * _usd(answer.pick)
    return replace(answer, other_formats=tuple(option for option in best if _usd(option) <= most))


def _is_choice(option: ServerOption) -> bool:
    """Whether it can be the pick: rented or here, with a price. A computer to buy is a row to compare with."""
    return option.row.usd_per_hour is not None and option.row.price.kind != "buy"


def _choices(options: Sequence[ServerOption]) -> list[ServerOption]:
    """Return servers that hold the targets, the cheapest first; those that are likely to where nothing is surer."""
    known = [option for option in options if option.sure is not None]
    able = [option for option in known if _is_choice(option)]
    able = able or [option for option in known if option.row.usd_per_hour is not None] or known
    for least in (SAFE, LIKELY):
        if sure_enough := [option for option in able if (option.sure or 0.0) >= least]:
            return sorted(sure_enough, key=lambda option: (_usd(option), -(option.sure or 0.0)))
    return []


def _usd(option: ServerOption) -> float:
    return math.inf if option.usd_per_hour is None else option.usd_per_hour


def _ordered(options: Sequence[ServerOption], choices: Sequence[ServerOption]) -> tuple[ServerOption, ...]:
    """Choices by price, then what is less sure, then what answers fewer requests, then what does not fit."""
    unfit = [option for option in options if option not in choices]
    unfit.sort(key=lambda one: (not one.row.fits, -(one.sure or 0.0), -(one.holds or 0.0), _usd(one)))
    return (*choices, *unfit)


def _nearest(options: Sequence[ServerOption]) -> ServerOption | None:
    """The one that is surest; between those that never hold the load, what holds most, then the fastest."""
    fitting = [option for option in options if option.row.fits]
    known = [(one.sure or 0.0, one.holds or 0.0, one.row.one_user[1], -one.row.first_token) for one in fitting]
    return max(zip(known, fitting, strict=True), key=lambda pair: pair[0], default=(None, None))[1]


def best_of_each(options: Sequence[ServerOption], pick: ServerOption | None) -> list[ServerOption]:
    """Return one option of each device: the pick, else the first, as they are ordered."""
    best: dict[str, ServerOption] = {}
    for option in [*([pick] if pick else []), *options]:
        best.setdefault(option.row.card, option)
    return [option for option in options if any(option is one for one in best.values())]


def fastest_for_the_money(options: Sequence[ServerOption]) -> list[ServerOption]:
    """Return those that no other one beats in both a user's tokens a second and the price of a million, by price."""
    front: list[ServerOption] = []
    for option in sorted(options, key=lambda one: (one.usd_million or math.inf, -one.row.one_user[1])):
        if not front or option.row.one_user[1] > front[-1].row.one_user[1]:
            front.append(option)
    return front


def usd_over_load(answer: Serving, loads: Sequence[float]) -> dict[str, list[float]]:
    """Return USD a million tokens at each load, of the pick's device and the next ones; infinite where none holds."""
    devices = [option.row.card for option in best_of_each(answer.options, answer.pick) if _is_choice(option)]
    curves = {}
    for device in devices[:CURVES]:
        servers = [option.row for option in answer.options if option.row.card == device]
        hours = [min(server.usd_for(load) for server in servers) for load in loads]
        tokens = [load * answer.load.answer * HOUR for load in loads]
        curves[device] = [usd / number * MILLION for usd, number in zip(hours, tokens, strict=True)]
    return curves


def _take_over(pick: ServerOption, servers: Sequence[ServerRow], load: "Load") -> tuple[float, ServerOption] | None:
    """The first load above at which another device is noticeably cheaper than more of the pick's."""
    start = load.rps if load.rps is not None else pick.row.safe
    mine = [server for server in servers if server.card == pick.row.card]
    rivals = [server for server in servers if server.card != pick.row.card]
    if not rivals or start <= 0 or pick.usd_per_hour is None:
        return None
    for rps in start * np.geomspace(1, MAX_TIMES, STEPS):
        best = min(rivals, key=lambda server: server.usd_for(float(rps)))
        usd = best.usd_for(float(rps))
        if math.isfinite(usd) and usd <= CHEAPER * min(server.usd_for(float(rps)) for server in mine):
            return float(rps), option_of(best, replace(load, rps=float(rps)))
    return None


NAMES = {  # of a server's facts in JSON
    "device": "card", "count": "devices", "weights": "precision", "engine": "software", "memory": "memory_parts",
    "device_memory": "memory_whole", "available": "memory_available", "here": "is_here",
}  # fmt: skip
PLAIN = ("servers", "sure", "usd_per_hour", "usd_million", "usd_million_full", "holds")
SAME_NAMES = (
    "kind", "tested", "fits", "max_requests", "max_context", "one_user", "first_token", "ttft", "tpot", "most_servers",
)  # fmt: skip


def as_dict(answer: Serving) -> dict[str, Any]:
    """Return the decision and its rows as plain data for JSON, without draws."""

    def plain(option: ServerOption | None) -> dict[str, Any] | None:
        if option is None:
            return None
        row, (low, high) = option.row, option.row.usd_ends
        server = {name: getattr(row, NAMES.get(name, name)) for name in (*NAMES, *SAME_NAMES)}
        lowest = (row.price.lowest or 0.0) / row.devices
        price: dict[str, Any] = {"usd": row.usd_per_hour, "low": low, "high": high, "lowest": lowest}
        price["words"] = row.price.source or row.price.kind
        price |= {name: getattr(row.price, name) for name in ("bought_usd", "provider", "providers")}
        rates = dict(zip(("max_rps_low", "max_rps", "max_rps_high"), map(row.quantile, QUANTILES), strict=True))
        counts = {"devices": option.servers * row.devices, "safe_rps": row.safe}
        money = {name: getattr(option, name) for name in PLAIN}
        return server | {"price": None if row.usd_per_hour is None else price} | rates | counts | money

    later = answer.take_over
    return finite({
        "model": answer.model, "load": asdict(answer.load), "without": answer.without,
        **{name: plain(getattr(answer, name)) for name in ("pick", "nearest", "rival")},
        "take_over": later and {"rps": later[0], "choice": plain(later[1])},
        "files": answer.files and asdict(answer.files),
        **{name: [plain(option) for option in getattr(answer, name)] for name in ("options", "other_formats")},
    })  # fmt: skip
