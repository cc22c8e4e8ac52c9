"""A language model on devices of one machine: what fits beside its weights, and how long one iteration takes.

    server = Server(served_model("meta-llama/Llama-3.1-8B"), hardware_rows()["L40S"], 2, WEIGHT_FORMATS["fp8"])
    server.memory()["cache"], server.max_requests(1300), server.max_context
    server.seconds(requests=16, context=16 * 1000)           # one token for each of 16 requests
    server.seconds(requests=16, context=16 * 1000, prefill=2048, pairs=2048**2 / 2)

An iteration decodes a token of each request in flight and reads a chunk of prompts. It takes the sum over classes of
work of the seconds at the sheet's peaks, each times a factor that is fitted to published servers (fit/serving.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.files import json_of
from whichdevice.base.sheets.hardware import UNIFIED, HardwareRow
from whichdevice.base.sheets.tpus import CHIPS, devices_of
from whichdevice.forecast.time_model import MAX_PCIE, Peaks
from whichdevice.models.served import STATE_BYTES, WEIGHT_FORMATS, ServedModel, WeightFormat

CONSTANTS = Path(__file__).with_name("constants.json")
CHUNK = 8192  # tokens of prompts in one iteration at most: vLLM's default on data-centre GPUs
SMALL_CHUNK = 2048  # and on others
LARGE_MEMORY = 70 * 2**30
# Of the memory, by default.
USABLE = {"vllm": 0.92, "sglang": 0.9, "trtllm": 0.9, "llama.cpp": 0.95}
# What a version of an engine may take less of the memory, and holds besides on a GPU: graphs, fragments, buffers.
SPARE, BESIDE_BYTES = 0.02, 0.7e9
CONTEXT_BYTES = 0.6 * 2**30  # CUDA's context, its graphs and the library of collectives
MAX_REQUESTS = {
    "vllm": 1024,
    "sglang": 1024,
    "jetstream": 1024,
    "trtllm": 2048,
    "llama.cpp": 64,
}  # at once, by the engine's default
TILE = 128  # tokens of a prompt that read the cache together
HEAD = 128  # values of a head, of which each pair of tokens of a prompt takes products
WIDTH = 4096  # of a usual model
# Of a PCIe link's rate, what an all-reduce of so many GPUs reaches: measured on an RTX PRO 6000 and on an L40S, whose
# GPUs do not reach each other's memory (ai-dynamo/aiconfigurator, collectives of NCCL).
PEERS, NO_PEERS = {1: 1.0, 2: 0.58, 4: 0.4, 8: 0.38}, {1: 1.0, 2: 0.62, 4: 0.16, 8: 0.05}
SAME_FORMAT = {"awq": "gptq"}
FEW_BITS = {"nvfp4": "fp4", "mxfp4": "fp4"}  # whose kernels of experts are the same
CLASSES = (
    "weights", "experts", "slices", "cache", "products", "expert products", "attention", "activations",
    "layers", "layer widths", "expert layers", "latent layers", "state layers", "routing",
    "step", "requests", "request layers", "collectives", "collective bytes", "PCIe collectives", "PCIe bytes",
)  # fmt: skip
EACH_LAYER = (*(name for name in CLASSES if name.endswith("layers")), "layer widths", "routing", "step", "requests")
MEMORY = ("weights", "experts", "slices", "cache", "activations")
SLICE = 128  # columns of an expert's matrix: what a narrow part of it takes beside its own bytes
UNEVEN = 0.5  # of what the busiest of several devices would have more than the mean, were experts drawn evenly
# Operations a second over the rate in 16 bits, where the chip has products in the format.
FASTER = {
    "fp8": {"Ada": 2, "Hopper": 2, "Blackwell": 2, "Blackwell RTX": 2, "CDNA": 2},
    "int8": dict.fromkeys(("Turing", "Ampere", "Ampere RTX", "Ada", "Hopper", "Blackwell", "Blackwell RTX", "CDNA"), 2),
    "fp4": {"Blackwell": 4, "Blackwell RTX": 4},
}  # fmt: skip
PEAKS_OF_PRODUCTS = {"8-bit floats": "fp8", "8-bit integers": "int8", "4-bit floats": "fp4"}
FP4_TOO = ("MI355X",)
NO_FP8 = ("MI100", "MI210", "MI250")


def memory_of(row: HardwareRow) -> float:
    """Return bytes of memory of one device."""
    return float(row.mem_bytes or (row.mem_gb or 0.0) * 2**30 / (devices_of(row.device) if row.kind == "tpu" else 1))


def speed_up(weights: WeightFormat, row: HardwareRow) -> tuple[str, float]:
    """Return the number format that products are made in, and how much faster they are than in 16 bits."""
    name = PEAKS_OF_PRODUCTS.get(weights.operations, "half")
    if weights.name == "mxfp4" and row.generation == "Blackwell":  # whose kernels take activations of 8 bits
        name = "fp8"
    if row.device.startswith(NO_FP8):
        return "half", 1.0
    if name == "fp4" and row.device in FP4_TOO:
        return name, 4.0
    times = FASTER.get(name, {}).get(row.generation, 1.0)
    return (name, times) if times > 1 else ("half", 1.0)


@dataclass(frozen=True)
class Server:
    """One model on `count` devices of one machine, each with a part of every layer."""

    model: ServedModel
    row: HardwareRow
    count: int = 1
    weights: WeightFormat = WEIGHT_FORMATS["bf16"]
    cache_bits: int = 16
    engine: str = "vllm"
    whole_attention: bool = False  # each device keeps all of attention, for its part of the requests
    split_experts: bool = False  # each device keeps some experts whole, in place of a part of each
    constants: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)  # None: the package's

    @property
    def parts(self) -> int:
        """Return into how many parts a layer is split; llama.cpp gives each device some layers, one after the other."""
        return 1 if self.engine == "llama.cpp" else self.count

    @property
    def generation(self) -> str:
        """The family of the chip."""
        return self.row.generation

    # Memory

    @cached_property
    def usable(self) -> float:
        """Bytes of one device that the engine takes."""
        memory = memory_of(self.row)
        if self.row.kind == "tpu" and self.row.device in CHIPS:
            return CHIPS[self.row.device].available * 2**30
        if self.row.kind == "cpu":
            return 0.85 * memory
        return memory * (UNIFIED if self.row.kind == "unified" else USABLE[self.engine])

    @cached_property
    def weights_bytes(self) -> float:
        """Bytes of weights of one device."""
        return self.model.weights_bytes(self.weights) / self.count

    @cached_property
    def workspace(self) -> float:
        """Bytes of one device for activations of a chunk of prompts, and for the engine itself."""
        widest = max(self.model.ffn, self.model.experts_per_token * self.model.expert_ffn + self.model.shared_ffn)
        values = self.chunk * (4 * self.model.hidden + 2 * widest / self.count)
        return CONTEXT_BYTES * (self.row.kind == "gpu") + 2 * values + 4 * self.model.vocabulary * 256

    @property
    def chunk(self) -> int:
        """Tokens of prompts in one iteration at most."""
        return CHUNK if memory_of(self.row) >= LARGE_MEMORY else SMALL_CHUNK

    @property
    def cache_parts(self) -> float:
        """Return into how many parts a request's cache is split: at most as many as it has heads."""
        if self.whole_attention:
            return self.parts  # of the requests
        return 1 if self.model.latent else min(self.parts, self.model.kv_heads)

    def cache_of(self, context: float) -> float:
        """Bytes of cache of one device for one request of so many tokens."""
        parts = self.count if self.engine == "llama.cpp" else self.cache_parts
        return self.model.cache_bytes(context, self.cache_bits) / parts

    def memory(self) -> dict[str, float]:
        """Bytes of one device by part: `weights`, `workspace`, and what is left for the `cache` (below 0: no fit)."""
        parts = {"weights": self.weights_bytes, "workspace": self.workspace}
        return parts | {"cache": self.usable - sum(parts.values())}

    @property
    def fits(self) -> bool:
        """Whether one request of a thousand tokens fits."""
        return self.max_requests(1000) >= 1

    def max_requests(self, tokens: float) -> int:
        """Return how many requests of so many tokens, prompt and answer, are in the cache at once."""
        room, needed = self.memory()["cache"], self.cache_of(tokens)
        return int(max(0, min(room / needed if needed else np.inf, MAX_REQUESTS[self.engine])))

    @property
    def max_context(self) -> int:
        """The most tokens of one request whose cache surely fits."""
        low, high = 0, 1 << 24
        spare = SPARE * memory_of(self.row) + BESIDE_BYTES
        room = self.memory()["cache"] - spare * (self.row.kind == "gpu" and self.engine != "llama.cpp")
        if self.cache_of(high) <= room:
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.cache_of(middle) <= room else (low, middle)
        return low

    # Time

    @cached_property
    def peaks(self) -> Mapping[str, float]:
        """Operations, bytes of memory and of the link in a second of one device, by the sheet."""
        row = self.row
        if row.kind in ("cpu", "unified") or not row.half_dense_tflops:
            half = (row.half_dense_tflops or 2 * (row.fp32_tflops or 1.0)) * 1e12
            return {"half": half, "bandwidth": (row.mem_bw_gbs or 1.0) * 1e9, "link": (row.link_gbs or 16.0) * 1e9}
        peaks = Peaks.of(row)
        link = peaks.link
        if self.over_pcie:
            shares = NO_PEERS if peaks.through_host else PEERS
            link *= shares[max(number for number in shares if number <= self.parts)]
        return {"half": peaks.operations["half"], "bandwidth": peaks.bandwidth, "link": link}

    @property
    def over_pcie(self) -> bool:
        """Whether its GPUs have no links of their own."""
        return self.row.kind == "gpu" and (self.row.link_gbs or 32.0) * 1e9 <= MAX_PCIE

    def seconds(self, requests: Any, context: Any, prefill: Any = 0, pairs: Any = 0) -> Any:
        """Return the seconds of one iteration: see `work`."""
        factors = self.factors
        return sum(value * factors[name] for name, value in self.work(requests, context, prefill, pairs).items())

    @cached_property
    def factors(self) -> Mapping[str, float]:
        """How much longer each class of work takes than at the sheet's peaks; of counts, seconds."""
        fitted = self.fitted
        known = fitted["models"].get(model_shape(self.model), 0.0) + fitted["chips"].get(self.row.device, 0.0)
        factors = factors_of(fitted["factors"], self)
        return {name: factor * math.exp(known) for name, factor in factors.items()}

    @cached_property
    def fitted(self) -> Mapping[str, Any]:
        """The constants of its engine."""
        group = "llama.cpp" if self.engine == "llama.cpp" else "tpu" if self.row.kind == "tpu" else "servers"
        return (self.constants or json_of(CONSTANTS))[group]

    @cached_property
    def first_token(self) -> Mapping[str, float]:
        """The time of a first token: `seconds`, times the `reading` of its prompt, and `tokens` after it."""
        return dict(self.fitted["first token"].get(self.engine) or self.fitted["first token"]["other"])

    def work(self, requests: Any, context: Any, prefill: Any = 0, pairs: Any = 0) -> dict[str, Any]:
        """Return seconds at the sheet's peaks by class of one iteration; `layers`, `step` and the like are counts.

        It decodes one token of each of `requests`, which have `context` tokens in all, and reads `prefill` tokens of
        prompts, with so many `pairs` of a token and one before it.
        """
        model, peaks, kept, parts = self.model, self.peaks, self.model.as_stored(self.weights), self.parts
        tokens, none = requests + prefill, 0.0 * (requests + prefill)
        attention_parts = 1 if self.whole_attention else parts
        bandwidth, rate = peaks["bandwidth"], peaks["half"] * speed_up(kept, self.row)[1]
        attention = model.layers * model.attention
        always_read = model.read_bytes(kept, 0) - attention * kept.attention_bits / 8
        touched = model.experts_touched(tokens) if model.experts else none
        read_experts = self._on_the_busiest(touched) if self.split_experts else touched  # or parts of them
        narrow = read_experts * model.expert_layers * model.matrices * model.hidden * SLICE * kept.bits / 8
        if self.split_experts:
            narrow = 0.0 * narrow
        whole_layers = model.layers - model.windowed_layers - model.state_layers
        window = model.window or 0
        read = whole_layers * context + model.windowed_layers * np.minimum(context, requests * window)
        looked = whole_layers * pairs + model.windowed_layers * np.minimum(pairs, prefill * window)
        state = 2.0 * model.state_layers * model.state * STATE_BYTES * requests
        cache_bytes = (read + looked / TILE) * model.token_values * self.cache_bits / 8
        head_dim = 2 * (model.latent or model.head_dim)
        read_dim = HEAD if model.latent else model.head_dim
        width = 2.0 * model.hidden
        work = {
            "weights": (attention * kept.attention_bits / 8 / attention_parts + always_read / parts) / bandwidth + none,
            "experts": read_experts * model.expert * kept.bits / 8 / (1 if self.split_experts else parts) / bandwidth,
            "slices": narrow / bandwidth,
            "cache": (cache_bytes / self.cache_parts + state / parts) / bandwidth,
            "products": 2 * ((attention + model.always) * tokens + model.embedding * requests) / parts / rate,
            "expert products": 2 * model.expert * model.experts_per_token * tokens / parts / rate,
            "attention": 2 * model.heads * (head_dim * read + 2 * read_dim * looked) / parts / peaks["half"],
            "activations": tokens * model.layers * width * (8 / attention_parts + 4 / parts) / bandwidth,
            "layers": model.layers + none,
            "layer widths": model.layers * model.hidden / WIDTH + none,
            "expert layers": model.expert_layers + none,
            "latent layers": (model.layers if model.latent else 0) + none,
            "state layers": model.state_layers + none,
            "routing": model.expert_layers * model.experts + none,
            "step": 1 + none,
            "requests": requests + none,
            "request layers": requests * model.layers + none,
        }
        if parts > 1:
            over = "PCIe " if self.over_pcie else "collective "
            work["PCIe collectives" if self.over_pcie else "collectives"] = 2 * model.layers + none
            work[f"{over}bytes"] = 4 * model.layers * tokens * width * (parts - 1) / parts / peaks["link"]
        return work

    def _on_the_busiest(self, touched: Any) -> Any:
        """Return how many whole experts of a layer the device reads that has most of those touched."""
        held = self.model.experts / self.parts
        share = touched / max(self.model.experts, 1)
        spread = np.sqrt(2 * math.log(self.parts) * held * share * (1 - share)) if self.parts > 1 else 0.0
        return np.minimum(held, held * share + UNEVEN * spread)


