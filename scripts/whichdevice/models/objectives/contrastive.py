"""Embeddings of texts with in-batch negatives, as sentence-transformers' MultipleNegativesRankingLoss.

Both texts of a pair go through one encoder; a text's other half is the class among all of the batch. A larger batch has
more negatives. A text is the mean of its words, or its last word in a decoder.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from whichdevice.models.objectives import EMBED_TASKS, Objective
from whichdevice.models.objectives.dpo import Wrapped
from whichdevice.models.shapes import Array, Tree

SCALE = 20.0  # of cosines


class Contrastive(Objective):
    """Pairs of texts that belong together."""

    unit = "pair"
    tasks = EMBED_TASKS
    in_one_pass = True
    note = "an example is a pair of texts, the batch's other texts are negatives; classifiers: --option objective=sft"

    def shapes(self, vocabulary: int) -> tuple[Tree, Tree]:
        """Return a text and the one that belongs to it."""
        words = Array((None,), "int32", vocabulary)
        return {"anchor": words}, {"positive": words}

    def module(self, model: Any, reference: Callable[[], Any] | None) -> nn.Module:
        """Return the model without its head."""
        return Embedded(model.base_model, last=not hasattr(model, "classifier"))


class Embedded(Wrapped):
    """An encoder with a loss of pairs."""

    def __init__(self, model: nn.Module, last: bool) -> None:
        super().__init__(model)
        self.last = last

    def forward(self, anchor: Tensor, positive: Tensor) -> SequenceClassifierOutput:
        """Loss of a batch of pairs."""
        scores = SCALE * self._embedded(anchor) @ self._embedded(positive).T
        wanted = torch.arange(len(anchor), device=anchor.device)
        return SequenceClassifierOutput(loss=nn.functional.cross_entropy(scores.float(), wanted), logits=scores)

    def _embedded(self, words: Tensor) -> Tensor:
        states = self.model(input_ids=words).last_hidden_state
        return nn.functional.normalize(states[:, -1] if self.last else states.mean(1), dim=-1)
