"""What a model adds to its loss by itself: regularisers of its weights and what its layers hand to `add_loss`."""

from collections.abc import Sequence
from typing import Any


def total_loss(loss: Any, own: Sequence[Any]) -> Any:
    """The loss with the model's own ones, those of its last call, added up as `fit` adds them."""
    from keras import ops

    for each in own:
        loss = ops.add(loss, ops.sum(each))
    return loss
