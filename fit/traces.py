"""Traces timm's models of fit/data/traces.json.gz anew: `python -m fit.traces [MODEL ...]`.

Needs timm beside the project's own packages (`pip install --no-deps timm`, and torchvision's build for a CPU). No
weights are loaded and nothing is computed; a model takes a second or two. Published times of the file stay as they are.
"""

import gzip
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from fit.fitting import TRACES, read_gzip
from whichdevice.forecast.work import Work

if TYPE_CHECKING:
    from whichdevice.forecast.torch.trace import Step

LIBRARY = "timm"


def main() -> None:
    """Trace the models that are named, or all."""
    from timm.layers import set_fast_norm

    from whichdevice.forecast.torch.trace import trace_step

    document, wanted = read_gzip(TRACES), set(sys.argv[1:])
    for question in document["questions"]:
        library, model, size, mode, precision, batch, _, _, *layout = question
        if library == LIBRARY and (not wanted or model in wanted):
            set_fast_norm(mode == "predict")  # as timm's tables of inference were made
            trace = trace_step(step(model, size, mode, precision, *layout), batch)
            question[6] = {"eager": sums(trace.work), "torch.compile": sums(trace.fused)}
            question[7] = [_short(trace.memory[part]) for part in ("weights", "optimizer", "gradients", "peak")]
            print(model, size, mode, flush=True)
    write(document)


def step(model: str, size: int, mode: str, precision: str, layout: str = "", optimizer: str = "SGD") -> "Step":
    """A step of timm's benchmark: cross entropy and an optimizer, SGD with momentum, or the forward pass."""
    import timm
    import torch

    from whichdevice.forecast.torch.trace import Step

    updates = partial(torch.optim.SGD, momentum=0.9) if optimizer == "SGD" else getattr(torch.optim, optimizer)
    axes = torch.channels_last if layout else torch.contiguous_format
    return Step(
        build=lambda: timm.create_model(model).to(memory_format=axes),
        batch=lambda n: (torch.zeros(n, 3, size, size).to(memory_format=axes), torch.zeros(n, dtype=torch.long)),
        loss=lambda module, batch: (
            torch.nn.functional.cross_entropy(module(batch[0]), batch[1]) if mode == "train" else module(batch[0])
        ),
        optimizer=(lambda module: updates(module.parameters(), lr=0.1)) if mode == "train" else None,
        precision=precision,
    )


def sums(work: Work) -> list[list[Any]]:
    """Operations, bytes and kernels by kind and precision, and the devices of a collective."""
    found: dict[tuple[str, str, int], list[float]] = {}
    for item in work.items:
        its = found.setdefault((item.kind, item.precision if item.operations else "", item.devices), [0.0, 0.0, 0.0])
        for place, value in enumerate((item.operations, item.bytes, 1.0)):
            its[place] += value * item.count
    return [
        [kind, precision, _short(its[0]), _short(its[1]), round(its[2]), *([devices] if devices > 1 else [])]
        for (kind, precision, devices), its in found.items()
    ]


def write(document: dict[str, Any]) -> None:
    """One line a question and a row, so that a change of the file can be read."""
    parts = []
    for name, value in document.items():
        lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in value)
        parts.append(f' "{name}": ' + (f"[\n{lines}\n]" if isinstance(value, list) else json.dumps(value)))
    TRACES.write_bytes(gzip.compress(("{\n" + ",\n".join(parts) + "\n}\n").encode(), mtime=0))


def _short(value: float) -> float:
    return float(f"{value:.5g}")


if __name__ == "__main__":
    main()
