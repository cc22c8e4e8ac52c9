"""A question about serving a model of language, images or videos: which devices and formats are tried, and the answer.

    ask_serving(ServingQuestion(served_model("meta-llama/Llama-3.1-8B-Instruct"), Load(5, 1000, 300, 1.0, 0.05)))

    ask_generation(generator("hf:black-forest-labs/FLUX.1-dev"), Load(None, 0, 1, 30.0, 30.0, "image"))

Nothing but this machine's memory rate is measured. A GPU makes one image or video after the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.base.sheets.tpus import CHIPS, devices_of
from whichdevice.decide.decide import DRAWS
from whichdevice.decide.energy import metered
from whichdevice.decide.prices import Priced, electricity, hour_of, own_price
from whichdevice.decide.rows import DOES_NOT_FIT, FORECAST
from whichdevice.decide.serving import CHEAPER, MAX_SERVERS, Files, ServerRow, Serving, decide, with_formats
from whichdevice.forecast.serving.forecast import TESTED, Load, ServingForecast, serve_all
from whichdevice.forecast.serving.generators import Generating, capacity
from whichdevice.forecast.serving.server import Server, memory_of
from whichdevice.forecast.targets import GPU_COUNTS, GROUPS, find_target, target_rows
from whichdevice.models.diffusion import Diffusion
from whichdevice.models.served import WEIGHT_FORMATS, ServedModel, WeightFormat

# What people serve with today: offered by several clouds, or at home in many rooms; and computers with shared memory.
DEVICES = (
    "T4", "L4", "A10G", "RTX 3090", "RTX 4090", "RTX 5090", "RTX A6000", "L40S", "A100 SXM 80GB", "H100 SXM",
    "H200 SXM", "B200 SXM", "MI300X", "RTX 6000 Pro", "TPU v5e", "TPU v6e",
)  # fmt: skip
COMPUTERS = ("Apple M4 Max", "Apple M3 Ultra", "Ryzen AI Max+ 395", "DGX Spark")
LLAMA_CPP, VLLM, DIFFUSERS = "llama.cpp", "vllm", "diffusers"
SMALL = "q4_k_m"  # what llama.cpp mostly runs
OTHER_FORMATS = ("fp8", "awq")  # that are tried where the user names none
# What llama.cpp runs in place of a format that it has not.
GGUF_LIKE = {
    "awq": SMALL, "gptq": SMALL, "nvfp4": SMALL, "int4_experts": SMALL, "fp8": "q8_0", "int8": "q8_0",
}  # fmt: skip
# The least compute capability on which vLLM has kernels for a format (docs.vllm.ai, features/quantization, and its page
# on FP8); AMD's and TPUs have those below.
MIN_CAPABILITY = {
    "bf16": 7.0, "gptq": 7.0, "awq": 7.5, "int8": 7.5, "fp8": 7.5, "nvfp4": 8.0, "mxfp4": 8.0, "int4_experts": 8.0,
}  # fmt: skip
AMD_FORMATS, TPU_FORMATS = ("bf16", "fp8", "mxfp4"), ("bf16", "int8", "fp8")
OLD_TPUS = ("TPU v2", "TPU v3")  # which no engine of these serves on
# What somebody runs together: so many cards of a kind, or computers; of GPUs with links of their own MAX_SERVERS.
MAX_DESKTOP, MAX_PCIE_CARDS, MAX_COMPUTERS = 16, 64, 4
PCIE_GBS = 64
HERE = "this machine"


@dataclass(frozen=True)
class ServingQuestion:
    """A model, its load, and what may serve it."""

    model: ServedModel
    load: Load
    devices: tuple[str, ...] | None = None
    counts: tuple[int, ...] = GPU_COUNTS
    weights: WeightFormat | None = None  # None: as published, and on computers and here 4 bits
    prices: Mapping[str, float] = field(default_factory=dict)  # an hour of a device: the user's own
    here: bool = True  # whether this machine is measured


def ask_serving(question: ServingQuestion) -> Serving:
    """Return the answer; measures this machine's memory rate. Raises StudyError where the question is at fault."""
    _check(question)
    model, rows = question.model, rows_named(question.devices)
    native = question.weights or WEIGHT_FORMATS[model.native]
    here = [_this_machine()] if question.here else []
    wanted = [(row, _format(question, row, native)) for row in [*rows, *here]]
    servers = _forecast(question, [(row, kept) for row, kept in wanted if _runs(row, kept)])
    without = tuple(row.device for row, kept in wanted if not _runs(row, kept))
    files = Files(model.parameters, model.stored, model.native) if model.stored else None
    answer = decide(model.name, question.load, servers, without, files)
    if question.weights is not None:
        return answer
    pick = answer.pick
    most = math.inf if pick is None or pick.usd_per_hour is None else CHEAPER * pick.usd_per_hour
    smaller = [kept for kept in map(WEIGHT_FORMATS.__getitem__, OTHER_FORMATS) if kept.bits < native.bits]
    rented = [row for row in rows if row.kind != "unified"]
    in_fewer_bits = [_forecast(question, [(row, kept) for row in rented if _runs(row, kept)], most) for kept in smaller]
    return with_formats(answer, in_fewer_bits)


