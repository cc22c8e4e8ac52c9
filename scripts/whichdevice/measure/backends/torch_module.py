"""PyTorch modules as people train them, without Keras: an ordinary loop over batches, operation by operation.

The data lie on the device. Mixed precision is `torch.autocast`, in float16 with a `GradScaler`.
"""

import copy
import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends.base import Forward, Generator, Means, TrainingLoop, backend, means_of
from whichdevice.measure.backends.number_formats import emulated, product_format, storage_format
from whichdevice.measure.backends.torch import Torch
from whichdevice.measure.record import Types
from whichdevice.models.torch_model import TorchFile, TorchModel, prediction_of
from whichdevice.models.workloads.base import NO_GENERATION, Split, TrainingWorkload, prompt_length

MIXED = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}


@backend("torch", framework="torch")
class TorchModule(Torch):
    """PyTorch on one CPU or GPU, for models that are its own."""

    def start(self) -> None:
        """Import PyTorch; set precision and seed."""
        import torch

        self._torch = torch
        torch.manual_seed(self.request.seed)
        self._set_precision()

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """Data on the device, gathered by each step."""
        assert isinstance(workload, TorchFile)
        place = DeviceFormats(self.request.kind, self.request.precision)
        place.take(model)
        model.optimizer = workload.optimizer(model.module)
        return ModuleTraining(workload, model, train, validation, place)

    def forward_pass(self, model: Any) -> Forward:
        """Return the forward pass without gradients."""
        place = DeviceFormats(self.request.kind, self.request.precision)
        place.take(model)
        model.module.eval()
        return module_forward(model, place)

    def generator(self, workload: TrainingWorkload, model: Any, tokens: np.ndarray) -> Generator:
        """Operation by operation, with the cache of Hugging Face."""
        place = DeviceFormats(self.request.kind, self.request.precision)
        place.take(model)
        return TorchGenerator(model, place, tokens)

    def types(self) -> Types:
        """Return the formats of parameters and autocast; sums are float32 and rounded when stored."""
        precision = self.request.precision
        product = product_format(precision)
        return Types(
            storage=storage_format(precision),
            product=product,
            sum="float32",
            emulated=emulated(self.request.kind, product),
        )


class DeviceFormats:
    """The device of a run and the number formats on it."""

    def __init__(self, kind: str, precision: str) -> None:
        import torch

        self.device = "cuda" if kind == "gpu" else "cpu"
        self.whole = torch.bfloat16 if precision == "bfloat16" else torch.float32
        self._mixed = getattr(torch, MIXED[precision]) if precision in MIXED else None
        self.scaler = torch.amp.GradScaler(self.device, enabled=precision == "mixed_float16")

    def take(self, model: TorchModel) -> None:
        """Move a model's values to the device; in whole bfloat16 they are that."""
        import torch

        model.module.to(self.device)
        if self.whole is not torch.float32:
            model.module.to(self.whole)

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context that forward passes and losses run in."""
        import torch

        return nullcontext() if self._mixed is None else torch.autocast(self.device, self._mixed)


class ModuleTraining(TrainingLoop):
    """Zero gradients, forward, loss, backward, update, for each batch; sums stay on the device until `run` ends."""

    def __init__(
        self,
        workload: TorchFile,
        model: TorchModel,
        train: Split,
        validation: Split,
        place: DeviceFormats,
    ) -> None:
        import torch

        self._workload, self._model, self._place, self._optimizer = workload, model, place, model.optimizer
        self._examples, self._size = validation.examples, validation.batch_size or workload.options.batch_size
        self._train, self._held_out = self._tensors(train), self._tensors(validation)
        self._sums = torch.zeros(2, device=place.device)
        self._initial = self._state()

    def _tensors(self, split: Split) -> dict[str, Any]:
        import torch

        device = self._place.device
        return {name: torch.tensor(np.asarray(array), device=device) for name, array in split.arrays.items()}

    def _state(self) -> Any:
        """A copy of all that a step changes: values, statistics, optimiser, loss scale and random numbers."""
        import torch

        held = [value.detach().clone() for value in self._values()]
        random = torch.get_rng_state(), torch.cuda.get_rng_state() if self._place.device == "cuda" else None
        return held, copy.deepcopy(self._optimizer.state_dict()), self._place.scaler.state_dict(), random

    def _values(self) -> list[Any]:
        return [*self._model.module.parameters(), *self._model.module.buffers()]

    def run(self, batches: np.ndarray) -> Means:
        """Train and wait for the sums, which need every step."""
        import torch

        self._model.module.train()
        self._sums.zero_()
        for index in torch.tensor(batches, device=self._place.device):
            self._step(*self._workload.batch(self._train, index))
        return means_of(self._sums / len(batches), self._workload)

    def _step(self, inputs: Any, target: Any) -> None:
        scaler = self._place.scaler
        self._optimizer.zero_grad()
        with self._place.precision():
            means = self._means(inputs, target)
        scaler.scale(means[0]).backward()
        scaler.step(self._optimizer)
        scaler.update()
        self._sums += means.detach()

    def _means(self, inputs: Any, target: Any) -> Any:
        """Loss and metric of a batch, float32 [2]; the loss alone has gradients."""
        import torch

        output = self._workload.forward(self._model.module, inputs, target)
        loss = self._workload.loss(target, output)
        if self._workload.metric is None:
            return torch.stack([loss, torch.zeros_like(loss)])
        with torch.no_grad():
            metric = self._workload.quality(target, output)
        return torch.stack([loss, metric])

    def reset(self) -> None:
        """Write back what every value held at first, and start the optimiser anew."""
        import torch

        held, optimizer, scale, random = self._initial
        with torch.no_grad():
            for value, kept in zip(self._values(), held, strict=True):
                value.copy_(kept)
        self._optimizer.load_state_dict(copy.deepcopy(optimizer))
        self._place.scaler.load_state_dict(scale)
        torch.set_rng_state(random[0])
        if random[1] is not None:
            torch.cuda.set_rng_state(random[1])

    def evaluate(self) -> Means:
        """Weighted by batch, so that the tail counts for what it is."""
        import torch

        self._model.module.eval()
        sums = torch.zeros(2, device=self._place.device)
        with torch.no_grad(), self._place.precision():
            for start in range(0, self._examples, self._size):
                index = torch.arange(start, min(start + self._size, self._examples), device=self._place.device)
                sums += self._means(*self._workload.batch(self._held_out, index)) * len(index)
        return means_of(sums / self._examples, self._workload)

    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions of the module as it is now."""
        import torch

        self._model.module.eval()
        with torch.no_grad(), self._place.precision():
            inputs, _ = self._workload.batch(self._held_out, torch.tensor(index, device=self._place.device))
            prediction = prediction_of(self._workload.forward(self._model.module, inputs))
        return prediction.float().cpu().numpy()


