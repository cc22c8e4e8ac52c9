"""What a training workload turned out to be, once its data and its model are there."""

import io
from pathlib import Path
from typing import Any

from whichdevice.backends.base import Backend
from whichdevice.backends.number_formats import product_format
from whichdevice.measuring.memory_need import activation_bytes, estimated_memory, weight_bytes
from whichdevice.records.facts import WorkloadFacts
from whichdevice.records.request import Request
from whichdevice.workloads.base import Split, TrainingWorkload
from whichdevice.workloads.costs import Costs, model_costs, output_shape
from whichdevice.workloads.shapes import leaves

FORMATS = ("float32", "bfloat16", "float16", "float64")


def own_formats(model: Any, precision: str) -> str | None:
    """In words, which layers compute in another number format than `precision` asks for; None: none does.

    A layer in float32 among shorter ones counts only where it has weights and is no output: those are usual.
    """
    asked = product_format("float32" if precision == "tf32" else precision)
    found: dict[str, list[str]] = {}
    outputs = {name for name in getattr(model, "output_names", ())}
    for layer in _leaf_layers(model):
        own = str(layer.compute_dtype)
        usual = own == "float32" and asked != "float32" and (not layer.weights or layer.name in outputs)
        if own != asked and own in FORMATS and not usual:
            found.setdefault(own, []).append(layer.name)
    parts = [
        f"{len(names)} layers in {own} ({', '.join(names[:2])}{', …' * (len(names) > 2)})"
        for own, names in found.items()
    ]
    return f"{'; '.join(parts)}, not in {asked}" if parts else None


def _leaf_layers(model: Any) -> list[Any]:
    import keras

    found, waiting = [], list(model.layers)
    while waiting:
        layer = waiting.pop(0)
        if isinstance(layer, keras.Model):
            waiting += layer.layers
        elif not isinstance(layer, keras.layers.InputLayer):
            found.append(layer)
    return found


def workload_facts(
    backend: Backend,
    workload: TrainingWorkload,
    request: Request,
    model: Any,
    train: Split,
    validation: Split,
    counts: Path | None = None,
) -> tuple[WorkloadFacts, Costs]:
    """For the record, at the request's batch size; and what one example costs, kept in the folder `counts`."""
    example = workload.example(model)
    costs = model_costs(model, example=example, workload=workload, kept=counts)
    summary = io.StringIO()
    model.summary(print_fn=lambda line, **_: summary.write(line + "\n"))
    data_bytes = sum(array.nbytes for split in (train, validation) for array in split.arrays.values())
    need = estimated_memory(costs, request, data_bytes, backend.activation_copies)
    width, weight = activation_bytes(request.precision), weight_bytes(request.precision)
    facts = WorkloadFacts(
        unit=workload.unit,
        input_shape=[request.batch_size, *(size or 1 for size in leaves(example)[0].shape)],
        target_shape=[request.batch_size, *output_shape(model, example, workload.outputs(model))],
        parameters=costs.parameters,
        trainable_parameters=costs.trainable_parameters,
        training_examples=train.examples,
        validation_examples=validation.examples,
        steps_per_epoch=workload.steps_per_epoch(train.examples, request.steps_per_epoch),
        flops_per_step=costs.step_flops(request.batch_size),
        flops_counted=costs.counted,
        bytes_per_step=costs.trainable_parameters * 3 * weight * request.replicas  # each replica has its own
        + costs.activations * request.batch_size * 2 * width,
        estimated_memory=need,
        metric=workload.metric,
        higher_is_better=workload.higher_is_better,
        model_summary=summary.getvalue(),
        remarks=[own] if (own := own_formats(model, request.precision)) is not None else [],
    )
    return facts, costs
