"""A check of forecasts on a real GPU: measures 24 steps in about six minutes, writes records and a table.

    python -m tools.gpu_check                       # measure here; records go to $OUT or results/gpu_check
    python -m tools.gpu_check --compare FOLDER      # forecasts for the records of a folder, on any machine

Measuring needs PyTorch and transformers; JAX where it is installed. Nothing is installed or loaded from a network:
weights are random. A step that fails or has no time left is a record that says so. Where whichdevice's own packages are
installed, the table is made at once, else later from the records.
"""

import argparse
import gc
import json
import math
import os
import platform
import re
import subprocess  # nosec B404
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn import functional

FOLDER = Path("results/gpu_check")
RECORDS = "records.json"
BUDGET = 360.0  # seconds
WARM_UP = 3  # steps
WINDOWS, WINDOW = 3, 0.7  # windows of a step, seconds that one takes at least; without seconds it is one step
MAX_STEPS = 400  # of a window
SEQUENCE = 512
HALF, MIXED = "bfloat16", "mixed_bfloat16"
CLASSES: dict[str, Any] = {"num_labels": 1000}
PLAIN: dict[str, Any] = {"attn_implementation": "eager"}
TINY_ENCODER: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
FIRST, LAST = "channels first", "channels last"
AUTOCAST = {MIXED: torch.bfloat16, "mixed_float16": torch.float16}


@dataclass(frozen=True)
class Record:
    """The measurement of one step."""

    name: str
    status: str = "ok"  # or failed, out_of_memory, no_time
    seconds: float | None = None  # a step: the median window
    windows: tuple[float, ...] = ()  # seconds a step of each
    host_seconds: float | None = None  # until a step is queued
    start_seconds: float | None = None  # to build, compile and run the first steps
    peak_bytes: int | None = None  # of PyTorch's allocator
    reserved_bytes: int | None = None
    reason: str | None = None
    program: Any = None  # the digest of an XLA program's work


@dataclass(frozen=True)
class Check:
    """One step: a module, its batch and its loss, in one software, number format and layout."""

    name: str
    build: Callable[[], Any]
    batch: Callable[[int], Any]
    loss: Callable[[Any, Any], Any]
    size: int
    precision: str = MIXED
    mode: str = "train"  # or predict, prefill, decode
    software: str = "eager"  # or torch.compile, xla
    layout: str = FIRST
    learning_rate: float = 1e-4

    def optimizer(self, module: Any) -> Any:
        """The optimiser of a training step."""
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        return torch.optim.AdamW(trained, self.learning_rate)

    def module(self) -> Any:
        """The module in its layout."""
        built = self.build()
        return built.to(memory_format=torch.channels_last) if self.layout == LAST else built

    def inputs(self, size: int) -> Any:
        """The batch in its layout."""
        made = self.batch(size)
        if self.layout == LAST:
            made = tuple(each.to(memory_format=torch.channels_last) if each.ndim == 4 else each for each in made)
        return made