def _check(question: ServingQuestion) -> None:
    model, tokens = question.model, question.load.prompt + question.load.answer
    if tokens > model.longest:
        takes = f"{model.name}: takes {model.longest:,} tokens, and a request has {tokens:,.0f}"
        raise StudyError(f"{takes}: ask for fewer (--tokens), or a model with a longer context")
    for rows in map(rows_named, ([name] for name in question.devices or ())):
        if rows and not any(_counts(question, row) for row in rows):
            asked, rented = (", ".join(map(str, counts)) for counts in (question.counts, _rented(rows[0].device)))
            raise StudyError(f"--gpus {asked}: machines of {rows[0].device} have {rented} devices")


def _format(question: ServingQuestion, row: HardwareRow, native: WeightFormat) -> WeightFormat:
    """The user's format, else what people run on such a device; llama.cpp's own that is like it."""
    if row.kind not in ("unified", "cpu"):
        return native
    if question.weights is None and native.bits > WEIGHT_FORMATS[SMALL].bits:
        return WEIGHT_FORMATS[SMALL]
    return WEIGHT_FORMATS[GGUF_LIKE.get(native.name, native.name)]


def _runs(row: HardwareRow, kept: WeightFormat) -> bool:
    """Whether the engine has kernels for this format on this device."""
    if _engine(row, kept) == LLAMA_CPP:
        return True
    if row.vendor == "AMD":
        return kept.name in AMD_FORMATS
    if row.kind == "tpu":
        return kept.name in TPU_FORMATS and row.device not in OLD_TPUS
    return row.vendor == "NVIDIA" and float(row.compute_capability or 0) >= MIN_CAPABILITY[kept.name]


def rows_named(names: Sequence[str] | None) -> list[HardwareRow]:
    """Return rows of the sheet for names and groups; None stands for common ones."""
    if names is None:
        sheet = hardware_rows()
        return [sheet[name] for name in (*DEVICES, *COMPUTERS) if name in sheet]
    return list({row.device: row for name in names for row in _named(name)}.values())


def device_named(name: str) -> str:
    """Return the row of the sheet that a name means; raises StudyError."""
    return next(iter(_named(name))).device


def _named(name: str) -> list[HardwareRow]:
    group = GROUPS.get(name.strip().casefold())
    return [find_target(name).row] if group is None else [row for row in target_rows().values() if group(row)]


def _forecast(
    question: ServingQuestion, rows: Sequence[tuple[HardwareRow, WeightFormat]], most: float = math.inf
) -> list[ServerRow]:
    """Forecast each device in each number, all together; a computer alone. None costs more than `most` USD an hour."""
    servers = [
        Server(question.model, row, count, kept, engine=_engine(row, kept))
        for row, kept in rows
        for count in _counts(question, row)
        if (price_of(row, count, question.prices).usd_per_hour or math.inf) <= most
    ]
    return [_row(question, forecast) for forecast in serve_all(servers, question.load)]


def _counts(question: ServingQuestion, row: HardwareRow) -> tuple[int, ...]:
    """Return the numbers of a device to try: the user's; of a TPU, as many as a rented machine has."""
    if row.kind == "tpu":
        return tuple(count for count in _rented(row.device) if count in question.counts)
    return question.counts if row.kind == "gpu" else (1,)


