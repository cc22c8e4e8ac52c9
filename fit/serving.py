"""Constants of a server of language models, and how good its forecasts are: `python -m fit.serving`.

fit/data/serving_published.csv has published servers: time of an output token and to the first one at so many requests
at once; how InferenceX launched an engine (`waits`, `warm`) is in its repository at the date of each row.
serving_decode.csv has single users on desktop cards, Macs and CPUs. serving_tpu.csv has TPUs: the cookbook of
sgl-project/sglang-jax, AI-Hypercomputer's tpu-recipes and jetstream-pytorch (benchmarks/summary.md), and pull requests
47, 1135 and 3050 of vllm-project/tpu-inference. The factors of an iteration's classes of work are fitted by robust
least squares of log residuals; n servers of a kind weigh as much as √n. What is left is an offset of each model and
chip, and spreads that come from servers which the fit did not see.
`python -m fit` calls it; serving_page.py writes docs/reference/serving-validation.md.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from fit.fitting import DATA, read_priors, sheet
from fit.robust import Point, robust_logs
from fit.scores import each_left_out, spread_of, weights_of
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.serving.queue import FIRST, Engines, Requests, simulate
from whichdevice.forecast.serving.server import CONSTANTS, EACH_LAYER, Server, model_shape, paces
from whichdevice.models.served import WEIGHT_FORMATS, served_model
from whichdevice.study.tables.base import read_rows

PUBLISHED, DECODE, TPUS = (DATA / f"serving_{name}.csv" for name in ("published", "decode", "tpu"))
PRIOR, KERNELS = (read_priors()[name] for name in ("server", "kernels over Hopper's"))
PACE_SD = 0.15  # log spread of what a chip, an engine and a format have beside a class of work
NEW_PACE_SD = 0.6  # of those that only single users' rows are of
PULL, ROBUST = 0.4, 0.1
OLD_VLLM, OLD_SGLANG, OLD_TPU = "old vLLM", "old SGLang", "old vLLM on TPU"  # before 2026; before a rewrite for TPUs
OLD_VERSIONS = {"vllm": ("0.11", "0.12"), "sglang": ("0.5.6",)}
IDLE = 0.8  # of the power at a smaller batch
MAX_GPUS = 8  # of one machine
LEAST_USABLE = 0.9
NO_TFLOPS = 50.0  # of a device of which only the decoding of one user is asked
SHRINK = 1.0  # kinds of servers that a model's or a chip's mean is held to 0 by
RANGE = 0.9  # InferenceX draws lengths from 0.8 to 1 of the nominal ones
# Tokens of a prompt, which ML.ENERGY does not state.
PROMPTS = {"lm-arena-chat": 250, "gpqa": 250, "sourcegraph-fim": 3000, "image-chat": 1500, "video-chat": 6000}


@dataclass(frozen=True)
class Row:
    """One published server at one load."""

    source: str
    kind: str  # server (requests at once), batch (steps of decoding alone), full (load), decode, prefill
    server: Server
    published_as: str
    requests: float  # at once
    prompt: float
    answer: float
    seconds: float  # of an output token; of a prompt, where kind is prefill
    first: float | None  # seconds to the first token
    rate: float | None  # tokens a second of all answers
    era: str  # of an engine's older versions, their name; "" for 2026
    year: str = ""  # in which it was measured; "" where the source does not say
    watts: float | None = None  # of one GPU
    waits: float = 0  # iterations after which the engine looks for new requests, or has waited for more of them
    warm: bool = True  # whether requests went before those that are timed

    @property
    def model(self) -> str:
        """Return the name that is left out as one model: the sizes, as DeepSeek's V3 and R1 share theirs."""
        return model_shape(self.server.model)

    @property
    def of_images(self) -> bool:
        """Return whether the model reads images or sound, too, beside the words of the one that it is named by here."""
        return any(kind in self.published_as for kind in ("-VL-", "-Omni-"))

    @property
    def system(self) -> str:
        """The device."""
        return self.server.row.device

    @property
    def kind_of_server(self) -> tuple[object, ...]:
        """Return all that rows share but for the load and its lengths."""
        server = self.server
        how = (server.whole_attention, server.split_experts, self.era)
        return (self.source, self.model, self.system, server.count, server.weights.name, server.engine, *how)

    @property
    def engine_of_year(self) -> tuple[str, str, str]:
        """Return engine, source and year: what a server of today is new to."""
        return self.server.engine, self.source, self.year

    @property
    def dense(self) -> bool:
        """Whether every token takes all weights."""
        return not self.server.model.experts

    @cached_property
    def batch(self) -> float:
        """Requests in flight: as many as the cache has room for."""
        if self.kind != "server":
            return self.requests
        room = self.server.max_requests(self.prompt + self.answer)
        return min(self.requests, max(1.0, room * (self.server.count if self.server.whole_attention else 1)))

    @property
    def mostly_waits(self) -> bool:
        """Whether most of its requests wait for their first token, so that nobody knows how many are in flight."""
        return self.kind == "server" and (self.first or 0.0) > self.answer * self.seconds

    @property
    def tokens_rate(self) -> float:
        """Tokens of answers that the server wrote in a second, by the published times."""
        return self.requests * self.answer / ((self.first or 0.0) + self.answer * self.seconds)

    @cached_property
    def parts(self) -> Mapping[str, float]:
        """Seconds of an output token at the sheet's peaks by class: of decoding, and a share of others' prompts."""
        server, held = self.server, self.batch * (self.prompt + self.answer / 2)
        if self.kind == "prefill":
            return server.work(0.0, 0.0, self.prompt, self.prompt**2 / 2)
        decode = server.work(self.batch, held)
        if self.kind == "server":
            arrive = self.batch * self.prompt / self.answer  # tokens of prompts for each token of an answer
            chunk = min(server.chunk, max(self.prompt, arrive))
            share = arrive / chunk  # iterations that read
            alone = server.engine == "sglang"  # which reads prompts in iterations of their own
            mixed = server.work(0.0 if alone else self.batch, 0.0 if alone else held, chunk, chunk * self.prompt / 2)
            base = dict.fromkeys(decode, 0.0) if alone else decode
            decode = {name: decode[name] + share * (mixed[name] - base[name]) for name in decode}
        if self.era == OLD_VLLM and not self.dense:
            layers = float(server.model.expert_layers)
            decode = {**decode, "old expert layers": layers}
            decode |= {"old expert layers in fp8": layers} if server.weights.name == "fp8" else {}
        return {name: float(value) for name, value in decode.items() if value}

    @property
    def naive(self) -> float:
        """Seconds by the naive rule: all bytes of the active weights and the cache over the memory's rate."""
        server, context = self.server, self.batch * (self.prompt + self.answer / 2)
        nbytes = server.model.read_bytes(server.weights, self.batch)
        nbytes += context * server.model.cache_bytes_per_token(server.cache_bits)
        return nbytes / server.parts / server.peaks["bandwidth"]