class Lstm(nn.Module):
    """A language model of two layers of an LSTM."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(words, width), nn.LSTM(width, width, 2, batch_first=True)
        self.scores = nn.Linear(width, words)

    def forward(self, words: Any) -> Any:
        """[n, length] words to [n, length, words]."""
        return self.scores(self.layers(self.words(words))[0])


class Adapter(nn.Module):
    """LoRA beside a frozen linear layer."""

    def __init__(self, base: nn.Linear, rank: int = 16) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False, dtype=base.weight.dtype)
        self.up = nn.Linear(rank, base.out_features, bias=False, dtype=base.weight.dtype)

    def forward(self, x: Any) -> Any:
        """The frozen layer and the adapter."""
        return self.base(x) + self.up(self.down(x))


def adapted(module: Any) -> Any:
    """The module frozen, with adapters on all linear layers of its blocks."""
    module.requires_grad_(False)
    for parent in list(module.model.layers.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Adapter(child))
    return module


def checks(tiny: bool = False) -> list[Check]:
    """The 24 steps without JAX's, what matters most first; `tiny` ones run on a CPU in seconds."""
    resnet, mobile = partial_of(_resnet, tiny), partial_of(_mobile, tiny)
    vit, decoder, bert = partial_of(_vit, tiny), partial_of(_decoder, tiny), partial_of(_bert, tiny)
    gpt, length, images = partial_of(_gpt2, tiny), 16 if tiny else SEQUENCE, _images(32 if tiny else 224)
    few = 2 if tiny else None

    def of(name: str, build: Any, batch: Any, loss: Any, size: int, **more: Any) -> Check:
        return Check(name, build, batch, loss, few or size, **more)

    words = _words(500 if tiny else 30000, length)
    classes = _classes
    return [
        of("ResNet-50", resnet, images, classes, size=128),
        of("ResNet-50", resnet, images, classes, size=128, layout=LAST),
        of("GPT-2", gpt, words, _next_word, size=16),
        of("ViT-B/16", vit, images, classes, size=64),
        of("Llama 1B", decoder, words, _next_word, size=4, precision=HALF),
        of("Llama 1B, LoRA", lambda: adapted(decoder()), words, _next_word, size=4, precision=HALF),
        of("Llama 1B", decoder, words, _logits, size=4, precision=HALF, mode="prefill"),
        of("Llama 1B", decoder, _with_cache(decoder, length), _next_token, size=8, precision=HALF, mode="decode"),
        of("ResNet-50", resnet, images, _outputs, size=256, mode="predict"),
        of("ResNet-50", resnet, images, _outputs, size=256, mode="predict", layout=LAST),
        of("ViT-B/16", vit, images, _outputs, size=256, mode="predict"),
        of("MobileNetV2", mobile, images, classes, size=128),
        of("MobileNetV2", mobile, images, classes, size=128, layout=LAST),
        of("BERT base, plain attention", bert, words, classes, size=16, precision="tf32"),
        of("LSTM", lambda: Lstm(500 if tiny else 10000, 64 if tiny else 650), _words(500 if tiny else 10000, 35),
           _each_word, size=64, precision="float32"),
        of("small CNN", _small, _images(28, 1), classes, size=64, precision="float32"),
        of("ResNet-50", resnet, images, classes, size=64, precision="float32"),
        of("GPT-2", gpt, words, _next_word, size=16, software="torch.compile"),
        of("ResNet-50", resnet, images, classes, size=128, software="torch.compile", layout=LAST),
        of("small CNN", _small, _images(28, 1), classes, size=64, precision="float32", software="torch.compile"),
        of("ViT-B/16", vit, images, _outputs, size=256, mode="predict", software="torch.compile"),
        of("GPT-2", gpt, words, _logits, size=64, mode="predict"),
    ]  # fmt: skip


def partial_of(make: Callable[[bool], Any], tiny: bool) -> Callable[[], Any]:
    """A function without arguments."""
    return lambda: make(tiny)


def _resnet(tiny: bool) -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification

    small: dict[str, Any] = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]} if tiny else {}
    return ResNetForImageClassification(ResNetConfig(**CLASSES, **small))


def _mobile(tiny: bool) -> Any:
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return MobileNetV2ForImageClassification(MobileNetV2Config(**CLASSES, depth_multiplier=0.25 if tiny else 1.0))


def _vit(tiny: bool) -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    small = TINY_ENCODER if tiny else {}
    return ViTForImageClassification(ViTConfig(**CLASSES, image_size=32 if tiny else 224, **small))


def _gpt2(tiny: bool) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    small: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 500} if tiny else {}
    return GPT2LMHeadModel(GPT2Config(**small))


def _bert(tiny: bool) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    small = TINY_ENCODER if tiny else {}
    return BertForSequenceClassification(BertConfig(**CLASSES, **PLAIN, **small))


def _decoder(tiny: bool) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    wide: dict[str, Any] = {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "vocab_size": 32000,
    }
    heads: dict[str, Any] = {"num_attention_heads": 32, "num_key_value_heads": 4}
    small: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 500}
    few: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**(small | few if tiny else wide | heads)))


