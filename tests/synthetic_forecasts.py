"""Made-up compiled records: the work of a program for each device and workload, and what it needs of memory."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from whichdevice.forecast.products import CompiledRecord, CompileFacts, ProgramRequest, write_compiled
from whichdevice.forecast.targets import find_target

LARGE, SMALL = 2e12, 2e9  # operations of a step: tens of milliseconds on a T4, and less than one


def compiled(
    folder: Path,
    device: str,
    workload: str = "mnist_cnn",
    batch_size: int = 1024,
    operations: float = LARGE,
    needed: float = 2e9,
    **asked: Any,
) -> Path:
    """Write a record of a step of so many operations on a device; one that needs more than 15 GB does not fit."""
    target = find_target(device)
    platform = "tpu" if target.kind == "tpu" else "gpu"
    kind = "product" if platform == "tpu" else "convolution"
    request = {"module": workload, "precision": target.mixed, **asked}
    facts = {"memory": 16e9, "memory_available": 15e9, "memory_needed": needed, "unit": "image"}
    missing = {"memory_missing": needed - 15e9} if needed > 15e9 else {}
    work = {
        "platform": platform,
        "items": [
            [kind, "half", operations / 100, operations / 2e4, 100, None, 1],
            ["memory", "", 0.0, 1e6, 100, None, 1],
        ],
        "unknown_loops": 0,
        "unknown_calls": 0,
    }
    made = CompiledRecord(
        asked=ProgramRequest(device=device, workload=workload, batch_size=batch_size, **request),
        status="does_not_fit" if missing else "ok",
        reason="needs more memory than it has" if missing else None,
        code_hash="0",
        facts=CompileFacts.model_validate(facts | missing | {"units_per_step": batch_size}),
        work=work,
    )
    path = folder / f"{made.asked.path}" / "key.json"
    write_compiled(made, path)
    return path


def compiled_for(folder: Path, devices: Iterable[str], **settings: Any) -> list[Path]:
    """The same step on several devices."""
    return [compiled(folder, device, **settings) for device in devices]