def published_rows() -> list[Row]:
    """Return rows of serving_published.csv without tokens that are drafted ahead, which is another method.

    Also not those whose weights do not fit into the number of GPUs that the source names, and of several machines.
    """
    rows = []
    for line in read_rows(PUBLISHED):
        if int(line["drafts"]) or int(line["gpus"]) > MAX_GPUS:
            continue
        server = _server(line)
        if server.weights_bytes > server.usable / LEAST_USABLE:
            continue
        rows.append(_row(line, server))
    return rows


def _row(line: Mapping[str, str], server: Server) -> Row:
    """A line of serving_published.csv or serving_tpu.csv."""
    scale = RANGE if line["source"] == "InferenceX" else 1.0
    prompt, answer = (float(line[name] or 0) * scale for name in ("prompt", "answer"))
    first, rate, watts = (float(line.get(name) or 0) or None for name in ("ttft_ms", "tokens_s", "watts"))
    return Row(
        line["source"], line["kind"], server, line["published_as"], float(line["requests"] or 0),
        prompt or PROMPTS[line["task"]], answer, float(line["tpot_ms"] or 0) / 1e3, first and first / 1e3, rate,
        era_of(line), line["measured"][:4], watts, float(line.get("waits", 0)),
        line.get("warm", "1") == "1",
    )  # fmt: skip


