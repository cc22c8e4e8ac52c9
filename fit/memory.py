"""Published peaks of memory, and steps that ran or ran out, next to their forecasts: `python -m fit.memory`.

fit/data/memory_cases.csv has the cases and the memory that each needs; `python -m fit.memory --rebuild` traces them
anew, which needs timm and LitGPT (see fit/traces.py and fit/language_models.py). A sharded step is forecast as it runs;
LitGPT's ranks hold the whole model beside their share while they load, and gradients of frozen weights after that.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fit.fitting import DATA
from fit.generated import put_lines
from whichdevice.forecast import tpu
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.torch.memory import BY_LIBRARY, FRAGMENTATION, INPUTS, RESERVE, ends, need
from whichdevice.study.tables.base import read_rows

if TYPE_CHECKING:
    from whichdevice.forecast.torch.trace import Trace

CASES = DATA / "memory_cases.csv"
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "forecast-validation.md"
OUT = "out of memory"


@dataclass(frozen=True)
class Case:
    """A step on a device, what somebody published of it, and the forecast in GB (1e9 bytes)."""

    step: str
    device: str
    gpus: int
    compiled: bool
    published: str  # ran, out of memory, or the peak in GB
    tensors_gb: float  # the peak of tensors alone, as torch.cuda.max_memory_allocated has it
    needed_gb: float  # with the allocator's pieces
    by_library_gb: float  # that some versions of libraries hold besides, or on a TPU leave to the host
    whole_gb: float  # of the weights that every rank loads, where it shards them; else 0
    source: str

    @property
    def peak_gb(self) -> float | None:
        """The published peak of tensors."""
        return None if self.published in ("ran", OUT) else float(self.published)

    @property
    def available_gb(self) -> float:
        """Return what the device has for a step."""
        return find_target(self.device, self.gpus).available(RESERVE) / 1e9

    @property
    def loading_gb(self) -> float:
        """Return what a rank needs that loads the whole model and keeps its share."""
        return self.whole_gb * (1 + 1 / self.gpus) * FRAGMENTATION

    @property
    def verdict(self) -> str:
        """Whether the step fits, by the product's rule, and whether it loads."""
        on_tpu = find_target(self.device, self.gpus).kind == "tpu"
        low, high = tpu.ends(self.needed_gb, self.by_library_gb) if on_tpu else ends(
            self.needed_gb, self.gpus, self.compiled, self.by_library_gb
        )  # fmt: skip
        if low <= self.available_gb < high:
            return "tight"
        if high > self.available_gb:
            return "does not fit"
        return "does not load" if self.loading_gb > self.available_gb else "fits"

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict says other than what was published; a tight one says nothing."""
        return self.verdict != "tight" and (self.verdict == "fits") == (self.published == OUT)


def read_cases() -> list[Case]:
    """Every case of the table."""
    return [
        Case(
            line["step"], line["device"], int(line["gpus"]), line["compiled"] == "yes", line["published"],
            float(line["tensors_gb"]), float(line["needed_gb"]), float(line["by_library_gb"]), float(line["whole_gb"]),
            line["source"],
        )
        for line in read_rows(CASES)
    ]  # fmt: skip


def page(cases: list[Case]) -> Iterator[str]:
    """The table, and how good its forecasts are."""
    errors = [abs(np.log(case.tensors_gb / case.peak_gb)) for case in cases if case.peak_gb]
    wrong = [case for case in cases if case.is_wrong]
    yield "### Memory: published peaks and limits"
    yield ""
    yield (
        f"{len(errors)} published peaks: the median error is {100 * np.expm1(np.median(errors)):.0f} %, 9 of 10 are "
        f"within {100 * np.expm1(np.quantile(errors, 0.9)):.0f} %. {len(wrong)} of {len(cases)} verdicts are wrong; "
        "*tight* may be either. A peak is of tensors alone. *Needs* has the pieces that the allocator keeps, and is "
        "what a verdict is made of; with LitGPT's FSDP it has gradients of frozen weights too, or the whole model that "
        "a rank loads, if that is more. The four GPUs' published peak, 35.57 GB, is that of loading. 4-bit layers are "
        "LitGPT's with the bitsandbytes of 2023, which keeps a layer's input and writes weights out in float16 first; "
        "an answer is about today's, which does neither."
    )
    yield ""
    yield "| step | device | published | peak by forecast | needs | of | verdict |"
    yield "|---|---|---|--:|--:|--:|---|"
    for case in cases:
        device = f"{case.gpus} × {case.device}" if case.gpus > 1 else case.device
        published = f"peak {case.peak_gb:g} GB" if case.peak_gb else case.published
        yield (
            f"| {case.step} | {device} | {published} | {case.tensors_gb:.1f} GB | "
            f"{max(case.needed_gb + case.by_library_gb, case.loading_gb):.1f} GB | {case.available_gb:.1f} GB | "
            f"{case.verdict} |"
        )


def write_page() -> None:
    """Replace the part of the validation page that is about memory."""
    put_lines(PAGE, "python -m fit.memory", page(read_cases()))


# Traces


def traced(case: Case) -> Case:
    """The case with its memory as it is traced here."""
    if case.step.startswith("hf:"):
        return _hub(case)
    makers: Mapping[str, Callable[[Case], Trace]] = {"NASNet-A large": _nasnet, "MPT 350M": _mpt}
    print(case.step, case.gpus, flush=True)
    trace = makers.get(case.step.partition(",")[0], _litgpt)(case)
    whole = trace.memory["weights"] * case.gpus if "litgpt" in case.source and case.gpus > 1 else 0.0
    found = {
        "tensors_gb": trace.memory["peak"], "needed_gb": need(trace), "whole_gb": whole,
        "by_library_gb": sum(trace.memory.get(part, 0.0) for part in BY_LIBRARY),
    }  # fmt: skip
    return replace(case, **{name: float(f"{nbytes / 1e9:.4g}") for name, nbytes in found.items()})


def _hub(case: Case) -> Case:
    """A step as it is asked for: `hf:NAME, METHOD, examples x words`, of all devices, checkpointed and in one pass."""
    from whichdevice.forecast.products import ProgramRequest
    from whichdevice.forecast.torch.records import Traced

    name, method, shape = case.step.split(", ")
    batch, length = map(int, shape.split(" x "))
    options = {"method": method, "gradient_checkpointing": True, "gradient_accumulation": 1}
    options |= {"lora_rank": 32, "lora_layers": "all"} if method == "qlora" else {}
    request = ProgramRequest(
        device=case.device, devices=case.gpus, workload="case", module=name, precision="bfloat16", batch_size=batch,
        mode="train", sequence_length=length, options=options,
    )  # fmt: skip
    target = find_target(case.device, case.gpus)
    _, _, facts, _ = Traced(request).record(request, target)
    parts, other = facts.memory_parts, BY_LIBRARY if target.kind == "gpu" else (INPUTS,)
    found = (parts["peak"], facts.memory_needed or 0.0, sum(parts.get(part, 0.0) for part in other))
    names = ("tensors_gb", "needed_gb", "by_library_gb")
    return replace(case, **{name: float(f"{nbytes / 1e9:.4g}") for name, nbytes in zip(names, found, strict=True)})


def _nasnet(case: Case) -> "Trace":
    from fit.traces import step
    from whichdevice.forecast.torch.trace import trace_step

    return trace_step(step("nasnetalarge", 331, "predict", "mixed_bfloat16"), 512)


def _mpt(case: Case) -> "Trace":
    """MPT of 350 million weights: the 760 million's configuration, narrower, with as many layers."""
    from fit.language_models import configured_trace
    from whichdevice.forecast.torch.several import on_gpus
    from whichdevice.models.hugging_face import configuration
    from whichdevice.models.tuning import Tuning

    base = configuration("llm-foundry/benchmark-760m")
    narrow = replace(base, fields={**base.fields, "n_embd": 1024, "n_head": 16})
    trace = configured_trace(narrow, base.name, Tuning("full", 8, "all", 0.0), 18, 2048, loss_in_16_bits=True)
    return on_gpus(trace, case.gpus, "fsdp", master=True)


