"""Training in PyTorch: each step gathers its batch on the device; on a GPU `torch.compile` makes programs of a step.

`build_loop` makes what one rank runs: the loop that is asked for, on its share of each batch.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends.base import (
    Forward,
    Means,
    TrainingLoop,
    as_one_array,
    build_late_parts,
    built_optimizer,
    loss_and_metric,
    means_of,
    total_loss,
)
from whichdevice.measure.backends.fit_loop import FitLoop
from whichdevice.measure.backends.torch_devices import forward_pass, works_compiled
from whichdevice.measure.record import Request
from whichdevice.models.shapes import in_mode, mapped
from whichdevice.models.workloads.base import Split, TrainingWorkload

COMPILER = {"mode": "reduce-overhead"}  # CUDA graphs, where PyTorch finds that they can hold the programs
ReportSteps = Callable[[str], None]


def place(arrays: dict[str, np.ndarray], device: str) -> dict[str, Any]:
    """A copy of each array on the device."""
    return {name: torch.tensor(np.asarray(array), device=device) for name, array in arrays.items()}


class State:
    """Everything that a step changes, copied to the host: variables in Keras' order and PyTorch's random generators."""

    def __init__(self, variables: list[Any], device: str) -> None:
        self._values = [variable.value.detach() for variable in variables]
        self._device = device
        self._held = [value.cpu().clone() for value in self._values]
        self._random = torch.get_rng_state(), torch.cuda.get_rng_state() if device == "cuda" else None

    def restore(self) -> None:
        """Write everything back in place, where a compiled step finds it."""
        for value, held in zip(self._values, self._held, strict=True):
            value.copy_(held)
        torch.set_rng_state(self._random[0])
        if self._random[1] is not None:
            torch.cuda.set_rng_state(self._random[1])


class TorchTraining(TrainingLoop):
    """Gather, forward, backward and update for each batch; sums stay on the device until `run` ends.

    `forward` is called for predictions in training: the model itself, or what averages its gradients over ranks.
    `report_steps` hears how steps run (compiled or one by one) as soon as the first has shown it.
    """

    def __init__(
        self,
        workload: TrainingWorkload,
        model: Any,
        forward: Callable[..., Any],
        train: Split,
        validation: Split,
        device: str,
        compiles: bool,
        report_steps: Callable[[str], None],
    ) -> None:
        self._workload, self._model, self._optimizer = workload, model, model.optimizer
        self._forward, self._validation, self._device, self._report_steps = forward, validation, device, report_steps
        self._train, self._held_out = place(train.arrays, device), place(validation.arrays, device)
        self._compiles = compiles
        self._sums = torch.zeros(2, device=device)
        self._own = workload.own_step(model)
        if self._own and self._held_out:
            self._build_late_parts()
        self._initial = self._state()
        self._advance: Callable[[Any], None] | None = None

    def _build_late_parts(self) -> None:
        import keras

        batch = self._workload.batch(self._held_out, torch.zeros(2, dtype=torch.int32, device=self._device))
        with keras.StatelessScope(), torch.no_grad():
            build_late_parts(self._workload, self._model, batch)
        self._model.reset_metrics()

    def _state(self) -> State:
        return State([*self._model.variables, *self._optimizer.variables], self._device)

    def run(self, batches: np.ndarray) -> Means:
        """Train and wait for the sums, which need every step."""
        placed = torch.tensor(batches, device=self._device)
        if self._advance is None:
            self._advance = self._best_way(placed[0])
        self._sums.zero_()
        if self._own:
            self._model.reset_metrics()
        for index in placed:
            self._advance(index)
        return means_of(self._sums if self._own else self._sums / len(batches), self._workload)

    def _best_way(self, example: Any) -> Callable[[Any], None]:
        """Compiled where that is asked for and PyTorch can do it, else step by step."""
        if not self._compiles:
            self._report_steps("eager")
            return self._step
        before = self._state()
        compiled = torch.compile(self._step, **COMPILER)

        def advance(index: Any) -> None:
            torch.compiler.cudagraph_mark_step_begin()
            compiled(index)

        try:
            return advance if works_compiled(lambda: advance(example), self._report_steps) else self._step
        finally:
            before.restore()

    def _step(self, index: Any) -> None:
        if self._own:
            logs = self._model.train_step(self._workload.batch(self._train, index))
            with torch.no_grad():
                self._sums.copy_(self._pair(logs))
            return
        inputs, target = self._workload.batch(self._train, index)
        self._model.zero_grad()
        prediction = self._forward(inputs, **in_mode(self._model, True))
        loss = total_loss(self._workload.loss(target, prediction), self._model.losses)
        self._optimizer.scale_loss(loss).backward()
        variables = self._model.trainable_variables
        with torch.no_grad():
            self._optimizer.apply([variable.value.grad for variable in variables], variables)
            self._sums += self._means(loss, target, prediction)

    def _pair(self, logs: Any) -> Any:
        pair = loss_and_metric(logs, self._workload.metric)
        return torch.stack([torch.as_tensor(mean, device=self._device).detach().float() for mean in pair])

    def _means(self, loss: Any, target: Any, prediction: Any) -> Any:
        with torch.no_grad():
            has_metric = self._workload.metric is not None
            metric = self._workload.quality(target, prediction) if has_metric else torch.zeros_like(loss)
            return torch.stack([loss.float(), metric.float()])

    def reset(self) -> None:
        """Write back what every variable held at first, random state included."""
        self._initial.restore()

    @torch.no_grad()
    def evaluate(self) -> Means:
        """Weighted by batch, so that the tail counts for what it is."""
        examples = self._validation.examples
        size = self._validation.batch_size or self._workload.options.batch_size
        sums = torch.zeros(2, device=self._device)
        if self._own:
            self._model.reset_metrics()
        for start in range(0, examples, size):
            index = torch.arange(start, min(start + size, examples), dtype=torch.int32, device=self._device)
            if self._own:  # means so far
                sums = self._pair(self._model.test_step(self._workload.batch(self._held_out, index))) * examples
                continue
            prediction, target = self._predicted(index)
            loss = total_loss(self._workload.loss(target, prediction), self._model.losses)
            sums += self._means(loss, target, prediction) * len(index)
        return means_of(sums / examples, self._workload)

    @torch.no_grad()
    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions of the model as it stands."""
        inputs = self._workload.batch(self._held_out, torch.tensor(index, device=self._device))[0]
        return as_one_array(self._model(inputs, **in_mode(self._model, False))).cpu().numpy()

    def _predicted(self, index: Any) -> tuple[Any, Any]:
        inputs, target = self._workload.batch(self._held_out, index)
        return self._model(inputs, **in_mode(self._model, False)), target


def torch_forward(model: Any, device: str, compiles: bool, report_steps: Callable[[str], None]) -> Forward:
    """The model's forward pass without gradients: compiled if it `compiles` and PyTorch can do it, else eager."""

    def predicted(inputs: Any) -> Any:
        return mapped(lambda leaf: leaf.float(), model(inputs, **in_mode(model, False)))

    program = torch.compile(predicted, **COMPILER) if compiles else None
    return forward_pass(predicted, lambda leaf: leaf.to(device), program, report_steps)


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
    if request.replicas > 1 and workload.own_step(model):
        raise StudyError(f"{request.device}: PyTorch trains a compiled Keras model on one replica, not on several")
    model.optimizer = built_optimizer(request, workload, model)
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
