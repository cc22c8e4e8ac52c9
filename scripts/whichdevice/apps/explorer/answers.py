"""The page: Python's answer for each well-known model, from its kept steps, and a row for each device."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whichdevice.apps.explorer.steps import (
    ADAPTERS,
    GROUPS,
    HALF,
    LORA,
    MEMORY_PARTS,
    MIXED,
    QLORA,
    SINGLE,
    KnownModel,
    items_of,
    known_models,
)
from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.decide import Answer, Wants, words
from whichdevice.decide.decide import DEADLINE_HOURS, MILLION, amount_of, decide
from whichdevice.decide.rows import works
from whichdevice.forecast import tpu
from whichdevice.forecast.answer import forecast_of
from whichdevice.forecast.count.kept import StepCount, record_on
from whichdevice.forecast.products import CompiledRecord, ProgramRequest
from whichdevice.forecast.targets import Target, all_targets, usual_precision
from whichdevice.forecast.torch.facts import facts_on, outcome, way_on, work_of
from whichdevice.forecast.work import Software, Work
from whichdevice.study.report.chart import chart
from whichdevice.study.report.page import render
from whichdevice.study.report.products import products

UNTRACED = "this page has not computed such a step there; whichdevice ask forecasts it, from a file of the model"
NO_HALF = "they have no fast products in 16 bits, which such a training is in"
NO_BFLOAT16 = "they have no bfloat16, and with a second copy of the weights in float32 the training is too large"
DEFAULTS, USUAL_BATCH = (MIXED, HALF, LORA, QLORA), 128
EXPLORER_FOLDER = Path(__file__).parent
FIRST = "resnet50"  # the model that the page begins with

Served = Callable[[str], Sequence[str]]  # lines on what serves a model, of its name


@dataclass(frozen=True)
class KeptTrace:
    """A trace as it was kept: what a forecast and a need of memory read of one."""

    work: Work
    fused: Work
    memory: dict[str, float]
    forward: Work | None = None


def targets() -> list[Target]:
    """Return every device of the sheet, GPU or TPU, that can be had alone: steps are kept for one device."""
    by_device = {target.device: target for software in ("eager", "xla") for target in all_targets(1, software)}
    return [target for target in by_device.values() if target.devices == 1]


def default_answer(
    model: KnownModel, devices: Iterable[Target], sheet: Mapping[str, HardwareRow]
) -> tuple[str, Answer]:
    """Return the first training for which a device has an answer, with that; of a million examples."""
    batch = min(model.batches, key=lambda size: abs(math.log(size / USUAL_BATCH)))
    for training in (name for name in DEFAULTS if name in model.steps):
        answer = answer_for(model, training, batch, devices, sheet)
        if answer.pick is not None:
            break
    return training, answer


def answer_for(
    model: KnownModel, training: str, batch: int, devices: Iterable[Target], sheet: Mapping[str, HardwareRow]
) -> Answer:
    """Return the answer that `ask NAME --no-measuring` has on a typical host, for all devices that can take it."""
    records = [record_for(model, training, batch, target) for target in devices]
    forecasts = [forecast_of(record) for record in records if record is not None]
    [work] = works([], forecasts, {}, sheet)
    work = replace(work, tokens=model.tokens, unit=model.unit)
    wants = Wants(examples=MILLION)
    return decide(work, wants, amount_of(work, wants))


def record_for(model: KnownModel, training: str, batch: int, target: Target) -> CompiledRecord | None:
    """Return the record of a step on a device; None where it has no such number format or software."""
    make = _of_program if model.software == "xla" else _of_trace
    return make(model, training, batch, target)


def without(model: KnownModel, training: str, target: Target) -> str | None:
    """Return why a training has no row of a device; None where it has one."""
    if model.software == "xla":
        return target.refusal(usual_precision(target, "mixed"))
    if target.kind == "tpu":
        kept = [len(step) > 2 for step in model.steps[training].values()]
        return tpu.NO_4_BITS if training == QLORA else None if all(kept) else UNTRACED
    precision, traced_as = _format(training, target)
    if training in (*ADAPTERS, HALF) and precision == "float32":
        return NO_HALF
    return None if traced_as in model.steps else NO_BFLOAT16


def _format(training: str, target: Target) -> tuple[str, str]:
    """Return the number format that a device has for a training of PyTorch, and the training whose trace has it."""
    precision = usual_precision(target, "mixed")
    traced_as = SINGLE if training == MIXED and precision == "float32" else training
    if training == HALF and precision != "mixed_bfloat16":
        traced_as = MIXED
    elif training in (*ADAPTERS, HALF) and precision == "mixed_bfloat16":  # as `ask` takes a large decoder
        precision = "bfloat16"
    return precision, traced_as


def tpu_work(sums: list[list[Any]], software: Software) -> Work:
    """Return the work of a TPU's step, which is kept apart: fewer bytes leave a TPU."""
    return Work("tpu", items_of(sums), software=software)


