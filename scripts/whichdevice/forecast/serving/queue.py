"""Requests that arrive at a server, read and answered together: when each gets its first token and the next ones.

    requests = Requests.drawn(300, prompt=1000, answer=300)
    times = simulate(engines, rates, requests)      # many servers and rates at once, each a row
    times.ttft, times.tpot                          # seconds of nine in ten

Continuous batching: an iteration gives one token to each request in flight and reads the next prompts, up to a chunk of
tokens. A request waits until the cache has room for its prompt and answer. The simulation goes from event to event:
prompts are read, an answer ends, a request arrives. Each server has its own clock, and all of them step together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whichdevice.forecast.serving.server import Server

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]
FIRST = ("seconds", "reading", "tokens")
PERCENT_IN_TIME = 90  # per cent of the requests that hold a time
WARM = 0.1  # share of requests at the beginning that are not counted
BUNDLES = 48
LEAST_TOKENS = 8  # of an answer under way, for its time a token to count
SIZES = np.unique(np.round(2 ** np.arange(0, 16.5, 0.5)))  # tokens in one iteration, of the tables


@dataclass(frozen=True)
class Requests:
    """Lengths in tokens, and times of arrival with one a second on average; all at once where there are no times."""

    prompts: Array
    answers: Array
    arrivals: Array

    @classmethod
    def drawn(cls, number: int, prompt: float, answer: float, seed: int = 0) -> Requests:
        """Return so many requests of equal lengths that come at random (Poisson)."""
        random = np.random.default_rng(seed)
        gaps = -np.log1p(-(random.permutation(number) + 0.5) / number)  # exponential, one of each size
        times = np.cumsum(gaps) - gaps[0]
        return cls(np.full(number, max(1.0, float(prompt))), np.full(number, max(1.0, float(answer))), times)

    @property
    def rate(self) -> float:
        """Requests a second in these."""
        return max(1.0, (len(self.arrivals) - 1) / max(float(self.arrivals[-1]), 1e-9))

    @property
    def tokens(self) -> float:
        """Mean tokens of a request, prompt and answer."""
        return float(self.prompts.mean() + self.answers.mean())


@dataclass(frozen=True)
class Engines:
    """Some servers as a queue sees them, each a row: tables of an iteration's seconds."""

    decode: Array  # [rows, sizes] seconds of an iteration of so many requests, without their cache
    prefill: Array  # [rows, sizes] seconds more for so many tokens of prompts
    context: Array  # [rows] seconds for a token of cache
    pair: Array  # [rows] seconds for a pair of tokens of a prompt
    limit: Array  # [rows] requests at once
    chunk: Array  # [rows] tokens of prompts in an iteration
    first: Array  # [rows, 3] what a first token takes: seconds, times its reading, tokens after it

    @classmethod
    def of(cls, servers: Sequence[Server], tokens: float) -> Engines:
        """Return the engines of servers whose requests have so many tokens, prompt and answer, on average."""
        decode, prefill, context, pair = [], [], [], []
        for server in servers:
            plain = server.seconds(SIZES, 0.0)
            decode.append(plain)
            prefill.append(server.seconds(1.0, 0.0, SIZES, 0.0) - plain[0])
            long = 64.0 * tokens
            context.append((server.seconds(64.0, long) - server.seconds(64.0, 0.0)) / long)
            pair.append((server.seconds(1.0, 0.0, 1024.0, 2.0**20) - server.seconds(1.0, 0.0, 1024.0, 0.0)) / 2**20)
        return cls(
            np.array(decode),
            np.array(prefill),
            np.array(context, dtype=float),
            np.array(pair, dtype=float),
            np.array([max(1, server.max_requests(tokens)) for server in servers], dtype=float),
            np.array([server.chunk for server in servers], dtype=float),
            np.array([[server.first_token[name] for name in FIRST] for server in servers], dtype=float),
        )

    def take(self, rows: npt.NDArray[np.int64]) -> Engines:
        """Return these rows, each as often as it is named."""
        return Engines(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def full_rate(self, requests: Requests) -> Array:
        """Return the requests a second of each row when requests always wait for room."""
        batch = self.limit
        answer = float(requests.answers.mean())
        rate: Array = 1 / (self._reading(requests, batch) + self._step(requests, batch) * answer / batch)
        return rate

    def in_flight(self, requests: Requests, rates: Array) -> Array:
        """Return how many requests of each row are in flight, on average, where so many come in a second."""
        batch, answer = np.ones(len(self.limit)), float(requests.answers.mean())
        for _ in range(40):
            free = 1 - np.minimum(rates * self._reading(requests, batch), 0.99)
            batch = np.minimum(self.limit, rates * answer * self._step(requests, np.maximum(batch, 1.0)) / free)
        return batch

    def _step(self, requests: Requests, batch: Array) -> Array:
        """Seconds of an iteration that reads no prompt."""
        tokens = float(requests.prompts.mean() + requests.answers.mean() / 2)
        return _of_table(self.decode, np.arange(len(batch)), batch) + self.context * batch * tokens

    def _reading(self, requests: Requests, batch: Array) -> Array:
        """Seconds of a prompt in a chunk that holds as many as wait."""
        prompt = float(requests.prompts.mean())
        tokens = np.minimum(self.chunk, np.maximum(batch, 1.0) * prompt)
        read = _of_table(self.prefill, np.arange(len(batch)), tokens) / tokens
        seconds: Array = read * prompt + self.pair * float((requests.prompts**2).mean())
        return seconds


@dataclass(frozen=True)
class Times:
    """The seconds of each row's requests [rows, requests]: to the first token, and from token to token."""

    first: Array
    next: Array  # nan where an answer is too short to tell

    @property
    def ttft(self) -> Array:
        """Return the seconds to the first token that nine in ten requests hold."""
        return np.asarray(np.nanpercentile(self.first, PERCENT_IN_TIME, axis=1))

    @property
    def tpot(self) -> Array:
        """Return the seconds from token to token that nine in ten requests hold."""
        return np.asarray(np.nanpercentile(self.next, PERCENT_IN_TIME, axis=1))


def _of_table(table: Array, rows: npt.NDArray[np.int64], tokens: Array) -> Array:
    """Return the seconds of so many tokens in each row, on a line between two sizes of the table."""
    place = np.clip(np.searchsorted(SIZES, tokens, "right") - 1, 0, len(SIZES) - 2)
    low, high = SIZES[place], SIZES[place + 1]
    share = np.clip((tokens - low) / (high - low), 0.0, None)
    values: Array = table[rows, place] * (1 - share) + table[rows, place + 1] * share
    return values


def simulate(engines: Engines, rates: Array, requests: Requests, together: Array | None = None) -> Times:
    """Return the times of the requests at each row's rate, in requests a second.

    `together` requests of a row are always under way: the next one comes when an answer ends.
    """
    servers = _Servers(engines, rates, requests, together)
    while (working := servers.following < servers.number).any():
        servers.next_event(working)
    return servers.times()


class _Servers:
    """Servers at work on the same requests: each array has a row for each server."""

    def __init__(self, engines: Engines, rates: Array, requests: Requests, together: Array | None) -> None:
        self.engines, self.rates, self.requests, self.together = engines, rates, requests, together
        self.number, rows = len(requests.prompts), len(engines.limit)
        self.rows = np.arange(rows)
        self.tokens_before = np.concatenate([[0.0], np.cumsum(requests.prompts)])  # of the prompts before each
        self.squares_before = np.concatenate([[0.0], np.cumsum(requests.prompts**2)])
        if together is None:
            self.arrival = requests.arrivals / rates[:, None]
            self.arrived = np.zeros(rows, dtype=int)
        else:
            self.arrived = np.minimum(together, self.number).astype(int)
            self.arrival = np.where(np.arange(self.number) < self.arrived[:, None], 0.0, np.inf)
        # In flight from the start, in BUNDLES that end one after the other: the server has been at work for long.
        lengths, answer = requests.prompts + requests.answers, requests.answers.mean()
        self.bundled = engines.in_flight(requests, rates * requests.rate) if together is None else np.zeros(rows)
        self.in_flight = self.bundled.copy()
        self.cached = self.bundled * lengths.mean() - self.bundled * answer / 2  # tokens
        self.cached_of = np.concatenate([lengths, np.full(BUNDLES, lengths.mean())])
        self.end = np.full((rows, self.number + BUNDLES), np.inf)  # the iteration with which each answer ends
        left = answer * (np.arange(BUNDLES) + 0.5) / BUNDLES
        self.end[:, self.number :] = np.where(self.bundled[:, None] > 0, left, np.inf)
        self.following = np.zeros(rows, dtype=int)  # the next request that is read
        self.now, self.iteration, self.busy = (np.zeros(rows) for _ in range(3))
        # Seconds and iterations at which each request has its first token and its last one.
        self.first, self.first_iteration, self.last, self.last_iteration = (
            np.full((rows, self.number), np.nan) for _ in range(4)
        )

    def next_event(self, working: Flags) -> None:
        """Let each server read the prompts that wait, or write until an answer ends or the next request comes."""
        arrives = self.arrival[self.rows, np.minimum(self.following, self.number - 1)]
        has_room = self.in_flight < self.engines.limit
        reads = working & has_room & ((arrives <= self.now) | (self.in_flight < 1e-9))
        self.now = np.where(reads, np.maximum(self.now, arrives), self.now)  # an idle server waits
        prompts = self._prompts(reads)
        tokens = self.tokens_before[self.following + prompts] - self.tokens_before[self.following]
        decoding = _of_table(self.engines.decode, self.rows, np.maximum(self.in_flight, 1.0))
        step = decoding + self.engines.context * self.cached  # seconds of an iteration that reads no prompt
        soonest = self.end.min(axis=1)
        until_arrival = np.where(has_room, np.ceil((arrives - self.now) / step), np.inf)
        written, writing = self._writing(working, step, np.minimum(soonest - self.iteration, until_arrival))
        chunks, reading = self._reading(prompts, tokens, step)
        self._pass(np.where(reads, chunks, written), np.where(reads, reading, writing), tokens)
        self._give_first_tokens(prompts)
        self._end_answers(np.flatnonzero(working & (np.where(reads, 0.0, soonest) <= self.iteration)))

    def _prompts(self, reads: Flags) -> Counts:
        """How many are read together: as many as have come, as fit in a chunk, and as the cache has room for."""
        if self.together is None:
            come = np.searchsorted(self.requests.arrivals, self.now * self.rates * (1 + 1e-12), "right")
            self.arrived = np.maximum(come, self.following)
        before = self.tokens_before[np.minimum(self.following, self.number - 1)]
        fitting = np.searchsorted(self.tokens_before, before + self.engines.chunk, "right") - 1
        room = np.ceil(self.engines.limit - self.in_flight).astype(int)
        count = np.minimum(np.minimum(self.arrived, fitting) - self.following, room)
        return np.where(reads, np.maximum(count, 1), 0)

    def _reading(self, prompts: Counts, tokens: Array, step: Array) -> tuple[Array, Array]:
        """Iterations and seconds that read prompts of so many tokens, in chunks."""
        chunks = np.maximum(1.0, np.ceil(tokens / self.engines.chunk))
        squares = self.squares_before[self.following + prompts] - self.squares_before[self.following]
        cost = _of_table(self.engines.prefill, self.rows, tokens / chunks) * chunks
        return chunks, chunks * step + cost + self.engines.pair * squares

    def _writing(self, working: Flags, step: Array, most: Array) -> tuple[Array, Array]:
        """Iterations and seconds that write, at most so many: each request in flight caches a token in each."""
        count = np.where(working, np.maximum(1.0, np.ceil(most)), 0.0)
        return count, count * step + self.engines.context * self.in_flight * count * (count - 1) / 2

    def _pass(self, iterations: Array, seconds: Array, tokens: Array) -> None:
        """Let time pass, in which so many tokens of prompts are read."""
        self.now, self.busy = self.now + seconds, self.busy + seconds
        self.iteration = self.iteration + iterations
        self.cached += self.in_flight * iterations + tokens

    def _give_first_tokens(self, prompts: Counts) -> None:
        """Note the first tokens of the prompts that were read, which are in flight from now on."""
        for place in range(int(np.max(prompts))):
            row = np.flatnonzero(prompts > place)
            request = self.following[row] + place
            self.first[row, request], self.first_iteration[row, request] = self.now[row], self.iteration[row]
            self.end[row, request] = self.iteration[row] + self.requests.answers[request] - 1
        self.in_flight, self.following = self.in_flight + prompts, self.following + prompts

    def _end_answers(self, looked_at: Counts) -> None:
        """Note the answers that have ended in some rows, and let the next requests come."""
        row, request = np.nonzero(self.end[looked_at] <= self.iteration[looked_at, None])
        row = looked_at[row]
        single = request < self.number  # in place of a bundle of those from the start
        self.end[row, request] = np.inf
        self.last[row[single], request[single]] = self.now[row[single]]
        self.last_iteration[row[single], request[single]] = self.iteration[row[single]]
        ended = np.where(single, 1.0, self.bundled[row] / BUNDLES)
        rows = len(self.rows)
        self.in_flight = np.maximum(0.0, self.in_flight - np.bincount(row, ended, rows))
        self.cached = np.maximum(0.0, self.cached - np.bincount(row, ended * self.cached_of[request], rows))
        if self.together is not None:
            self._arrive(np.bincount(row, minlength=rows))

    def _arrive(self, count: Counts) -> None:
        """Let so many requests come now in each row, as long as there are some."""
        for place in range(int(np.max(count))):
            row = np.flatnonzero((count > place) & (self.arrived + place < self.number))
            self.arrival[row, self.arrived[row] + place] = self.now[row]
        self.arrived = np.minimum(self.arrived + count, self.number)

    def times(self) -> Times:
        """Return the times, once the last prompt is read."""
        under_way = np.isnan(self.last)
        last = np.where(under_way, self.now[:, None], self.last)
        tokens = np.where(under_way, self.iteration[:, None], self.last_iteration) - self.first_iteration
        tokens = np.where(tokens >= np.clip(self.requests.answers - 1, 1, LEAST_TOKENS), tokens, np.nan)
        counted = slice(int(WARM * self.number) if self.together is None else 0, None)
        tpot = ((last - self.first) / tokens)[:, counted]
        iteration = (self.busy / np.maximum(self.iteration, 1.0))[:, None]
        tpot = np.where(np.isfinite(tpot).any(axis=1, keepdims=True), tpot, iteration)  # answers of few tokens
        ahead, reading, after = self.engines.first.T
        waited = ahead + after * np.nanmean(tpot, axis=1, where=np.isfinite(tpot))
        ttft = (reading[:, None] * (self.first - self.arrival) + waited[:, None])[:, counted]
        return Times(ttft, tpot)
