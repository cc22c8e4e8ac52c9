"""What a training workload turned out to be, once its data and its model are there."""

import io
from pathlib import Path
from typing import Any

from whichdevice.backends.base import Backend
from whichdevice.measuring.memory_need import activation_bytes, estimated_memory, weight_bytes
from whichdevice.records.facts import WorkloadFacts
from whichdevice.records.request import Request
from whichdevice.workloads.base import Split, TrainingWorkload
from whichdevice.workloads.costs import Costs, model_costs, output_shape
from whichdevice.workloads.shapes import leaves


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
    )
    return facts, costs
