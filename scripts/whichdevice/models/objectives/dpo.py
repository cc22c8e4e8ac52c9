"""Direct preference optimisation (Rafailov et al., 2023), as TRL's DPOTrainer: a preferred answer and another one.

Model and reference read both answers as one batch; the reference takes no gradient. With adapters it is the model
without them, else a frozen copy.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

from whichdevice.models.lora import tuned, without_adapters
from whichdevice.models.objectives import Objective
from whichdevice.models.shapes import Array, Tree
from whichdevice.models.tuning import Tuning


class Dpo(Objective):
    """Pairs of answers to one prompt, better and worse."""

    unit = "pair"

    def shapes(self, vocabulary: int) -> tuple[Tree, Tree]:
        """Return both texts with their prompt, and the prompt's length."""
        words = Array((None,), "int32", vocabulary)
        return {"chosen": words, "rejected": words}, {"prompt": Array((), "int32", 2)}

    def module(self, model: Any, reference: Callable[[], Any] | None) -> nn.Module:
        """Return the model with its reference."""
        return Preferred(model, Reference(model, reference))


class Reference(nn.Module):
    """The model as it was: a frozen copy, or the model itself without adapters."""

    def __init__(self, model: nn.Module, make: Callable[[], Any] | None) -> None:
        super().__init__()
        self.copy = None if make is None else make().requires_grad_(False)
        self._model = [model]  # in a list: its weights are the model's

    @torch.no_grad()
    def forward(self, **given: Any) -> Tensor:
        """Scores of all words."""
        if self.copy is not None:
            return self.copy(**given).logits
        with without_adapters(self._model[0]):
            return self._model[0](**given).logits


class Wrapped(nn.Module):
    """A model with the loss of an objective, perhaps with its reference."""

    def __init__(self, model: nn.Module, reference: Reference | None = None) -> None:
        super().__init__()
        self.model, self.reference = model, reference

    @property
    def trains_all(self) -> bool:
        """Return whether all weights of the model are trained."""
        return all(parameter.requires_grad for parameter in self.model.parameters())

    def adapted(self, tuning: Tuning) -> nn.Module:
        """Return it with adapters; without them the model is its own reference."""
        tuned(self.model, tuning, "LoRA")
        if self.reference is not None:
            self.reference.copy = None
        return self


class Preferred(Wrapped):
    """A model with a loss of pairs."""

    def forward(self, chosen: Tensor, rejected: Tensor, prompt: Tensor) -> CausalLMOutput:
        """Loss of a batch of pairs."""
        words, prompts = torch.cat([chosen, rejected]), torch.cat([prompt, prompt])
        scores = self.model(input_ids=words).logits
        assert self.reference is not None
        better, worse = of_answers(scores, words, prompts).chunk(2)
        before, before_worse = of_answers(self.reference(input_ids=words), words, prompts).chunk(2)
        loss = -nn.functional.logsigmoid(0.1 * ((better - before) - (worse - before_worse)))
        return CausalLMOutput(loss=loss.mean(), logits=scores)


def of_answers(scores: Tensor, words: Tensor, prompts: Tensor) -> Tensor:
    """Log probability of each answer, the sum over its words behind the prompt."""
    logs = log_probabilities(scores[:, :-1], words[:, 1:])
    behind = torch.arange(logs.shape[1], device=logs.device) >= prompts[:, None]
    return (logs * behind).sum(-1)


def log_probabilities(scores: Tensor, words: Tensor) -> Tensor:
    """Log probability of each word in float32; normalised text by text, as TRL does to save memory."""
    scores = scores.float()
    chosen = scores.gather(-1, words[..., None])[..., 0]
    return chosen - torch.stack([text.logsumexp(-1) for text in scores])
