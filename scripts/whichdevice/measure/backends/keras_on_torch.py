"""Training a Keras model in PyTorch, operation by operation: each step gathers its batch on the device."""

from typing import Any

import numpy as np
import torch

from whichdevice.measure.backends.base import Forward, Means, TrainingLoop, means_of, optimizer_variables
from whichdevice.measure.backends.torch_devices import forward_pass
from whichdevice.models.shapes import in_mode, mapped
from whichdevice.models.steps.losses import as_one_array, build_late_parts, loss_and_metric, total_loss
from whichdevice.models.workloads.base import Split, TrainingWorkload


def place(arrays: dict[str, np.ndarray], device: str) -> dict[str, Any]:
    """A copy of each array on the device."""
    return {name: torch.tensor(np.asarray(array), device=device) for name, array in arrays.items()}


class State:
    """All that a step changes, copied to the host: variables in Keras' order and PyTorch's random generators."""

    def __init__(self, variables: list[Any], device: str) -> None:
        self._values = [variable.value.detach() for variable in variables]
        self._held = [value.cpu().clone() for value in self._values]
        self._random = torch.get_rng_state(), torch.cuda.get_rng_state() if device == "cuda" else None

    def restore(self) -> None:
        """Write it back in place."""
        for value, held in zip(self._values, self._held, strict=True):
            value.copy_(held)
        torch.set_rng_state(self._random[0])
        if self._random[1] is not None:
            torch.cuda.set_rng_state(self._random[1])


class TorchTraining(TrainingLoop):
    """Gather, forward, backward and update for each batch; sums stay on the device until `run` ends."""

    def __init__(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split, device: str) -> None:
        self._workload, self._model, self._optimizer = workload, model, model.optimizer
        self._validation, self._device = validation, device
        self._train, self._held_out = place(train.arrays, device), place(validation.arrays, device)
        self._sums = torch.zeros(2, device=device)
        self._own = workload.own_step(model)
        if self._own and self._held_out:
            self._build_late_parts()
        self._started = {id(variable) for variable in optimizer_variables(model)}
        self._initial = State([*model.variables, *optimizer_variables(model)], device)

    def _build_late_parts(self) -> None:
        import keras

        batch = self._workload.batch(self._held_out, torch.zeros(2, dtype=torch.int32, device=self._device))
        with keras.StatelessScope(), torch.no_grad():
            build_late_parts(self._workload, self._model, batch)
        self._model.reset_metrics()

    def run(self, batches: np.ndarray) -> Means:
        """Train and wait for the sums, which need every step."""
        placed = torch.tensor(batches, device=self._device)
        self._sums.zero_()
        if self._own:
            self._model.reset_metrics()
        for index in placed:
            self._step(index)
        return means_of(self._sums if self._own else self._sums / len(batches), self._workload)

    def _step(self, index: Any) -> None:
        if self._own:
            logs = self._model.train_step(self._workload.batch(self._train, index))
            with torch.no_grad():
                self._sums.copy_(self._pair(logs))
            return
        inputs, target = self._workload.batch(self._train, index)
        self._model.zero_grad()
        prediction = self._model(inputs, **in_mode(self._model, True))
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
        for variable in optimizer_variables(self._model):  # which an own step built when it first ran
            if id(variable) not in self._started:
                variable.value.detach().zero_()

    @torch.no_grad()
    def evaluate(self) -> Means | None:
        """Weighted by batch, so that the tail counts for what it is."""
        if self._workload.outputs(self._model) is None:
            return None
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
        if self._workload.outputs(self._model) is None:
            return np.zeros((len(index), 0), np.float32)
        inputs = self._workload.batch(self._held_out, torch.tensor(index, device=self._device))[0]
        return as_one_array(self._model(inputs, **in_mode(self._model, False))).cpu().numpy()

    def _predicted(self, index: Any) -> tuple[Any, Any]:
        inputs, target = self._workload.batch(self._held_out, index)
        return self._model(inputs, **in_mode(self._model, False)), target


def keras_forward(model: Any, device: str) -> Forward:
    """The model's forward pass without gradients."""

    def predicted(inputs: Any) -> Any:
        return mapped(lambda leaf: leaf.float(), model(inputs, **in_mode(model, False)))

    return forward_pass(predicted, lambda leaf: leaf.to(device))
