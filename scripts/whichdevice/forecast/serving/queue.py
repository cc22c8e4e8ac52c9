"""Requests that arrive at a server, read and answered together: when each gets its first token and the next ones.

    requests = Requests.drawn(300, prompt=1000, answer=300)
    times = simulate(engines, rates, requests)      # many servers and rates at once, each a row
    times.ttft["p90"], times.tpot["p50"], times.utilisation

Continuous batching: an iteration gives one token to each request in flight and reads the next prompts, up to a chunk of
tokens. A request waits until the cache has room for its prompt and answer. The simulation goes from event to event
(a prompt is read, an answer ends, a request arrives) for all rows together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whichdevice.forecast.serving.server import Server

Array = npt.NDArray[np.float64]
FIRST = ("seconds", "reading", "tokens")
PERCENTILES = {"p50": 50, "p90": 90, "p99": 99}
WARM = 0.1  # share of requests at the beginning that are not counted
LEAST_REQUESTS = 60  # of a log
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

    @classmethod
    def logged(
        cls, number: int, arrivals: Sequence[float], prompts: Sequence[float], answers: Sequence[float]
    ) -> Requests:
        """Return so many requests of a log in a row, where they came most closely; the log's mean is one a second."""
        times = np.asarray(arrivals, dtype=float)
        times = (times - times[0]) * (len(times) - 1) / (times[-1] - times[0])
        again = -(-LEAST_REQUESTS // len(times))  # a short log is repeated
        span = times[-1] + 1
        times = np.concatenate([times + span * turn for turn in range(again)])
        lengths = [np.tile(np.asarray(given, dtype=float), again) for given in (prompts, answers)]
        number = min(number, len(times))
        start = int(np.argmin(times[number - 1 :] - times[: len(times) - number + 1]))
        part = slice(start, start + number)
        read, written = (np.maximum(1.0, given[part]) for given in lengths)
        return cls(read, written, times[part] - times[start])

    @property
    def rate(self) -> float:
        """Requests a second in these; of a log's, more than one."""
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
        """Return those of servers whose requests have so many tokens, prompt and answer, on average."""
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
    """The waiting of each row's requests, in seconds by percentile, and the work of the server."""

    ttft: dict[str, Array]
    tpot: dict[str, Array]
    utilisation: Array  # share of the time with an iteration running
    throughput: Array  # requests a second that were answered
    batch: Array  # requests in flight, on average over the busy time
    mean_ttft: Array


def _of_table(table: Array, rows: npt.NDArray[np.int64], tokens: Array) -> Array:
    """Return the seconds of so many tokens in each row, between those of the table's sizes."""
    place = np.clip(np.searchsorted(SIZES, tokens, "right") - 1, 0, len(SIZES) - 2)
    low, high = SIZES[place], SIZES[place + 1]
    share = np.clip((tokens - low) / (high - low), 0.0, None)
    values: Array = table[rows, place] * (1 - share) + table[rows, place + 1] * share
    return values


def simulate(engines: Engines, rates: Array, requests: Requests, together: Array | None = None) -> Times:
    """Return the times of the requests at each row's rate, in requests a second.

    With `together`, so many requests of a row are always under way: the next one comes when an answer ends.
    """
    queue = _Queue(engines, rates, requests, together)
    while (active := queue.head < queue.number).any():
        queue.iterate(active)
    return queue.times()


class _Queue:
    """Servers at work on the same requests: each array has a row for each server."""

    def __init__(self, engines: Engines, rates: Array, requests: Requests, together: Array | None) -> None:
        self.engines, self.rates, self.requests, self.together = engines, rates, requests, together
        self.number, rows = len(requests.prompts), len(engines.limit)
        self.rows = np.arange(rows)
        self.read = np.concatenate([[0.0], np.cumsum(requests.prompts)])
        self.squares = np.concatenate([[0.0], np.cumsum(requests.prompts**2)])
        if together is None:
            self.arrival = requests.arrivals / rates[:, None]
            self.came = np.zeros(rows, dtype=int)
        else:
            self.came = np.minimum(together, self.number).astype(int)
            self.arrival = np.where(np.arange(self.number) < self.came[:, None], 0.0, np.inf)
        # In flight from the start, in BUNDLES that end one after the other: the server has been at work for long.
        lengths, answer = requests.prompts + requests.answers, requests.answers.mean()
        self.bundled = engines.in_flight(requests, rates * requests.rate) if together is None else np.zeros(rows)
        self.flying = self.bundled.copy()
        self.held = self.bundled * lengths.mean() - self.bundled * answer / 2  # tokens of cache
        self.held_by = np.concatenate([lengths, np.full(BUNDLES, lengths.mean())])
        self.ends = np.full((rows, self.number + BUNDLES), np.inf)  # iterations after which each answer ends
        left = answer * (np.arange(BUNDLES) + 0.5) / BUNDLES
        self.ends[:, self.number :] = np.where(self.bundled[:, None] > 0, left, np.inf)
        self.head = np.zeros(rows, dtype=int)  # the next request that is read
        self.now, self.done, self.busy, self.batch_seconds = (np.zeros(rows) for _ in range(4))
        self.first, self.last, self.begun, self.written = (np.full((rows, self.number), np.nan) for _ in range(4))

    def iterate(self, active: npt.NDArray[np.bool_]) -> None:
        """Let each server read the prompts that wait, or write until an answer ends or the next request comes."""
        arrives = self.arrival[self.rows, np.minimum(self.head, self.number - 1)]
        reads = active & (self.flying < self.engines.limit) & ((arrives <= self.now) | (self.flying < 1e-9))
        self.now = np.where(reads, np.maximum(self.now, arrives), self.now)  # an idle server waits
        group = self._group(reads)
        after = self.head + group
        tokens = self.read[after] - self.read[self.head]
        step = (
            _of_table(self.engines.decode, self.rows, np.maximum(self.flying, 1.0)) + self.engines.context * self.held
        )
        parts = np.maximum(1.0, np.ceil(tokens / self.engines.chunk))
        cost = _of_table(self.engines.prefill, self.rows, tokens / parts) * parts
        reading = parts * step + cost + self.engines.pair * (self.squares[after] - self.squares[self.head])
        soonest = self.ends.min(axis=1)
        until = np.where(self.flying < self.engines.limit, np.ceil((arrives - self.now) / step), np.inf)
        count = np.where(active, np.maximum(1.0, np.ceil(np.minimum(soonest - self.done, until))), 0.0)
        writing = count * step + self.engines.context * self.flying * count * (count - 1) / 2
        count, seconds = np.where(reads, parts, count), np.where(reads, reading, writing)
        self.now, self.busy, self.done = self.now + seconds, self.busy + seconds, self.done + count
        self.batch_seconds += seconds * self.flying
        self.held += self.flying * count + tokens
        self._begin(group)
        self._end(np.flatnonzero(active & (np.where(reads, 0.0, soonest) <= self.done)))

    def _group(self, reads: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
        """How many prompts are read: as many as have come, as fit in a chunk, and as the cache has room for."""
        if self.together is None:
            come = np.searchsorted(self.requests.arrivals, self.now * self.rates * (1 + 1e-12), "right")
            self.came = np.maximum(come, self.head)
        at = np.minimum(self.head, self.number - 1)
        fitting = np.searchsorted(self.read, self.read[at] + self.engines.chunk, "right") - 1
        room = np.ceil(self.engines.limit - self.flying).astype(int)
        return np.where(reads, np.maximum(np.minimum(np.minimum(self.came, fitting) - self.head, room), 1), 0)

    def _begin(self, group: npt.NDArray[np.int64]) -> None:
        """Note the first tokens of the prompts that were read."""
        for place in range(int(group.max())):
            row = np.flatnonzero(group > place)
            asked = self.head[row] + place
            self.first[row, asked], self.begun[row, asked] = self.now[row], self.done[row]
            self.ends[row, asked] = self.done[row] + self.requests.answers[asked] - 1
        self.flying, self.head = self.flying + group, self.head + group

    def _end(self, row: npt.NDArray[np.int64]) -> None:
        """Note the answers that have ended in these rows, and let the next requests come."""
        ended, which = np.nonzero(self.ends[row] <= self.done[row, None])
        ended = row[ended]
        one = which < self.number
        self.ends[ended, which] = np.inf
        self.last[ended[one], which[one]] = self.now[ended[one]]
        self.written[ended[one], which[one]] = self.done[ended[one]]
        gone = np.where(one, 1.0, self.bundled[ended] / BUNDLES)
        rows = len(self.rows)
        self.flying = np.maximum(0.0, self.flying - np.bincount(ended, gone, rows))
        self.held = np.maximum(0.0, self.held - np.bincount(ended, gone * self.held_by[which], rows))
        if self.together is not None:
            following = np.bincount(ended, minlength=rows)
            for place in range(int(following.max())):
                row = np.flatnonzero((following > place) & (self.came + place < self.number))
                self.arrival[row, self.came[row] + place] = self.now[row]
            self.came = np.minimum(self.came + following, self.number)

    def times(self) -> Times:
        """Return the times, once the last prompt is read."""
        answers = self.requests.answers
        under_way = np.isnan(self.last)
        last = np.where(under_way, self.now[:, None], self.last)
        tokens = np.where(under_way, self.done[:, None], self.written) - self.begun
        tokens = np.where(tokens >= np.clip(answers - 1, 1, LEAST_TOKENS), tokens, np.nan)
        counted = slice(int(WARM * self.number) if self.together is None else 0, None)
        tpot = ((last - self.first) / tokens)[:, counted]
        iteration = (self.busy / np.maximum(self.done, 1.0))[:, None]
        tpot = np.where(np.isfinite(tpot).any(axis=1, keepdims=True), tpot, iteration)  # answers of few tokens
        ahead, reading, after = self.engines.first.T
        waited = ahead + after * np.nanmean(tpot, axis=1, where=np.isfinite(tpot))
        ttft = (reading[:, None] * (self.first - self.arrival) + waited[:, None])[:, counted]
        return Times(
            _percentiles(ttft),
            _percentiles(tpot),
            self.busy / np.maximum(self.now, 1e-12),
            self.number / np.maximum(self.now, 1e-12),
            self.batch_seconds / np.maximum(self.busy, 1e-12),
            np.nanmean(ttft, axis=1),
        )


def _percentiles(values: Array) -> dict[str, Array]:
    """Return percentiles of each row, without values that are none."""
    return {name: np.nanpercentile(values, share, axis=1) for name, share in PERCENTILES.items()}