def _small() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(1600, 1000),
    )  # fmt: skip


def _images(size: int, channels: int = 3) -> Callable[[int], Any]:
    return lambda n: (torch.zeros(n, channels, size, size), torch.zeros(n, dtype=torch.long))


def _words(number: int, length: int) -> Callable[[int], Any]:
    return lambda n: (torch.ones(n, length, dtype=torch.long), torch.zeros(n, dtype=torch.long))


def _with_cache(build: Callable[[], Any], length: int) -> Callable[[int], Any]:
    """One word, and a cache that holds the keys and values of `length` before it."""

    def batch(n: int) -> Any:
        from transformers import DynamicCache

        with torch.device("meta"):
            config = build().config
        cache = DynamicCache()
        size = config.hidden_size // config.num_attention_heads
        for layer in range(config.num_hidden_layers):
            keys, values = (
                torch.zeros(n, config.num_key_value_heads, length, size, dtype=torch.bfloat16) for _ in "kv"
            )
            cache.update(keys, values, layer)
        return torch.ones(n, 1, dtype=torch.long), cache

    return batch


def _outputs(module: Any, batch: Any) -> Any:
    found = module(batch[0])
    return found if isinstance(found, torch.Tensor) else found.logits


def _logits(module: Any, batch: Any) -> Any:
    return module(batch[0], use_cache=False).logits


def _classes(module: Any, batch: Any) -> Any:
    return functional.cross_entropy(_outputs(module, batch).float(), batch[1])


def _next_word(module: Any, batch: Any) -> Any:
    return module(batch[0], labels=batch[0], use_cache=False).loss


def _each_word(module: Any, batch: Any) -> Any:
    return functional.cross_entropy(module(batch[0]).flatten(0, 1), batch[0].flatten())


def _next_token(module: Any, batch: Any) -> Any:
    words, cache = batch
    scores = module(words, past_key_values=cache, use_cache=True).logits
    cache.crop(-1)
    return scores


@dataclass(frozen=True)
class JaxCheck:
    """One training step of JAX: a state of arrays, and a function that makes the next one."""

    name: str
    state: Callable[[], Any]
    loss: Callable[[Any, Any], Any]
    batch: Callable[[], Any]
    precision: str = HALF
    mode: str = "train"
    software: str = "xla"
    layout: str = LAST
    size: int = 0


