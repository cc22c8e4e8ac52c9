"""What a run asks of a model that is PyTorch's or JAX's own. Methods with names of Keras' are called on any model."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whichdevice.workloads.costs import Costs


class NativeModel(ABC):
    """A model that is not Keras'."""

    stop_training = False
    kind = "model"  # the name of the user's class

    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Numbers of the model: all weights and statistics, and the trained ones."""

    def count_params(self) -> int:
        """All weights and statistics."""
        return self.sizes()[0]

    @abstractmethod
    def summary(self, print_fn: Callable[..., Any] = print) -> None:
        """Print the model's parts."""

    @abstractmethod
    def save_weights(self, path: Path) -> None:
        """Write the trained values to a file."""

    @abstractmethod
    def learning_rate(self) -> float | None:
        """Of its optimiser, or None where that does not say."""

    @property
    @abstractmethod
    def costs(self) -> "Costs":
        """What one example costs, forward and backward."""

    @property
    @abstractmethod
    def output_shape(self) -> list[int]:
        """Shape of what the model gives for one example, without the batch."""