def _rented(tpu: str) -> tuple[int, ...]:
    """The devices of the machines that are rented."""
    return tuple(chips * devices_of(tpu) for chips in CHIPS[tpu].machines)


def _engine(row: HardwareRow, kept: WeightFormat) -> str:
    """Return what people run there."""
    return LLAMA_CPP if row.kind in ("unified", "cpu") or kept.gguf else VLLM


def _row(question: ServingQuestion, forecast: ServingForecast) -> ServerRow:
    server = forecast.server
    row = server.row
    return ServerRow(
        row.device,
        row.kind,
        FORECAST if forecast.fits else DOES_NOT_FIT,
        server.engine,
        server.weights.name,
        server.count,
        tested=forecast.source == TESTED,
        fits=forecast.fits,
        memory_available=server.usable,
        memory_whole=memory_of(row),
        memory_parts=forecast.memory,
        rented=row.device != HERE,
        max_requests=forecast.max_requests,
        max_context=min(server.max_context, question.model.longest),
        capacity=forecast.capacity,
        one_user=forecast.one_user,
        first_token=forecast.first_token,
        ttft=forecast.ttft,
        tpot=forecast.tpot,
        most_servers=most_servers(row, server.count),
        **vars(price_of(row, server.count, question.prices)),
    )


def most_servers(row: HardwareRow, count: int) -> int:
    """Return how many servers of so many devices somebody would run together."""
    if row.device == HERE:
        return 1
    if row.kind == "unified":
        return MAX_COMPUTERS
    cards = MAX_DESKTOP if GROUPS["desktop"](row) else MAX_PCIE_CARDS
    by_pcie = row.kind == "gpu" and (row.link_gbs or 0.0) <= PCIE_GBS
    return max(1, cards // count) if by_pcie else MAX_SERVERS


def price_of(row: HardwareRow, count: int, prices: Mapping[str, float]) -> Priced:
    """Return the price of an hour: the user's own of a device, or of a TPU's chip, else the usual one."""
    priced = electricity(metered(None, "cpu")) if row.device == HERE else hour_of(row, count)
    usd = prices.get(row.device)
    return priced if usd is None else own_price(priced, usd * math.ceil(count / devices_of(row.device)))


def _this_machine() -> HardwareRow:
    """This machine as a row of the sheet: its memory, and the rates that are measured now."""
    from whichdevice.base.memory import total_memory
    from whichdevice.measure.machine.calibration import host_flops, read_rate

    return HardwareRow(
        device=HERE, kind="cpu", fp32_tflops=host_flops() / 1e12, mem_gb=(total_memory() or 0) / 2**30,
        mem_bytes=total_memory() or None, mem_bw_gbs=read_rate() / 1e9, spec_source="measured here",
    )  # fmt: skip


def ask_generation(
    model: Diffusion, load: Load, devices: Sequence[str] | None = None, prices: Mapping[str, float] = {}
) -> Serving:
    """Return the answer for these devices, or for common ones; `prices` are the user's own for an hour of a device."""
    frames = f", {model.frames} frames" if model.frames > 1 else ""
    title = f"{model.name} · {model.width} × {model.height}{frames} · {model.steps} steps"
    gpus = [Generating(model, row) for row in rows_named(devices)]
    servers = [_generator_row(one, load, prices) for one in gpus if one.runs]
    without = tuple(one.row.device for one in gpus if not one.runs and one.row.kind in ("gpu", "tpu"))
    return decide(title, load, servers, without)


def _generator_row(one: Generating, load: Load, prices: Mapping[str, float]) -> ServerRow:
    row, memory = one.row, one.memory()
    weights = sum(size for name, size in memory.items() if name != "values")
    server = ServerRow(
        row.device, row.kind, FORECAST if one.fits else DOES_NOT_FIT, DIFFUSERS, "bf16", tested=one.tested,
        fits=one.fits, memory_available=one.available, memory_whole=memory_of(row),
        memory_parts={"weights": weights, **memory}, rented=True, most_servers=most_servers(row, 1),
        **vars(price_of(row, 1, prices)),
    )  # fmt: skip
    if not one.fits:
        return server
    seconds = one.seconds()
    most = capacity(seconds, load.ttft, one.slowness(DRAWS))
    return replace(server, max_requests=1, capacity=tuple(map(float, most)), first_token=seconds)