LITGPT = {
    "Llama 2 7B": "meta-llama/Llama-2-7b-hf",
    "Llama 2 13B": "meta-llama/Llama-2-13b-hf",
    "phi-1.5": "microsoft/phi-1_5",
    "StableLM 3B": "stabilityai/stablelm-base-alpha-3b",
}


def _litgpt(case: Case) -> "Trace":
    """LitGPT's LoRA: `Llama 2 13B, LoRA[, 4 bits[, scales in 8 bits]][, FSDP], examples x words`."""
    from fit.language_models import published
    from whichdevice.forecast.torch.several import on_gpus

    like = next(line for line in published() if line.id == "litgpt_123")
    weights = "bfloat16"
    if "4 bits" in case.step:
        weights = "nf4 double" if "scales in 8 bits" in case.step else "nf4"
    name, *_, shape = case.step.split(", ")
    batch, length = map(int, shape.split(" x "))
    line = replace(like, model=LITGPT[name], weights=weights, batch=batch, length=length)
    return on_gpus(line.trace(), case.gpus, "fsdp")


def main() -> None:
    """Write the page, and trace the cases anew where that is wanted."""
    if "--rebuild" in sys.argv:
        named = sys.argv[sys.argv.index("--rebuild") + 1 :]  # with which a step begins
        cases = [
            traced(case) if not named or case.step.startswith(tuple(named)) else case for case in read_cases()
        ]
        with CASES.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [field.name for field in fields(Case)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(case) | {"compiled": "yes" if case.compiled else ""} for case in cases)
    write_page()


if __name__ == "__main__":
    main()
