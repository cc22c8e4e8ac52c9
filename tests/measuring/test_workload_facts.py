"""What a record says of its workload's work."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import synthetic

from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.measure import training_run as facts_of
from whichdevice.measure.record import Request, WorkloadFacts
from whichdevice.models.costs import Costs
from whichdevice.models.loading import Model
from whichdevice.models.shapes import Array
from whichdevice.models.workloads.base import Options, Split, TrainingWorkload
from whichdevice.study.cells import study_runs
from whichdevice.study.request import build_request

OPEN_FILE = """
import keras

INPUT = {{"shape": {shape}}}
TARGET = {{"shape": (2,)}}
LOSS, OPTIMIZER = "mse", "sgd"


def model(options):
    inputs = keras.Input({asked})
    inner = keras.Input({asked})
    nested = keras.Model(inner, keras.layers.{layer}(5, 3)(inner))
    pooled = keras.layers.{pooling}()(nested(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(pooled))
"""


def request_for(**changes: Any) -> Request:
    study = synthetic.small_study()
    study.data.sources = {"mnist": "standin"}
    return build_request(study, study_runs(study)[0]).model_copy(update=changes)


def facts_for(path: Path, text: str, length: int | None = None) -> WorkloadFacts:
    """Of a model file on its own data."""
    path.write_text(text)
    workload = Model.read(str(path)).workload(Options(4, sequence_length=length))
    assert isinstance(workload, TrainingWorkload)
    train, validation = workload.splits({})
    backend: Any = SimpleNamespace(activation_copies=1.0)
    request = request_for(batch_size=4, sequence_length=length)
    return facts_of.workload_facts(backend, workload, request, workload.model(), train, validation)


def test_a_model_that_leaves_the_size_of_images_open_is_counted_at_that_of_the_data(tmp_path: Path) -> None:
    image = {"shape": (20, 20, 3), "layer": "Conv2D", "pooling": "GlobalAveragePooling2D"}
    found = facts_for(tmp_path / "open.py", OPEN_FILE.format(asked=(None, None, 3), **image))
    fixed = facts_for(tmp_path / "fixed.py", OPEN_FILE.format(asked=(20, 20, 3), **image))
    assert found.input_shape == [4, 20, 20, 3]
    assert found.flops_per_step == fixed.flops_per_step > 4 * 2 * 18 * 18 * 27 * 5
    assert found.bytes_per_step == fixed.bytes_per_step
    assert found.estimated_memory == fixed.estimated_memory
    assert found.flops_counted == WHOLE_COUNT


def test_a_sequence_length_that_only_the_config_gives_is_recorded(tmp_path: Path) -> None:
    text = OPEN_FILE.format(asked=(None, 3), shape=(None, 3), layer="Conv1D", pooling="GlobalAveragePooling1D")
    assert facts_for(tmp_path / "sequence.py", text, 30).input_shape == [4, 30, 3]


@pytest.mark.parametrize(
    ("precision", "replicas", "weights"),
    [("float32", 1, 12), ("float32", 4, 48), ("mixed_bfloat16", 4, 48), ("bfloat16", 1, 6)],
)
def test_every_replica_moves_its_own_weights_in_the_format_that_holds_them(monkeypatch, precision, replicas, weights):
    costs = Costs(forward_flops=1.0, training_flops=3.0, activations=0.0, parameters=1000, trainable_parameters=1000)
    monkeypatch.setattr(facts_of, "model_costs", lambda *_, **__: costs)
    request = request_for(precision=precision, replicas=replicas)
    shapes = [SimpleNamespace(shape=(None, 28, 28, 1))]
    model: Any = SimpleNamespace(inputs=shapes, outputs=shapes, layers=[])
    workload: Any = SimpleNamespace(
        unit="image", metric=None, higher_is_better=True, steps_per_epoch=lambda examples, asked: 1,
        example=lambda model: Array((28, 28, 1)), outputs=lambda model: Array((10,)),
    )  # fmt: skip
    split = Split({}, examples=10)
    backend: Any = SimpleNamespace(activation_copies=1.0)
    found = facts_of.workload_facts(backend, workload, request, model, split, split)
    assert found.bytes_per_step == weights * 1000
