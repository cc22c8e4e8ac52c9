"""Recurrent layers on a CPU through PyTorch's own LSTM and GRU, as Keras itself has them on CUDA.

Keras 3.15 otherwise loops over time in Python there, and the gradient of each step's slice is an array as large as
the whole sequence: the time grows with the square of the length. The formulas are the same (Keras' `reset_after`).
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

FALLBACKS = {"_fallback_lstm": "_cudnn_lstm", "_fallback_gru": "_cudnn_gru"}  # Keras' names; both run on any device


@contextmanager
def native_recurrence() -> Iterator[bool]:
    """While the context lasts, standard LSTM and GRU layers call PyTorch's; yields whether this Keras lets them."""
    rnn = importlib.import_module("keras.src.backend.torch.rnn")
    if not all(hasattr(rnn, name) for pair in FALLBACKS.items() for name in pair):
        yield False
        return
    kept = {name: getattr(rnn, name) for name in FALLBACKS}
    for slow, native in FALLBACKS.items():
        setattr(rnn, slow, _native_if_standard(getattr(rnn, native), kept[slow]))
    try:
        yield True
    finally:
        for name, function in kept.items():
            setattr(rnn, name, function)


def _native_if_standard(native: Callable[..., Any], slow: Callable[..., Any]) -> Callable[..., Any]:
    """Both fallbacks are called as (inputs, states …, kernel, recurrent_kernel, bias, activations, return_sequences …);
    an LSTM has two states and says last whether the batch comes first."""
    import keras

    def call(*arguments: Any) -> Any:
        is_lstm = len(arguments) == 10
        states = 2 if is_lstm else 1
        inputs, rest = arguments[0], arguments[1 : 4 + states]
        activation, recurrent_activation, return_sequences = arguments[4 + states : 7 + states]
        standard = activation is keras.activations.tanh and recurrent_activation is keras.activations.sigmoid
        if not standard or rest[-1] is None or (is_lstm and not arguments[-1]):
            return slow(*arguments)
        return native(inputs, *rest, return_sequences=return_sequences, device=inputs.device)

    return call