def _server(line: Mapping[str, str]) -> Server:
    return Server(
        served_model(line["model"]), sheet()[line["device"]], int(line["gpus"]),
        WEIGHT_FORMATS[line["weights"]], int(line["cache_bits"]), line["engine"], line["whole_attention"] == "1",
        line["split_experts"] == "1",
    )  # fmt: skip


def era_of(line: Mapping[str, str]) -> str:
    """Return the name of an engine's older versions, which were slower; "" for 2026."""
    if line["device"].startswith("TPU"):
        return OLD_TPU if line["engine"] == "vllm" and "" < line["measured"] < "2025-10" else ""  # its rewrite
    old = line["version"].startswith(OLD_VERSIONS.get(line["engine"], "none")) or "" < line["measured"] < "2026"
    if line["source"] == "ML.ENERGY" or (line["engine"] == "vllm" and old):
        return OLD_VLLM
    return OLD_SGLANG if line["engine"] == "sglang" and old else ""


def paces_of(name: str, row: Row) -> tuple[str, ...]:
    """Return the names of the factors that a class of work of a row has beside its own: of its server and its era."""
    known = paces(name, row.server)
    if not row.era:
        return known
    if row.era == OLD_TPU:
        return (*known, OLD_TPU)
    if name in EACH_LAYER:
        return (*known, f"{row.era}, layers")
    if name in ("experts", "slices", "expert products"):
        return (*known, f"{row.era}, experts")
    return (*known, f"{row.era}, collectives") if name.startswith("collective") else known


