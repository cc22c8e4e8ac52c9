"""Odds-ratio preference optimisation (Hong et al., 2024), as TRL's ORPOTrainer: DPO's pairs without a reference."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

from whichdevice.models.objectives.dpo import Dpo, Wrapped, of_answers


class Orpo(Dpo):
    """Pairs of answers to one prompt, better and worse."""

    def module(self, model: Any, reference: Callable[[], Any] | None) -> nn.Module:
        """Return the model alone."""
        return Odds(model)


class Odds(Wrapped):
    """A model with a loss of the better answer, and of the odds of both."""

    def forward(self, chosen: Tensor, rejected: Tensor, prompt: Tensor) -> CausalLMOutput:
        """Loss of a batch of pairs."""
        words, prompts = torch.cat([chosen, rejected]), torch.cat([prompt, prompt])
        scores = self.model(input_ids=words).logits
        answers = of_answers(scores, words, prompts) / words.shape[1]
        better, worse = (answers - torch.log1p(-answers.exp())).chunk(2)
        known, wanted = scores[: len(chosen), :-1].float(), chosen[:, 1:]
        likelihood = nn.functional.cross_entropy(known.flatten(0, 1), wanted.flatten())
        loss = likelihood - 0.1 * nn.functional.logsigmoid(better - worse).mean()
        return CausalLMOutput(loss=loss, logits=scores)
