"""Group relative policy optimisation (Shao et al., 2024), as TRL's GRPOTrainer: the training step alone.

It trains on what each answer is better than its group; writing the answers is not counted. An example is one answer
with its prompt, as TRL's batches count; half of a text is its answer, where nobody says. Only scores of the answer's
words are made. With `beta` above 0 the model as it was reads the answers, too.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

from whichdevice.models.objectives import Objective
from whichdevice.models.objectives.dpo import Reference, Wrapped, log_probabilities
from whichdevice.models.shapes import Array, Tree


class Grpo(Objective):
    """Answers that the model wrote, with what each is better than the others."""

    unit = "completion"
    options = ("completion", "beta")
    note = "the training step alone: writing the answers is not counted"

    def shapes(self, vocabulary: int) -> tuple[Tree, Tree]:
        """Return a prompt with an answer, and how good it is."""
        return {"input_ids": Array((None,), "int32", vocabulary)}, {"advantage": Array(())}

    def module(self, model: Any, reference: Callable[[], Any] | None) -> nn.Module:
        """Return the model, with its reference where the loss has one."""
        held = Reference(model, reference) if self.number("beta", 0.0) else None
        return Rewarded(model, held, self.number("completion", 0.0), self.number("beta", 0.0))


class Rewarded(Wrapped):
    """A model with a loss of the answers that it wrote."""

    def __init__(self, model: nn.Module, reference: Reference | None, completion: float, beta: float) -> None:
        super().__init__(model, reference)
        self.completion, self.beta = int(completion), beta

    def forward(self, input_ids: Tensor, advantage: Tensor) -> CausalLMOutput:
        """Loss of a batch of answers."""
        written = self.completion or input_ids.shape[1] // 2
        given = {"input_ids": input_ids, "logits_to_keep": written + 1}
        scores, words = self.model(**given).logits[:, :-1], input_ids[:, -written:]
        now = log_probabilities(scores, words)
        ratio = torch.exp(now - now.detach())
        better = torch.min(ratio * advantage[:, None], ratio.clamp(0.8, 1.2) * advantage[:, None])
        loss = -better
        if self.reference is not None:
            apart = log_probabilities(self.reference(**given)[:, :-1], words) - now
            loss = loss + self.beta * (apart.exp() - apart - 1)
        return CausalLMOutput(loss=loss.mean(), logits=scores)
