"""Published peaks of memory, and steps that ran or ran out, next to their forecasts: `python -m fit.memory`.

fit/data/memory_cases.csv has the cases and the memory that each needs; `python -m fit.memory --rebuild` traces those of
`hf:` anew. The others were traced for one case each, by code that is in the history of this file.
"""

import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np
from pydantic.dataclasses import dataclass

from fit.counts import write_rows
from fit.fitting import DATA, read_lines
from fit.generated import DOCS, percent, put_lines, table
from whichdevice.forecast import tpu
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.torch.memory import BY_LIBRARY, INPUTS, RESERVE, ends

CASES = DATA / "memory_cases.csv"
PAGE = DOCS / "reference" / "forecast-validation.md"
OUT = "out of memory"


@dataclass(frozen=True)
class Case:
    """A step on a device, what somebody published of it, and the forecast in GB (1e9 bytes)."""

    step: str
    device: str
    gpus: int
    published: str  # ran, out of memory, or the peak in GB
    tensors_gb: float  # the peak of tensors alone, as torch.cuda.max_memory_allocated has it
    needed_gb: float  # with the allocator's pieces
    by_library_gb: float  # that some versions of libraries hold besides, or on a TPU leave to the host
    source: str
    compiled: bool = False

    @property
    def peak_gb(self) -> float | None:
        """The published peak of tensors."""
        return None if self.published in ("ran", OUT) else float(self.published)

    @property
    def available_gb(self) -> float:
        """Return what the device has for a step."""
        return find_target(self.device, self.gpus).available(RESERVE) / 1e9

    @property
    def verdict(self) -> str:
        """Whether the step fits, by the product's rule."""
        on_tpu = find_target(self.device, self.gpus).kind == "tpu"
        low, high = tpu.ends(self.needed_gb, self.by_library_gb) if on_tpu else ends(
            self.needed_gb, self.gpus, self.compiled, self.by_library_gb
        )  # fmt: skip
        if low <= self.available_gb < high:
            return "tight"
        return "does not fit" if high > self.available_gb else "fits"

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict says other than what was published; a tight one says nothing."""
        return self.verdict != "tight" and (self.verdict == "fits") == (self.published == OUT)


def read_cases() -> list[Case]:
    """Every case of the table."""
    return read_lines(Case, CASES)


def page(cases: list[Case]) -> Iterator[str]:
    """The table, and how good its forecasts are."""
    errors = [abs(np.log(case.tensors_gb / case.peak_gb)) for case in cases if case.peak_gb]
    wrong = [case for case in cases if case.is_wrong]
    yield (
        f"{len(errors)} published peaks: the median error is {percent(np.expm1(np.median(errors)))}, 9 of 10 are "
        f"within {percent(np.expm1(np.quantile(errors, 0.9)))}. {len(wrong)} of {len(cases)} verdicts are wrong."
    )
    yield ""
    heads = ("step", "device", "published", "peak by forecast", "needs", "of", "verdict")
    yield from table(heads, map(_cells, cases), words=3)


def _cells(case: Case) -> list[str]:
    device = f"{case.gpus} × {case.device}" if case.gpus > 1 else case.device
    published = f"peak {case.peak_gb:g} GB" if case.peak_gb else case.published
    memory = (f"{gb:.1f} GB" for gb in (case.tensors_gb, case.needed_gb + case.by_library_gb, case.available_gb))
    return [case.step, device, published, *memory, case.verdict]


def write_page() -> None:
    """Replace the part of the validation page that is about memory."""
    put_lines(PAGE, "python -m fit.memory", page(read_cases()))


# Traces


def traced(case: Case) -> Case:
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


def main() -> None:
    """Write the page, and trace the cases anew where that is wanted."""
    if "--rebuild" in sys.argv:
        named = sys.argv[sys.argv.index("--rebuild") + 1 :]  # with which a step begins
        cases = [traced(case) if case.step.startswith(tuple(named) or "hf:") else case for case in read_cases()]
        write_rows(CASES, [asdict(case) | {"compiled": "yes" if case.compiled else ""} for case in cases])
    write_page()


if __name__ == "__main__":
    main()
