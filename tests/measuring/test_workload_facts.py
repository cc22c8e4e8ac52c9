"""What a record says of its workload."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from backends.scenario import request_for

from whichdevice.measure.job import StepWork
from whichdevice.measure.training_run import workload_facts
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options, TrainingWorkload

FILE = """
import keras

INPUT = {"shape": (None, 3)}
TARGET = {"shape": (2,)}
LOSS, OPTIMIZER = "mse", "sgd"


def model(options):
    inputs = keras.Input((None, 3))
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.Conv1D(5, 3)(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(pooled))
"""


def test_a_sequence_length_that_only_the_config_gives_is_recorded_with_what_was_counted(tmp_path: Path) -> None:
    path = tmp_path / "sequence.py"
    path.write_text(FILE, encoding="utf-8")
    workload = Model.read(str(path)).workload(Options(4, sequence_length=30))
    assert isinstance(workload, TrainingWorkload)
    train, validation = workload.splits({})
    backend: Any = SimpleNamespace(activation_copies=2.0)
    request, work = request_for(batch_size=4, sequence_length=30), StepWork(70.0, 80.0, 1e9)
    facts = workload_facts(backend, workload, request, workload.model(), train, validation, work)
    assert facts.input_shape == [4, 30, 3]
    assert (facts.parameters, facts.trainable_parameters) == (5 * 9 + 5 + 12, 5 * 9 + 5 + 12)
    assert (facts.flops_per_step, facts.bytes_per_step, facts.flops_counted) == (70.0, 80.0, work.counted)
    assert 3e9 < facts.estimated_memory < 3.5e9