def jax_checks(tiny: bool = False) -> list[JaxCheck]:
    """A convolutional net and a transformer, all in bfloat16, with plain gradient descent."""
    import jax
    from jax import numpy as jnp

    def normal(*shape: int) -> Any:
        return jax.random.normal(jax.random.key(0), shape, jnp.bfloat16) * 0.02

    widths, side, n = ((8, 16), 16, 2) if tiny else ((64, 128, 256, 512), 112, 64)
    layers, width, length, m = (2, 32, 16, 2) if tiny else (12, 768, 512, 16)

    def convolutions() -> Any:
        pairs = zip((3, *widths[:-1]), widths, strict=True)
        return [(normal(3, 3, a, b), *(normal(3, 3, b, b) for _ in range(3))) for a, b in pairs]

    def images() -> Any:
        return jnp.zeros((n, side, side, 3), jnp.bfloat16)

    def convolved(weights: Any, x: Any) -> Any:
        for block in weights:
            for number, kernel in enumerate(block):
                stride = (2, 2) if number == 0 else (1, 1)
                layout = ("NHWC", "HWIO", "NHWC")
                x = jax.nn.relu(jax.lax.conv_general_dilated(x, kernel, stride, "SAME", dimension_numbers=layout))
        return jnp.square(x.astype(jnp.float32)).mean()

    def blocks() -> Any:
        return [
            (normal(width, 3 * width), normal(width, width), normal(width, 4 * width), normal(4 * width, width))
            for _ in range(layers)
        ]

    def sequences() -> Any:
        return jnp.ones((m, length, width), jnp.bfloat16)

    def attended(weights: Any, x: Any) -> Any:
        for mixing, out, up, down in weights:
            query, key, value = jnp.split((_norm(x) @ mixing).reshape(m, length, -1, width // 2 if tiny else 64), 3, 2)
            x = x + jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(m, length, width) @ out
            x = x + jax.nn.gelu(_norm(x) @ up) @ down
        return jnp.square(x.astype(jnp.float32)).mean()

    return [
        JaxCheck("16 convolutions", convolutions, convolved, images, size=n),
        JaxCheck("GPT-2 without words", blocks, attended, sequences, size=m),
    ]


def _norm(x: Any) -> Any:
    from jax import numpy as jnp

    wide = x.astype(jnp.float32)
    return ((wide - wide.mean(-1, keepdims=True)) / (wide.std(-1, keepdims=True) + 1e-5)).astype(x.dtype)


def label(check: Check | JaxCheck) -> str:
    """The name of a step's record."""
    return ", ".join([check.name, check.mode, check.software, check.precision, check.layout, f"batch {check.size}"])


def windows(run: Callable[[], object], wait: Callable[[], object], window: float = WINDOW) -> tuple[list[float], float]:
    """Seconds a run in each of some windows, and seconds until a run is queued."""
    wait()
    start, number = time.perf_counter(), 1
    if window:
        run()
        wait()
        number = max(1, min(MAX_STEPS, math.ceil(window / max(time.perf_counter() - start, 1e-6))))
    found, queued = [], []
    for _ in range(WINDOWS if window else 1):
        start = time.perf_counter()
        for _ in range(number):
            run()
        queued.append((time.perf_counter() - start) / number)
        wait()
        found.append((time.perf_counter() - start) / number)
    return found, median(queued)


def of_torch(check: Check, device: str, window: float) -> Record:
    """Measure a step of PyTorch; an error is the record's reason."""
    name, on_gpu = label(check), device == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = check.precision == "tf32"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    try:
        begin = time.perf_counter()
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        with torch.device(device):
            module, batch = check.module().train(check.mode == "train"), check.inputs(check.size)
        if check.precision == HALF:
            module = module.bfloat16()
        compiler = "inductor" if on_gpu else "aot_eager"  # a CPU's kernels would be C++ that takes minutes to compile
        called = torch.compile(module, backend=compiler) if check.software == "torch.compile" else module
        optimizer = check.optimizer(module) if check.mode == "train" else None
        dtype = AUTOCAST.get(check.precision)

        def run() -> None:
            with torch.autocast(device, dtype=dtype) if dtype else nullcontext():
                loss = check.loss(called, batch)
            if optimizer is not None:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()

        with nullcontext() if optimizer is not None else torch.no_grad():
            for _ in range(WARM_UP if window else 1):
                run()
            wait()
            started = time.perf_counter() - begin
            times, host = windows(run, wait, window)
        memory = (torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()) if on_gpu else (None, None)
        return Record(name, "ok", median(times), tuple(times), host, started, *memory)
    except torch.cuda.OutOfMemoryError as error:
        return Record(name, "out_of_memory", reason=_line(error))
    except Exception as error:
        return Record(name, "failed", reason=_line(error))


def of_jax(check: JaxCheck, window: float) -> Record:
    """Measure a step of JAX, with its program's work where whichdevice can be imported."""
    try:
        import jax

        begin = time.perf_counter()
        state, batch = check.state(), check.batch()

        def next_state(state: Any, batch: Any) -> Any:
            gradients = jax.grad(check.loss)(state, batch)
            return jax.tree.map(lambda value, slope: value - 1e-4 * slope, state, gradients)

        lowered = jax.jit(next_state, donate_argnums=0).lower(state, batch)
        step = lowered.compile()
        box = [state]

        def run() -> None:
            box[0] = step(box[0], batch)

        for _ in range(WARM_UP if window else 1):
            run()
        jax.block_until_ready(box[0])
        started = time.perf_counter() - begin
        times, host = windows(run, lambda: jax.block_until_ready(box[0]), window)
        program = None
        with suppress(ImportError):
            from whichdevice.forecast.count.stablehlo import count_program

            program = count_program(lowered).total().work("gpu").digest()
        return Record(label(check), "ok", median(times), tuple(times), host, started, program=program)
    except Exception as error:
        return Record(label(check), "failed", reason=_line(error))


def _line(error: Exception) -> str:
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0]}"[:300]