def _of_program(model: KnownModel, training: str, batch: int, target: Target) -> CompiledRecord | None:
    """Return the record of its counted step, which serves all devices."""
    precision = usual_precision(target, "mixed")
    if target.refusal(precision):
        return None
    count = StepCount.model_validate(model.steps[training][str(batch)])
    module = model.name.removesuffix(" in Keras")  # timm has another resnet50
    asked = ProgramRequest(
        device=target.device, workload=model.name, module=module, precision=precision, batch_size=batch
    )
    return record_on(count, asked, CompiledRecord(asked=asked, status="failed", code_hash=""))


def _of_trace(model: KnownModel, training: str, batch: int, target: Target) -> CompiledRecord | None:
    """Return the record of its trace, in the number format that the device has for such a training."""
    precision, traced_as = _format(training, target)
    if without(model, training, target) or target.refusal(precision, "eager"):
        return None
    steps, on_tpu = model.steps[traced_as], target.kind == "tpu"

    def traced(size: int, changes: tuple[str, ...]) -> Any:
        sums, memory, *of_tpu = steps[f"{size}{'c' * bool(changes)}"]
        work = tpu_work(of_tpu[0], "PyTorch") if on_tpu else Work("gpu", items_of(sums), software="eager")
        return KeptTrace(work, work, dict(zip(MEMORY_PARTS, memory, strict=False)))

    trace = way_on(target, traced, batch, mixed=False, tunable=model.has_passes).trace
    work = trace.work if on_tpu else work_of(target, trace, precision)
    facts = facts_on(target, trace, work, unit=model.unit, units_per_step=float(batch))
    asked = ProgramRequest(
        device=target.device, workload=model.name.rpartition("/")[2], module=model.name, precision=precision,
        batch_size=batch,
    )  # fmt: skip
    status, reason = outcome(facts)
    return CompiledRecord(asked=asked, status=status, reason=reason, facts=facts, work=work.digest(), code_hash="")


def write_page(page: Path, names: Iterable[str] = (), served: Served = lambda _: ()) -> None:
    """Write the page of these models, or of all; `served` says what serves one, if it can be."""
    models, sheet, devices = known_models(), hardware_rows(), targets()
    chosen = [models[name] for name in names] or list(models.values())
    described = [_described(model, devices, sheet) | {"serving": served(model.name)} for model in chosen]
    first = FIRST if FIRST in {model.name for model in chosen} else chosen[0].name
    days = [str(offer.date) for row in sheet.values() for offer in row.offers]
    render(
        "explorer.html", page, EXPLORER_FOLDER, models=described, first=first,
        dates=f"Prices: the oldest is of {min(days)}, the newest of {max(days)}.",
        examples=MILLION, deadline=DEADLINE_HOURS,
    )  # fmt: skip


def _described(model: KnownModel, devices: Sequence[Target], sheet: Mapping[str, HardwareRow]) -> dict[str, Any]:
    """Return what the page shows of a model."""
    training, answer = default_answer(model, devices, sheet)
    small = [option.device for option in answer.options if option.row.fits is False]
    return {
        "name": model.name, "group": GROUPS[model.library], "lines": words.lines(answer),
        "title": " · ".join([words.title(answer), *[training] * (training != MIXED)]),
        "chart": chart(answer), "rows": products(answer),
        "notes": [
            *([f"Too small: {words.joined(small, 6)}."] if small and answer.pick else []),
            *words.notes(answer), *_left_out(model, training, devices),
        ],
    }  # fmt: skip


def _left_out(model: KnownModel, training: str, devices: Sequence[Target]) -> list[str]:
    """Return a line for each reason why devices have no row."""
    reasons: dict[str, list[str]] = {}
    for target in devices:
        if reason := without(model, training, target):
            reasons.setdefault(reason, []).append(target.device)
    return [f"No rows of {words.joined(names)}: {reason}." for reason, names in reasons.items()]
