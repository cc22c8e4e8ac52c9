"""What a training workload turned out to be, once its data and its model are there."""

import io
from typing import Any

from whichdevice.backends.base import Backend
from whichdevice.measuring.memory_need import estimated_memory
from whichdevice.records.facts import WorkloadFacts
from whichdevice.records.request import Request
from whichdevice.workloads.base import Split, TrainingWorkload
from whichdevice.workloads.costs import Costs, model_costs


def workload_facts(
    backend: Backend, workload: TrainingWorkload, request: Request, model: Any, train: Split, validation: Split
) -> tuple[WorkloadFacts, Costs]:
    """For the record, at the request's batch size; and what one example costs."""
    costs = model_costs(model, request.sequence_length or workload.recipe.sequence_length)
    summary = io.StringIO()
    model.summary(print_fn=lambda line, **_: summary.write(line + "\n"))
    data_bytes = sum(array.nbytes for split in (train, validation) for array in split.arrays.values())
    need = estimated_memory(costs, request, data_bytes, backend.activation_copies)
    width = 4 if request.precision in ("float32", "tf32") else 2  # of activations
    weight = 2 if request.precision in ("bfloat16", "float16") else 4  # mixed formats keep them in float32
    sequence = workload.sequence_length if workload.recipe.sequence_length else None
    facts = WorkloadFacts(
        unit=workload.unit,
        input_shape=[request.batch_size, *(size or sequence or 1 for size in model.inputs[0].shape[1:])],
        target_shape=[request.batch_size, *(size or sequence or 1 for size in model.outputs[0].shape[1:])],
        parameters=costs.parameters,
        trainable_parameters=costs.trainable_parameters,
        training_examples=train.examples,
        validation_examples=validation.examples,
        steps_per_epoch=request.steps_per_epoch or workload.steps_per_epoch(train.examples),
        flops_per_step=costs.training_flops * request.batch_size,
        flops_counted=costs.counted,
        bytes_per_step=costs.trainable_parameters * 3 * weight * request.replicas  # each replica has its own
        + costs.activations * request.batch_size * 2 * width,
        estimated_memory=need,
        metric=workload.metric,
        higher_is_better=workload.higher_is_better,
        model_summary=summary.getvalue(),
    )
    return facts, costs
