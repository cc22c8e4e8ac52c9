"""What one rank runs: the loop that is asked for, on its share of each batch."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import torch
from torch import distributed

from whichdevice.backends.base import TrainingLoop
from whichdevice.backends.fit_loop import FitLoop
from whichdevice.backends.torch_graph import scale_without_branch
from whichdevice.backends.torch_training import TorchTraining, place
from whichdevice.records.request import Request
from whichdevice.workloads.base import Split, TrainingWorkload

Tell = Callable[[str], None]


def build_loop(
    request: Request, workload: TrainingWorkload, model: Any, train: Split, validation: Split, tell: Tell
) -> TrainingLoop:
    """The epoch loop or `fit`; sets `model.optimizer`, built, with gradients averaged over the ranks."""
    device = "cuda" if request.kind == "gpu" else "cpu"
    model.optimizer = _optimizer(request, workload, model)
    if request.loop == "epoch":
        return TorchTraining(workload, model, train, validation, device, tell)
    inner = TorchTraining(workload, model, replace(train, arrays={}), validation, device, tell)
    loop = FitLoop(workload, model, inner, _host_feed(workload, train))
    tell("torch.compile" if model.jit_compile else "eager")
    return loop


def _optimizer(request: Request, workload: TrainingWorkload, model: Any) -> Any:
    """Built; in float16 it scales the loss, as Keras' `compile` would have it."""
    optimizer = workload.optimizer()
    if request.precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    if request.precision == "mixed_float16" and request.kind == "gpu" and request.loop == "epoch":
        scale_without_branch(optimizer)
    if request.replicas > 1:
        average_gradients(optimizer, request.replicas)
    return optimizer


def average_gradients(optimizer: Any, replicas: int) -> None:
    """Let `apply` take the mean of all ranks' gradients, sent as one array.

    DistributedDataParallel sends pieces of 25 MB while it still computes; that is more than these models have.
    """
    apply = optimizer.apply

    def averaged(gradients: list[Any], variables: list[Any]) -> None:
        present = [gradient for gradient in gradients if gradient is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in present])
        distributed.all_reduce(flat)
        parts = iter((flat / replicas).split([gradient.numel() for gradient in present]))
        means = [None if gradient is None else next(parts).view(gradient.shape) for gradient in gradients]
        apply(means, variables)

    optimizer.apply = averaged


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
