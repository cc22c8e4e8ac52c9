"""Keras' LSTM and GRU layers as a GPU runs them: cuDNN's whole layer in place of the program's loop over time steps.

A step that is lowered for a device that is not here has Keras' loops. TensorFlow takes cuDNN for both kinds of layers,
JAX for an LSTM, where a layer has the usual activations. The work of such a layer is counted as in a trace of PyTorch
(forecast/torch/recurrent.py, with published times): one product for all inputs, then two kernels a time step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whichdevice.forecast.work import FUSED_GRU, FUSED_RECURRENT, LOOPED, Item, Precision

WIDTHS: dict[Precision, float] = {"half": 2.0, "tf32": 4.0, "float32": 4.0}  # bytes of a number


@dataclass(frozen=True)
class Recurrent:
    """One layer in one direction."""

    kind: str  # LSTM or GRU
    steps: int
    features: int  # of a time step's input
    units: int


def recurrent_layers(model: Any, steps: int | None) -> tuple[list[Recurrent], str | None]:
    """The model's layers that cuDNN takes, and how its recurrent layers run in a forecast, as a note.

    `steps` is the length of sequences where the model leaves it open. Where one layer is not cuDNN's, or its length is
    not known, all stay the loops of the program.
    """
    import keras

    kinds = {keras.layers.LSTM: "LSTM", keras.layers.GRU: "GRU"}
    recurrent: list[Recurrent] = []
    names, looped = set[str](), False
    waiting: list[tuple[Any, Any]] = [(model, None)]  # layers, and what holds their input
    while waiting:
        layer, around = waiting.pop()
        kind = next((name for layer_type, name in kinds.items() if isinstance(layer, layer_type)), None)
        if kind is not None:
            names.add(kind)
            length = _length(around or layer) or steps
            looped = looped or length is None or not layer.built or not _is_cudnns(layer)
            if length is not None and layer.built:
                recurrent.append(Recurrent(kind, length, int(layer.cell.kernel.shape[0]), layer.units))
            continue
        looped = looped or isinstance(layer, keras.layers.RNN)  # one that cuDNN does not have here
        both = [getattr(layer, name, None) for name in ("forward_layer", "backward_layer")]
        waiting += [(inner, layer) for inner in both if inner is not None]
        waiting += [(inner, None) for inner in getattr(layer, "layers", ())]
        if both == [None, None] and (inside := getattr(layer, "layer", None)) is not None:  # for each part of its input
            waiting.append((inside, None))
            looped = True
    if not names:
        return [], None
    if looped or not recurrent:
        return [], LOOPED.format(kinds=" and ".join(sorted(names)))
    return recurrent, FUSED_GRU if "GRU" in names else FUSED_RECURRENT


def _length(layer: Any) -> int | None:
    """Time steps of its input; None: left open, or the layer is called by a class of the file."""
    try:
        return layer.input.shape[1]  # type: ignore[no-any-return]
    except (AttributeError, ValueError, IndexError):
        return None


def _is_cudnns(layer: Any) -> bool:
    from keras import activations, ops

    return (
        layer.use_cudnn in ("auto", True)
        and layer.activation in (activations.tanh, ops.tanh)
        and layer.recurrent_activation in (activations.sigmoid, ops.sigmoid)
        and layer.use_bias
        and not layer.unroll
        and not layer.recurrent_dropout
        and getattr(layer, "reset_after", True)
    )


def items_of(layers: Sequence[Recurrent], precision: str, batch: int, trains: bool) -> list[Item]:
    """Return the kernels of these layers; `precision` is a number format, `batch` are examples of one device."""
    counted: Precision = next((name for name in WIDTHS if name == precision), "half")
    return [item for layer in layers for item in _items(layer, counted, batch, trains)]


def _items(layer: Recurrent, precision: Precision, batch: int, trains: bool) -> list[Item]:
    rows, width = batch * layer.steps, WIDTHS[precision]
    gates = (4 if layer.kind == "LSTM" else 3) * layer.units
    of_input, of_state = 2.0 * rows * layer.features * gates, 2.0 * rows * layer.units * gates
    weights, state_weights = layer.features * gates, layer.units * gates
    given, made, kept = (rows * size for size in (layer.features, layer.units, gates))
    step_bytes = (state_weights + (made + kept) / layer.steps) * width / 2
    step = Item("recurrent", precision, of_state / layer.steps / 2, step_bytes, 2 * layer.steps)
    forward = [Item("product", precision, of_input, (given + weights + kept) * width, 1), step]
    if not trains:
        return forward
    gradients = 2 * of_input + of_state  # of the input, and of both kinds of weights
    moved = (kept + given + made + weights + state_weights) * width
    return [*forward, step, Item("product", precision, gradients, moved, 1)]