def paces(name: str, server: Server) -> tuple[str, ...]:
    """Return the names of the factors that a class of work has beside its own: of the chip, the engine, the format."""
    chip, engine, kept = server.generation, server.engine, SAME_FORMAT.get(server.weights.name, server.weights.name)
    kernels = f"{FEW_BITS.get(kept, kept)} on {chip}"
    names: list[str] = []
    if name in MEMORY:
        names += [f"bandwidth of {chip}", f"bandwidth of {engine}"]
        names += [f"{name} in {kept}"] if name in ("weights", "experts") else []
    elif name in ("products", "expert products"):
        names += [f"{speed_up(server.weights, server.row)[0]} products of {chip}", f"products of {engine}"]
    elif name.endswith("layers") or name in ("layer widths", "step"):
        names += [f"{'step' if name == 'step' else 'layers'} of {engine}", f"layers of {chip}"]
    if server.model.experts and engine != "llama.cpp":
        names += [f"experts in {kernels}"] if name in ("experts", "slices") else []
        names += [f"layers with experts in {kernels}"] if name in EACH_LAYER else []
    return tuple(names)


def factors_of(fitted: Mapping[str, float], server: Server) -> dict[str, float]:
    """Return the factor of each class of work of a server; what nobody measured adds no factor."""
    return {name: fitted[name] * math.prod(fitted.get(pace, 1.0) for pace in paces(name, server)) for name in CLASSES}


def model_shape(model: ServedModel) -> str:
    """Return the sizes by which a model is known again under another name."""
    return f"{model.layers} x {model.hidden}" + (f", {model.experts} experts" if model.experts else "")