def rates(device: str, tiny: bool) -> dict[str, float]:
    """Operations a second of a large product in each number format, bytes a second of a triad."""
    size, words = (256, 1 << 16) if tiny else (8192, 1 << 28)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    found = {}
    for name, dtype in (("float32", torch.float32), ("tf32", torch.float32), ("half", torch.bfloat16)):
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in "ab")
        out = torch.empty_like(a)
        times, _ = windows(lambda a=a, b=b, out=out: torch.matmul(a, b, out=out), wait, 0.3 * (not tiny))  # type: ignore[misc]
        found[f"product {name}"] = 2 * size**3 / median(times)
    x, y, z = (torch.ones(words, device=device) for _ in "xyz")
    times, _ = windows(lambda: torch.add(x, y, alpha=2.0, out=z), wait, 0.3 * (not tiny))
    return found | {"triad": 12 * words / median(times)}


def measure(folder: Path, tiny: bool = False, budget: float = BUDGET, only: Sequence[str] = ()) -> Path:
    """Measure every step within the budget, writing the file of records after each; return that file."""
    begin, device = time.perf_counter(), "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not tiny:
        sys.exit("No GPU that PyTorch can use: check `nvidia-smi`; --tiny tries the check on a CPU.")
    if device == "cpu":
        torch.set_num_threads(1)
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    path = folder / RECORDS
    folder.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {"about": about(device), "tiny": tiny, "rates": rates(device, tiny), "records": []}
    _write(document, path)
    window = 0.0 if tiny else WINDOW
    everything: list[Check | JaxCheck] = list(checks(tiny))
    with suppress(ImportError):
        everything += jax_checks(tiny)
    for check in (each for each in everything if not only or {each.name, each.software, each.mode} & set(only)):
        left = budget - (time.perf_counter() - begin)
        if left <= 0:
            record = Record(label(check), "no_time", reason=f"the check ended after {budget:g} s")
        else:
            record = of_torch(check, device, window) if isinstance(check, Check) else of_jax(check, window)
        if device == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
        document["records"].append(asdict(record))
        _write(document, path)
        took = f"{record.seconds * 1e3:.2f} ms" if record.seconds else f"{record.status}: {record.reason}"
        print(f"{time.perf_counter() - begin:5.0f} s  {record.name}: {took}", flush=True)
    return path


def _write(document: dict[str, Any], path: Path) -> None:
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)


def about(device: str) -> dict[str, Any]:
    """The device and the software, without names of people or machines."""
    found: dict[str, Any] = {"python": platform.python_version(), "torch": torch.__version__, "device": "cpu"}
    if device == "cuda":
        its = torch.cuda.get_device_properties(0)
        found |= {
            "device": its.name, "memory": its.total_memory, "multiprocessors": its.multi_processor_count,
            "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
        }  # fmt: skip
        asked = "driver_version,power.limit,clocks.max.sm,clocks.max.mem,pcie.link.gen.current"
        with suppress(OSError, subprocess.SubprocessError):
            command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader", "--id=0"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout  # nosec B603
            found |= dict(zip(asked.split(","), map(str.strip, answer.strip().split(",")), strict=False))
    for name in ("jax", "transformers"):
        with suppress(ImportError):
            found[name] = __import__(name).__version__
    return found


