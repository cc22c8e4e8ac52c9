"""What one rank runs: the loop that is asked for, on its share of each batch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from whichdevice.backends.base import TrainingLoop, check_own_step, needs_optimizer
from whichdevice.backends.fit_loop import FitLoop
from whichdevice.backends.torch_training import TorchTraining, place
from whichdevice.errors import StudyError
from whichdevice.records.schema import Request
from whichdevice.workloads.base import Split, TrainingWorkload

ReportSteps = Callable[[str], None]


class Parallel(keras.Model):
    """A model whose training goes through PyTorch's DistributedDataParallel, for `fit`: weights are the model's own."""

    def __init__(self, model: Any, parallel: Any) -> None:
        super().__init__()
        self.model = model
        self._parallel = lambda *inputs, **named: parallel(*inputs, **named)  # Keras would track a module as a layer
        self.optimizer = model.optimizer

    @property
    def outputs(self) -> list[Any]:
        """The model's own: what describes predictions reads them."""
        return list(self.model.outputs)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """The model's predictions; `meta` tensors, with which Keras finds shapes, have no gradients to average."""
        if inputs.device.type == "meta":
            return self.model(inputs, training=training)
        return self._parallel(inputs, training=training)


def build_loop(
    request: Request, workload: TrainingWorkload, model: Any, train: Split, validation: Split, report_steps: ReportSteps
) -> TrainingLoop:
    """The epoch loop or `fit`; sets `model.optimizer`, built. On several ranks all must build it at the same time."""
    device = "cuda" if request.kind == "gpu" else "cpu"
    model.optimizer = _optimizer(request, workload, model)
    several, fit = request.replicas > 1, request.loop == "fit"
    parallel = _parallel(model, device) if several else model
    data = replace(train, arrays={}) if fit else train
    compiles = device == "cuda" and not several and not fit
    inner = TorchTraining(workload, model, parallel, data, validation, device, compiles, report_steps)
    if not fit:
        return inner
    trained = Parallel(model, parallel) if several else model
    loop = FitLoop(workload, trained, inner, _host_feed(workload, train))
    report_steps("torch.compile" if trained.jit_compile else "eager")
    return loop


def _parallel(model: Any, device: str) -> Any:
    """The model with gradients averaged over the ranks, as in Keras' guide; it begins with rank 0's weights."""
    return DistributedDataParallel(model, device_ids=[torch.cuda.current_device()] if device == "cuda" else None)


def _optimizer(request: Request, workload: TrainingWorkload, model: Any) -> Any:
    """Built; in float16 it scales the loss, as Keras' `compile` would have it."""
    if workload.own_step(model):
        check_own_step(model, request.loop)
        if request.replicas > 1:
            raise StudyError(f"{request.device}: PyTorch trains a compiled Keras model on one replica, not on several")
        if needs_optimizer(model):
            model.optimizer.build(model.trainable_variables)
        return model.optimizer
    optimizer = workload.optimizer()
    if request.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer


def _host_feed(workload: TrainingWorkload, train: Split) -> Callable[[np.ndarray], Any]:
    """Batches gathered on the host one by one, as `fit` asks for them; Keras moves them to the device."""
    arrays = place(train.arrays, "cpu")

    class Batches(keras.utils.PyDataset):
        def __init__(self, batches: np.ndarray) -> None:
            super().__init__()
            self._batches = torch.from_numpy(np.ascontiguousarray(batches))

        def __len__(self) -> int:
            return len(self._batches)

        def __getitem__(self, step: int) -> Any:
            with keras.device("cpu"):
                return workload.batch(arrays, self._batches[step])

    return Batches