def waits_for_host(rows: Sequence[Row]) -> np.ndarray:
    """Return which rows are of GPUs that wait for their host: they draw far less power than at a smaller batch."""
    most: dict[tuple[object, ...], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        if row.watts:
            most[row.kind_of_server].append((row.requests, row.watts))
    waits = np.zeros(len(rows), dtype=bool)
    for place, row in enumerate(rows):
        if row.watts:
            smaller = max(watts for requests, watts in most[row.kind_of_server] if requests <= row.requests + 0.5)
            waits[place] = row.watts < IDLE * smaller
    return waits


def decode_rows() -> list[Row]:
    """Return single users of serving_decode.csv whose weights fit."""
    rows = []
    for line in read_rows(DECODE):
        row = sheet().get(line["device"]) or _row_of(line)
        server = Server(
            served_model(line["model"]), row, int(line["count"]), WEIGHT_FORMATS[line["weights"]], 16, line["engine"]
        )
        if server.memory()["cache"] <= 0:
            continue
        prefill, rate = line["kind"] == "prefill", float(line["tokens_s"])
        context = 1024.0 if prefill else float(line["context"])
        seconds = context / rate if prefill else 1 / rate
        rows.append(
            Row(
                line["source"], line["kind"], server, line["published_as"], 1.0, context, 0.0, seconds, None, None, ""
            )
        )  # fmt: skip
    return rows


def tpu_rows() -> list[Row]:
    """Return servers of serving_tpu.csv: of those that say their tokens a second, the requests that were in flight."""
    rows = []
    for line in read_rows(TPUS):
        row = _row(line, _server(line))
        requests = (row.rate or 0.0) * row.seconds if row.kind == "server" else row.requests
        rows.append(replace(row, requests=requests))
    return rows


def _row_of(line: Mapping[str, str]) -> HardwareRow:
    """A device that the hardware sheet does not have: its memory is known here."""
    return HardwareRow(
        device=line["device"], kind="cpu" if line["capability"] == "cpu" else "gpu", mem_gb=float(line["memory_gb"]),
        mem_bw_gbs=float(line["memory_gbs"]), fp32_tflops=NO_TFLOPS, half_dense_tflops=NO_TFLOPS,
        compute_capability=line["capability"] if line["capability"] not in ("", "cpu") else None,
    )  # fmt: skip


@dataclass(frozen=True)
class Design:
    """Seconds at the peaks of some rows by class and its paces: what a fit needs."""

    names: tuple[str, ...]
    at_peaks: np.ndarray  # [rows, kinds of work]
    powers: np.ndarray  # [kinds of work, names]: which factors multiply it
    measured: np.ndarray  # [rows]: log seconds
    weight: np.ndarray  # [rows]
    centre: np.ndarray  # [names]: log of where each factor starts

    @classmethod
    def of(cls, rows: Sequence[Row], start: Mapping[str, float] | None = None) -> "Design":
        """Return that of these rows; factors start where `start` says, else where PRIOR does."""
        kinds: dict[tuple[str, ...], int] = {}
        entries = []
        for place, row in enumerate(rows):
            for name, seconds in row.parts.items():
                kind = (name, *paces_of(name, row))
                entries.append((place, kinds.setdefault(kind, len(kinds)), seconds))
        names = [*PRIOR, *sorted({pace for kind in kinds for pace in kind[1:]})]
        at_peaks = np.zeros((len(rows), len(kinds)))
        for place, column, seconds in entries:
            at_peaks[place, column] += seconds
        powers = np.zeros((len(kinds), len(names)))
        for kind, column in kinds.items():
            for name in kind:
                powers[column, names.index(name)] = 1.0
        weight = weights_of(row.kind_of_server for row in rows) ** 0.5
        usual = {name: factor for name, (factor, _) in PRIOR.items()} | dict(start or {})
        centre = np.log([usual.get(name, 1.0) for name in names])
        return cls(tuple(names), at_peaks, powers, np.log([row.seconds for row in rows]), weight, centre)

    def parts(self, logs: np.ndarray) -> np.ndarray:
        """Return seconds by kind of work [rows, kinds]."""
        return np.asarray(self.at_peaks * np.exp(self.powers @ logs))

    def forecast(self, logs: np.ndarray) -> np.ndarray:
        """Return log seconds [rows]."""
        return np.asarray(np.log(self.parts(logs).sum(axis=1)))

    def fit(self, chosen: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
        """Return logs of the factors from the chosen rows: robust least squares of log residuals, held to a prior."""
        centre = self.centre
        spread = np.array([PRIOR[name][1] if name in PRIOR else _pace_sd(name) for name in self.names])
        its = replace(self, at_peaks=self.at_peaks[chosen], measured=self.measured[chosen])
        weight, hold = 4 * self.weight[chosen], PULL / spread**2
        logs = centre if start is None else start

        def at(logs: np.ndarray) -> Point:
            parts = its.parts(logs)
            seconds = parts.sum(axis=1)
            return np.log(seconds), (parts / seconds[:, None]) @ its.powers

        return robust_logs(at, its.measured, weight, ROBUST, hold, centre, logs, 60 if start is None else 15)


def _pace_sd(name: str) -> float:
    return NEW_PACE_SD if name.endswith(("of llama.cpp", *FEW_ROWS)) else PACE_SD


FEW_ROWS = (
    "TPU", "jetstream", "Ada", "Ampere", "Ampere RTX", "Turing", "Pascal", "Apple", "CPU", "RDNA", "Blackwell RTX",
    "other",
)  # fmt: skip


@dataclass(frozen=True)
class Offsets:
    """The offsets of models and chips beside the factors (log), and how many kinds of servers say so."""

    models: Mapping[str, float]
    chips: Mapping[str, float]

    def of(self, row: Row) -> float:
        """Return the offset of a row."""
        return self.models.get(row.model, 0.0) + self.chips.get(row.system, 0.0)


def offsets(rows: Sequence[Row], logs: np.ndarray) -> Offsets:
    """Return shrunk means of models and chips: `logs` are of measured over forecast seconds."""
    by_kind: dict[tuple[object, ...], list[float]] = defaultdict(list)
    first: dict[tuple[object, ...], Row] = {}
    for row, log in zip(rows, logs, strict=True):
        by_kind[row.kind_of_server].append(float(log))
        first.setdefault(row.kind_of_server, row)
    middle = {kind: float(np.median(found)) for kind, found in by_kind.items()}
    models: dict[str, float] = {}
    chips: dict[str, float] = {}
    for _ in range(10):
        models = _shrunk((first[kind].model, log - chips.get(first[kind].system, 0.0)) for kind, log in middle.items())
        chips = _shrunk((first[kind].system, log - models.get(first[kind].model, 0.0)) for kind, log in middle.items())
    return Offsets(models, chips)


def _shrunk(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_name: dict[str, list[float]] = defaultdict(list)
    for name, log in pairs:
        by_name[name].append(log)
    return {name: len(logs) / (len(logs) + SHRINK) * float(np.median(logs)) for name, logs in by_name.items()}


@dataclass(frozen=True)
class Fitted:
    """Rows of one kind of engine with their fit, and by what was left out the log of measured over forecast seconds."""

    rows: Sequence[Row]
    design: Design
    logs: np.ndarray
    known: Offsets
    missed: Mapping[str, np.ndarray]

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        groups: Mapping[str, Callable[[Row], object]],
        start: Mapping[str, float] | None = None,
    ) -> "Fitted":
        """Return the fit, with each group left out in turn."""
        design = Design.of(rows, start)
        logs = design.fit(np.ones(len(rows), dtype=bool))
        known = offsets(rows, design.measured - design.forecast(logs))

        def missed(out: np.ndarray) -> np.ndarray:
            misses = design.measured - design.forecast(design.fit(~out, logs))
            others = offsets([row for row, is_out in zip(rows, out, strict=True) if not is_out], misses[~out])
            misses[out] -= np.array([others.of(row) for row, is_out in zip(rows, out, strict=True) if is_out])
            return misses

        left_out = {name: each_left_out([group(row) for row in rows], missed) for name, group in groups.items()}
        return cls(rows, design, logs, known, left_out)

    @property
    def factors(self) -> dict[str, float]:
        """The factors by name."""
        return {name: math.exp(log) for name, log in zip(self.design.names, self.logs, strict=True)}

    def chosen(self, which: Callable[[Row], bool]) -> np.ndarray:
        """Return whether rows are such ones."""
        return np.array([which(row) for row in self.rows])

    def constants(self, first: Mapping[str, Mapping[str, float]], new: str = "engine of a year") -> dict[str, Any]:
        """Return what the package reads; `first` is what a first token takes, by engine.

        A server of a known model and chip is missed by as much as the groups `new`, each of one weight, when they are
        left out: a user's engine is newer than all of them. A model is known by rows of it on an engine.
        """
        dense = self.chosen(lambda row: row.dense)
        kinds = {"dense": dense, "experts": ~dense}
        groups = np.array([str(GROUPS[new](row)) for row in self.rows])
        rest = {kind: spread_of(self.missed[new][its], weights_of(groups[its])) for kind, its in kinds.items()}
        known = {kind: spread_of(self.missed["server"][its]) for kind, its in kinds.items()}
        more = {kind: _beside(self.missed["model"][its], known[kind]) for kind, its in kinds.items()}
        whole = spread_of(self.missed["server"])
        chip, generation = (_beside(self.missed[name], whole) for name in ("system", "generation"))
        factors = {name: factor for name, factor in self.factors.items() if not name.startswith("old ")}
        return {
            "factors": factors,
            "first token": dict(first),
            "models": dict(sorted(self.known.models.items())),
            "known": sorted({f"{row.model} on {row.server.engine}" for row in self.rows if not row.of_images}),
            "chips": {name: self.known.chips[name] for name in sorted(self.known.chips) if name in sheet()},
            "generations": sorted({row.server.generation for row in self.rows}),
            "engines": sorted({row.server.engine for row in self.rows}),
            "sd": {
                "rest": rest,
                "first token": 0.0,  # beside the rest, of the first token alone
                "unseen model": more,
                "unseen chip": chip,
                "unseen generation": max(chip, generation),
            },
        }


def _beside(missed: np.ndarray, rest: float) -> float:
    """Return the spread that a group which was left out has beside the rest."""
    return math.sqrt(max(spread_of(missed) ** 2 - rest**2, LEAST_SD**2))


LEAST_SD = 0.03
GROUPS: Mapping[str, Callable[[Row], object]] = {
    "model": lambda row: row.model,
    "system": lambda row: row.system,
    "source": lambda row: row.source,
    "generation": lambda row: row.server.generation,
    "server": lambda row: (row.model, row.system, row.server.count, row.server.weights.name, row.server.engine),
    "engine of a year": lambda row: row.engine_of_year,
}


# The time to the first token


@dataclass(frozen=True)
class FirstTokens:
    """Published times to the first token at loads below LOW of full, and what a simulated queue says of them."""

    rows: Sequence[Row]
    simulated: np.ndarray  # seconds from arrival to the first token, on average
    token: np.ndarray  # seconds from token to token
    more: np.ndarray  # [rows, 2] iterations of waiting, and whether it is cold

    @classmethod
    def of(cls, rows: Sequence[Row], constants: Mapping[str, Any]) -> "FirstTokens":
        """Simulate each server with as many requests under way as its source had."""
        some = [row for row in rows if row.kind == "server" and row.first and row.requests <= MOST_REQUESTS]
        alike: dict[tuple[float, float, int], list[Row]] = defaultdict(list)
        for row in some:
            alike[row.prompt, row.answer, math.ceil(math.log2(row.requests + 1))].append(row)
        kept: list[Row] = []
        columns: list[tuple[float, ...]] = []
        for (prompt, answer, doublings), its in alike.items():
            number = min(MOST_SIMULATED, 10 * 2**doublings)
            spread = np.random.default_rng(0).uniform(0.8 / RANGE, 1 / RANGE, (2, number))
            requests = Requests(prompt * spread[0], answer * spread[1], np.zeros(number))
            servers = [replace(row.server, constants=constants) for row in its]
            engines = Engines.of(servers, requests.tokens)
            full = engines.full_rate(requests)
            times = simulate(engines, np.ones(len(its)), requests, np.array([row.requests for row in its]))
            first, token = np.nanmean(times.first, axis=1), np.nanmedian(times.next, axis=1)
            for place, row in enumerate(its):
                rate = row.requests / ((row.first or 0.0) + row.answer * row.seconds)
                if rate <= LOW * full[place]:
                    kept.append(row)
                    more = (row.waits, float(not row.warm))
                    columns.append((first[place], float(token[place]), *more))
        table = np.array(columns)
        return cls(kept, *table[:, :2].T, table[:, 2:])

    @property
    def measured(self) -> np.ndarray:
        """Seconds to the first token."""
        return np.array([row.first or math.nan for row in self.rows])

    def fit(self, chosen: np.ndarray) -> np.ndarray:
        """Return logs of seconds, times its reading and tokens after it, from the chosen rows.

        Then of the share of the iterations of waiting, and the seconds of a cold start.
        """
        start = np.log([0.05, 1.3, 2.0, 0.6, 0.02])  # a guess, of the weight of a row each

        def misses(logs: np.ndarray) -> np.ndarray:
            return np.concatenate([(self.forecast(logs) - np.log(self.measured))[chosen], logs - start])

        return np.asarray(least_squares(misses, start, loss="soft_l1", f_scale=0.2).x)

    def forecast(self, logs: np.ndarray) -> np.ndarray:
        """Return log seconds to the first token [rows]."""
        seconds, reading, tokens, waits, cold = np.exp(logs)
        iterations, is_cold = self.more.T
        after = tokens + waits * iterations
        return np.asarray(np.log(seconds + reading * self.simulated + after * self.token + cold * is_cold))

    @property
    def kinds(self) -> np.ndarray:
        """Engine and source of each row: they share what a first token takes."""
        return np.array([f"{row.server.engine}, {row.source}" for row in self.rows])

    def constants(self) -> dict[str, dict[str, float]]:
        """Return what a first token takes, by engine and source, of a server as it is started by default."""
        kinds, found = self.kinds, {}
        for kind in sorted(set(kinds)):
            seconds, reading, tokens, waits, _ = map(float, np.exp(self.fit(kinds == kind)))
            looks = float(kind.startswith("sglang"))  # after each iteration, by its default
            found[kind] = dict(zip(FIRST, (seconds, reading, tokens + looks * waits), strict=True))
        return found

    def left_out(self, group: Callable[[Row], object]) -> np.ndarray:
        """Return log of measured over forecast seconds, each group left out of what a first token takes."""
        kinds = self.kinds

        def missed(out: np.ndarray) -> np.ndarray:
            logs = np.zeros(len(kinds))
            for kind in set(kinds[out]):
                its, others = out & (kinds == kind), ~out & (kinds == kind)
                alike = ~out & np.char.startswith(kinds, kind.partition(",")[0])  # of the engine by other sources
                forecast = self.forecast(self.fit(others if others.any() else alike))
                logs[its] = (np.log(self.measured) - forecast)[its]
            return logs

        return each_left_out([group(row) for row in self.rows], missed)


LOW, MOST_REQUESTS, MOST_SIMULATED = 0.75, 512, 1000
FIRST_TOKENS = {"vllm": "vllm, InferenceX", "sglang": "sglang, InferenceX", "trtllm": "trtllm, InferenceX"}


def main() -> None:
    """Fit, write constants and the page."""
    from fit.serving_page import write_page

    every = published_rows()
    waits = waits_for_host(every)
    left_out = {"waits": waits, "queues": np.array([row.mostly_waits for row in every])}
    without = np.any(list(left_out.values()), axis=0)
    rows = [row for row, out in zip(every, without, strict=True) if row.kind in ("server", "batch") and not out]
    servers = Fitted.of(rows, GROUPS)
    alone = [row for row in decode_rows() if row.kind == "decode" or row.server.count == 1]
    single = Fitted.of(alone, GROUPS)
    nothing = {"seconds": 0.0, "reading": 1.0, "tokens": 1.0}
    constants = {"servers": servers.constants({"other": {"seconds": 0.0, "reading": 1.0, "tokens": 0.0}})}
    factors = constants["servers"]["factors"]
    for name, (times, _) in KERNELS.items():
        factors[name] = times * factors[f"{name.partition(' of ')[0]} of Hopper"]
    first = FirstTokens.of(rows, constants)
    found = first.constants()
    by_engine = {engine: found[kind] for engine, kind in FIRST_TOKENS.items()}
    by_engine["other"] = by_engine["vllm"]
    constants["servers"]["first token"] = by_engine
    spread = constants["servers"]["sd"]
    missed = first.left_out(GROUPS["engine of a year"])
    spread["first token"] = math.sqrt(max(spread_of(missed) ** 2 - max(spread["rest"].values()) ** 2, 0.0))
    constants["llama.cpp"] = single.constants({"other": nothing}, new="server")
    tpus = Fitted.of(tpu_rows(), GROUPS, servers.factors)
    constants["tpu"] = tpus.constants(by_engine, new="source")  # few sources: a user's server is of a new one
    constants["tpu"]["sd"]["first token"] = spread["first token"]  # nothing published tests it
    write_json(constants, CONSTANTS)
    write_page(servers, single, tpus, first, every, {name: int(its.sum()) for name, its in left_out.items()})


def write_json(document: Mapping[str, Any], path: Path) -> None:
    """Write constants, rounded."""
    rounded = json.loads(json.dumps(document), parse_float=lambda text: float(f"{float(text):.5g}"))
    path.write_text(json.dumps(rounded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
