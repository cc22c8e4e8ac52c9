"""Faults that a training loop might have, to see that the tests of equality find them."""

from collections.abc import Callable
from typing import Any


def plant(fault: str, workload: Any) -> None:
    """Change a workload as a faulty backend would; its backend code stays as it is."""
    FAULTS[fault](workload)


def adam_epsilon(workload: Any) -> None:
    """An optimiser with another backend's default epsilon."""
    import keras

    workload.optimizer = lambda: keras.optimizers.Adam(epsilon=1e-3)


def no_shuffling(workload: Any) -> None:
    """Examples in the order of the data."""
    import numpy as np

    size = workload.options.batch_size

    class InOrder:
        def __init__(self, examples: int) -> None:
            self.place, self.examples = 0, examples

        def take(self, steps: int) -> Any:
            start, self.place = self.place, self.place + steps * size
            return (np.arange(start, self.place) % self.examples).astype(np.int32).reshape(steps, size)

    workload.order = lambda examples, seed: InOrder(examples)


def replica_sum(workload: Any) -> None:
    """Gradients of eight replicas added instead of averaged; the reported loss stays the mean."""
    build = workload.optimizer

    def summing() -> Any:
        optimizer = build()
        apply = optimizer.apply
        optimizer.apply = lambda gradients, variables: apply([8 * gradient for gradient in gradients], variables)
        return optimizer

    workload.optimizer = summing


def no_dropout(workload: Any) -> None:
    """Dropout layers that never drop."""
    import keras

    build = workload.model

    def without() -> Any:
        model = build()
        kept = [layer for layer in model.layers if not isinstance(layer, keras.layers.Dropout)]
        return keras.Sequential([keras.Input(model.inputs[0].shape[1:]), *kept])

    workload.model = without


FAULTS: dict[str, Callable[[Any], None]] = {
    fault.__name__: fault for fault in (adam_epsilon, no_shuffling, replica_sum, no_dropout)
}
