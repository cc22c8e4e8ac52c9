"""Generate tokens with a causal model of Hugging Face in PyTorch, one operation after the other, in a fixed cache."""

import inspect
from typing import Any

import numpy as np

from whichdevice.backends.base import Generator
from whichdevice.errors import StudyError
from whichdevice.workloads.base import NO_GENERATION, prompt_length
from whichdevice.workloads.torch_model import TorchModel


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
        each = number.element_size()  # keys are products, in the format of autocast
        self.cache_bytes = 2 * config.num_hidden_layers * batch * self._length * kept * width * each

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