@dataclass(frozen=True)
class Compared:
    """A measured step next to its forecast: seconds and bytes."""

    name: str
    measured: float
    low: float
    forecast: float
    high: float
    reserved: float | None
    needed: float | None

    @property
    def ratio(self) -> float:
        """Measured over forecast."""
        return self.measured / self.forecast

    @property
    def inside(self) -> bool:
        """Whether the measured time is inside of the 80 % interval."""
        return self.low <= self.measured <= self.high


def compare(folder: Path, device: str | None = None) -> Iterator[Compared]:
    """Forecast each measured step of a folder for its device of the sheet, as it was before it was measured."""
    from whichdevice.base.sheets.hardware import hardware_rows
    from whichdevice.forecast.time_model import forecast_step
    from whichdevice.forecast.torch.memory import RESERVE, need
    from whichdevice.forecast.torch.trace import Step, trace_step
    from whichdevice.forecast.work import Work

    document = json.loads((folder / RECORDS).read_text(encoding="utf-8"))
    row = hardware_rows()[device or sheet_name(document["about"]["device"])]
    known = {label(check): check for check in checks(document["tiny"])}
    for record in document["records"]:
        if record["status"] != "ok":
            continue
        needed, check = None, known.get(record["name"])
        if check is None:
            if record["program"] is None:
                continue
            work, mode = Work.from_dict(record["program"]), "train"
        else:
            optimizer = check.optimizer if check.mode == "train" else None
            step = Step(check.module, check.inputs, check.loss, optimizer, check.precision)
            trace, mode = trace_step(step, check.size), check.mode
            work = trace.fused if check.software == "torch.compile" else trace.work
            needed = need(trace) + RESERVE
        its = forecast_step(work, row, mode)
        yield Compared(
            record["name"], record["seconds"], its.low, its.seconds, its.high, record["reserved_bytes"], needed
        )


def sheet_name(name: str) -> str:
    """The sheet's name of a GPU, from its driver's."""
    from whichdevice.base.sheets.hardware import hardware_rows

    fitting = [row.device for row in hardware_rows().values() if row.matches and re.search(row.matches, name)]
    if len(fitting) != 1:
        sys.exit(f"{name!r} is not in config/hardware.csv: name its row by --device")
    return fitting[0]


def table(found: Sequence[Compared]) -> str:
    """The table of all steps, and what they say together."""
    lines = [
        "| step | measured, ms | forecast, ms | 80 % interval | measured / forecast | inside | GB | GB, forecast |",
        "|---|--:|--:|--:|--:|---|--:|--:|",
    ]
    for its in found:
        low, middle, high = (f"{1e3 * seconds:.3g}" for seconds in (its.low, its.forecast, its.high))
        memory = [f"{nbytes / 1e9:.3g}" if nbytes else "" for nbytes in (its.reserved, its.needed)]
        inside = "yes" if its.inside else "no"
        lines.append(
            f"| {its.name} | {1e3 * its.measured:.3g} | {middle} | {low} to {high} | {its.ratio:.2f} | {inside} | "
            f"{' | '.join(memory)} |"
        )
    if found:
        errors = [abs(math.log(its.ratio)) for its in found]
        lines += [
            "",
            f"{len(found)} steps: median error {100 * math.expm1(median(errors)):.0f} %, "
            f"{sum(its.inside for its in found)} inside of their 80 % interval.",
        ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or compare."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu_check", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="forecast for the records of this folder")
    parser.add_argument("--device", help="row of config/hardware.csv to compare with; default: by the GPU's name")
    parser.add_argument("--to", type=Path, default=Path(os.environ.get("OUT", FOLDER)), help="folder of the records")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds (%(default)s)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, also on a CPU")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="only steps of this name, software or mode"
    )
    given = parser.parse_args(arguments)
    folder = given.compare or given.to
    if given.compare is None:
        measure(folder, given.tiny, given.budget, given.only)
    try:
        found = list(compare(folder, given.device))
    except ImportError as error:
        print(
            f"No forecasts here ({error}): python -m tools.gpu_check --compare {folder}, where whichdevice is installed"
        )
        return
    text = table(found)
    (folder / "table.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