def module_forward(model: TorchModel, place: DeviceFormats) -> Forward:
    """The forward pass without gradients, of NumPy inputs."""
    from whichdevice.measure.backends.torch_devices import forward_pass

    workload = model.workload

    def predicted(inputs: Any) -> Any:
        with place.precision():
            return prediction_of(workload.forward(model.module, inputs)).float()

    return forward_pass(predicted, lambda leaf: workload.typed(leaf.to(place.device)))


class TorchGenerator(Generator):
    """Generates on one CPU or GPU; `place` is the run's device with its number formats."""

    def __init__(self, model: TorchModel, place: Any, tokens: np.ndarray) -> None:
        import torch

        module, label = model.module, model.workload.address.label
        if not (hasattr(module, "can_generate") and module.can_generate()):
            raise StudyError(f"{label}: {NO_GENERATION}")
        config = module.config.get_text_config(decoder=True)
        self._module, self._place = module.eval(), place
        batch, self._length = tokens.shape
        self._prompt = prompt_length(self._length)
        self._tokens = torch.from_numpy(tokens[:, : self._prompt].copy()).long().to(place.device)
        named = inspect.signature(module.forward).parameters
        self._name = "cache" if "cache" in named else "past_key_values"  # of earlier versions
        self._cache: Any = None
        self._next: Any = None
        self._filled = 0
        heads = config.num_attention_heads
        kept = getattr(config, "num_key_value_heads", None) or heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        with place.precision():
            number = torch.matmul(*(torch.ones((1, 1), dtype=place.whole, device=place.device),) * 2)
        width_bytes = number.element_size()  # keys are products, in the format of autocast
        self.cache_bytes = 2 * config.num_hidden_layers * batch * self._length * kept * width * width_bytes

    def prefill(self) -> None:
        """Fill a new cache."""
        from transformers import StaticCache

        self._cache = self._next = None  # the old one goes first
        self._cache = StaticCache(config=self._module.config, max_cache_len=self._length)
        self._next = self._continued(self._tokens)
        self._filled = self._prompt
        self._next.cpu()

    def decode(self, steps: int) -> None:
        """When all places are filled, those behind the prompt are used again: each token costs the same."""
        for _ in range(steps):
            if self._filled == self._length:
                self._cache.crop(self._prompt - self._length)
                self._filled = self._prompt
            self._next = self._continued(self._next)
            self._filled += 1
        self._next.cpu()

    def _continued(self, tokens: Any) -> Any:
        """The token after these with the highest score, [batch, 1]."""
        import torch

        with torch.no_grad(), self._place.precision():
            output = self._module(tokens, use_cache=True, logits_to_keep=1, **{self._name: self._cache})
        return output.logits[:, -1:].argmax(dim=-1)
