"""What a record says of its workload's work."""

from types import SimpleNamespace
from typing import Any

import pytest
import synthetic

from whichdevice.measuring import workload_facts as facts_of
from whichdevice.measuring.request import build_request
from whichdevice.study_runs import study_runs
from whichdevice.workloads.costs import Costs


@pytest.mark.parametrize(
    ("precision", "replicas", "weights"),
    [("float32", 1, 12), ("float32", 4, 48), ("mixed_bfloat16", 4, 48), ("bfloat16", 1, 6)],
)
def test_every_replica_moves_its_own_weights_in_the_format_that_holds_them(
    monkeypatch: pytest.MonkeyPatch, precision: str, replicas: int, weights: int
) -> None:
    costs = Costs(forward_flops=1.0, training_flops=3.0, activations=0.0, parameters=1000, trainable_parameters=1000)
    monkeypatch.setattr(facts_of, "model_costs", lambda *_: costs)
    monkeypatch.setattr(facts_of, "estimated_memory", lambda *_: 0.0)
    study = synthetic.small_study()
    study.data.sources = {"mnist": "standin"}
    request = build_request(study, study_runs(study)[0])
    request = request.model_copy(update={"precision": precision, "replicas": replicas})
    shapes = [SimpleNamespace(shape=(None, 28, 28, 1))]
    model: Any = SimpleNamespace(inputs=shapes, outputs=shapes, summary=lambda print_fn: None)
    workload: Any = SimpleNamespace(
        unit="image", metric=None, higher_is_better=True, sequence_length=None, steps_per_epoch=lambda examples: 1,
        recipe=SimpleNamespace(sequence_length=None),
    )  # fmt: skip
    split: Any = SimpleNamespace(arrays={}, examples=10)
    backend: Any = SimpleNamespace(activation_copies=1.0)
    found, _ = facts_of.workload_facts(backend, workload, request, model, split, split)
    assert found.bytes_per_step == weights * 1000
