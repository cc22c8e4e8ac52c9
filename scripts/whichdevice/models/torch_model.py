"""A workload made of a file whose `model()` returns a PyTorch module (docs/start/your-model.md).

The file's functions take what PyTorch's own take: `loss(output, target)`, `metric(output, target)` and
`optimizer(model)`. Keras has no part in it.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.models.declaration import own_format
from whichdevice.models.framework import TORCH
from whichdevice.models.script.text import called_in
from whichdevice.models.shapes import leaves, packed
from whichdevice.models.tuning import Tuning
from whichdevice.models.without_keras import NativeFile, NativeModel, call_arguments, examples_of
from whichdevice.models.workloads.base import Arrays

OF_CLASSES = ("cross_entropy", "nll_loss")  # class numbers are their targets
OTHER_LOSSES = ("cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
FROM_LOGITS = ("binary_cross_entropy_with_logits", "BCEWithLogitsLoss")
WITHOUT_LOSS = "add LOSS, a name of torch.nn.functional such as cross_entropy, or a function loss(output, target)"
EIGHT_BITS = "AdamW8bit"
DEFERRED_PARAMETERS = 5e8  # parameters of a module that is not made before it is known to fit
NAMED_OUTPUTS = ("logits", "last_hidden_state")  # of Hugging Face's outputs


class TorchModel(NativeModel):
    """A module of PyTorch, on the host until a backend moves it. A large one has shapes alone until it is asked for."""

    def __init__(self, shapes: Any, workload: "TorchFile", large: bool) -> None:
        self._shapes, self.workload, self._large = shapes, workload, large
        self.kind = type(shapes).__name__
        self.optimizer: Any = None  # the backend's

    @cached_property
    def module(self) -> Any:
        """The module with its values."""
        return self.workload.made_module() if self._large else self._shapes

    def sizes(self) -> tuple[int, int]:
        """Parameters with the statistics beside them; trained parameters. Shared ones count once."""
        parameters = list(self._shapes.parameters())
        statistics = [buffer for buffer in self._shapes.buffers() if buffer.is_floating_point()]
        trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        return sum(tensor.numel() for tensor in (*parameters, *statistics)), trained

    def save_weights(self, path: Path) -> None:
        """Write the state dict, which `torch.load` reads."""
        import torch

        torch.save(self.module.state_dict(), path)

    def learning_rate(self) -> float | None:
        """Return the rate of the first group of parameters."""
        rate = self.optimizer.param_groups[0].get("lr")
        return None if rate is None else float(rate)

    @cached_property
    def output_shape(self) -> list[int]:
        """Shape of a prediction; raises what the file's model, loss or data raise.

        Nothing is computed where shapes suffice (PyTorch's device `meta`); where values decide what the model does, a
        copy of it takes real examples.
        """
        try:
            return self._tried("meta")
        except Exception:
            return self._tried("cpu")

    def _tried(self, device: str) -> list[int]:
        workload, module = self.workload, copied(self._shapes if device == "meta" else self.module, device).train()
        inputs, target = workload.tried_on(device)
        output = workload.forward(module, inputs, target)
        workload.loss(target, output)
        return list(prediction_of(output).shape[1:])


def copied(module: Any, device: str) -> Any:
    """A copy of a module: on the host with its values, or on PyTorch's device `meta` without any."""
    import torch

    if device == "cpu":
        return copy.deepcopy(module)
    held: dict[int, Any] = {}
    for parameter in module.parameters():
        held[id(parameter)] = torch.nn.Parameter(torch.empty_like(parameter, device=device), parameter.requires_grad)
    for buffer in module.buffers():
        held[id(buffer)] = torch.empty_like(buffer, device=device)
    return copy.deepcopy(module, held)


def prediction_of(output: Any) -> Any:
    """The tensor that stands for a model's output: itself, its `logits`, or the first of several."""
    if hasattr(output, "shape"):
        return output
    if isinstance(output, dict):
        named = [output[name] for name in NAMED_OUTPUTS if output.get(name) is not None]
        return prediction_of((named or list(output.values()))[0])
    return prediction_of(output[0])


class TorchFile(NativeFile):
    """A model file of PyTorch as a workload."""

    framework = TORCH
    weights_file = "model.pt"
    layers: int | None = None  # equal ones, of a model that can be made of fewer
    notes: Sequence[str] = ()  # on what is traced

    @property
    def tunable(self) -> bool:
        """Return whether batches and checkpointing may be chosen so that it fits."""
        return False

    @cached_property
    def compiled(self) -> bool:
        """Return whether the file calls torch.compile."""
        path = self.address.path
        return path is not None and path.suffix == ".py" and called_in(path, "compile")

    @property
    def tuning(self) -> Tuning:
        """The tuning that its constants say; raises StudyError on a wrong one."""
        eight = {"optimizer": EIGHT_BITS} if self.declared.optimizer == EIGHT_BITS else {}
        return Tuning.of({**self.declared.tuning, **eight}, self.address.label)

    @property
    def only_on_gpu(self) -> str | None:
        """Why nobody measures it: parts of bitsandbytes, of which only sizes and kernels are known here."""
        tuning = self.tuning
        if tuning.method == "qlora":
            return "4-bit weights need a GPU"
        return "an 8-bit optimiser needs a GPU" if tuning.optimizer == EIGHT_BITS else None

    def traced_optimizer(self, module: Any) -> Any:
        """Return `optimizer`'s, or one with the sizes and kernels of the 8-bit one."""
        from whichdevice.models.lora import optimizer_for

        eight = self.tuning.optimizer == EIGHT_BITS
        return optimizer_for(module, self.tuning) if eight else self.optimizer(module)

    def cache_bytes(self) -> float | None:
        """Bytes that a decoder keeps of each word in 16 bits; None where it is not known."""
        return None

    def number_format(self, asked: str) -> str:
        """The number format that a question means for this model: the file's own, where nothing else was asked for."""
        return (own_format(vars(self.tuning)) or asked) if asked.startswith("mixed") else asked

    def made_module(self, *layers: int) -> Any:
        """Return the file's module, perhaps of so few `layers`; raises StudyError where it is none."""
        from torch import nn

        from whichdevice.models.lora import tuned

        built = self._built()
        if not isinstance(built, nn.Module):
            raise self._wrong_model(built, "a torch.nn.Module")
        return tuned(built, self.tuning, self.address.label)

    def model(self) -> TorchModel:
        """The module, tried on shapes of a few examples; a large one has shapes alone, as it may not fit here.

        Raises StudyError where it is wrong, or has parts that only a GPU has.
        """
        if self.only_on_gpu:
            raise StudyError(f"{self.address.label}: {self.only_on_gpu}")
        shapes, large = self._without_values(), True
        if shapes is None or sum(parameter.numel() for parameter in shapes.parameters()) < DEFERRED_PARAMETERS:
            shapes, large = self.made_module(), False
        model = TorchModel(shapes, self, large)
        if self.own_loss:
            self._check_own_loss(shapes)
        if not large:
            with self._explaining("the first training step"):
                _ = model.output_shape
        return model

    def _without_values(self) -> Any:
        """The module on PyTorch's device `meta`, or None where its code needs values."""
        import torch

        with suppress(Exception), torch.device("meta"):
            return self.made_module()
        return None

    @property
    def own_loss(self) -> bool:
        """Return whether the module computes its loss itself, as Hugging Face's do when they are given labels."""
        return self.declared.loss is None and not self._has("loss")

    def _check_own_loss(self, module: Any) -> None:
        """Raise StudyError where the module does not take the targets by name."""
        known = inspect.signature(module.forward).parameters.values()
        names = {parameter.name for parameter in known}
        _, given = self.arguments({}, packed(self.first, "targets"))
        wrong = [name for name in given if name not in names]
        if wrong and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
            raise StudyError(f"{self.address.label}: the model's forward takes no `{wrong[0]}`; {WITHOUT_LOSS}")

    def arguments(self, inputs: Any, target: Any = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the module's arguments: a dict by name, a tuple by place; with `target`, if the loss is its own."""
        args, named = call_arguments(inputs)
        if target is not None and self.own_loss:
            named |= target if isinstance(target, dict) else {"labels": target}
        return args, named

    def forward(self, module: Any, inputs: Any, target: Any = None) -> Any:
        """The module's output."""
        args, named = self.arguments(inputs, target)
        return module(*args, **named)

    def loss(self, target: Any, prediction: Any) -> Any:
        """Mean loss of a batch in float32, of the module's whole output."""
        if self.own_loss:
            given = getattr(prediction, "loss", None)
            if given is None:
                raise StudyError(f"{self.address.label}: the model's output has no `loss`; {WITHOUT_LOSS}")
            return given.float().mean()
        return self._loss_function(prediction, target).float().mean()

    def quality(self, target: Any, prediction: Any) -> Any:
        """Mean of the metric over a batch."""
        return self._metric_function(prediction, target).float().mean()

    def optimizer(self, module: Any = None) -> Any:
        """A fresh one over the module's trained parameters, by the file's function or its name in torch.optim."""
        from torch import optim

        file, name = self.address.label, self.declared.optimizer or ""
        if self._has("optimizer"):
            function = self._function("optimizer")
            with self._explaining("optimizer()"):
                count = len(inspect.signature(function).parameters)
                made = function(*(module, self.options)[:count])
            if count == 0:
                raise StudyError(f"{file}: optimizer() takes no model; write optimizer(model)")
        else:
            kind = getattr(optim, name, None)
            if not isinstance(kind, type) or not issubclass(kind, optim.Optimizer):
                raise StudyError(
                    f"{file}: OPTIMIZER {name!r} is not in torch.optim, e.g. AdamW; or write optimizer(model)"
                )
            with self._explaining(f"OPTIMIZER {name}"):
                made = kind([parameter for parameter in module.parameters() if parameter.requires_grad])
        if not isinstance(made, optim.Optimizer):
            raise StudyError(f"{file}: optimizer() returns a {type(made).__name__}; one of torch.optim is needed")
        if isinstance(made, optim.LBFGS):
            raise StudyError(f"{file}: LBFGS evaluates the loss many times a step; take another optimiser")
        return made

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Inputs and targets as tensors, in the types that PyTorch's layers and losses take."""
        return examples_of({name: self.typed(array[index]) for name, array in arrays.items()})

    def tried_on(self, device: str) -> tuple[Any, Any]:
        """Inputs and targets of the first examples."""
        import torch

        given = {name: torch.from_numpy(array).to(device) for name, array in self.first.items()}
        return examples_of({name: part.long() if part.dtype == torch.int32 else part for name, part in given.items()})

    def typed(self, tensor: Any) -> Any:
        """Whole numbers as int64; where everything is bfloat16, floats in that."""
        import torch

        if tensor.dtype == torch.int32:
            return tensor.long()
        whole = self.options.precision == "bfloat16" and tensor.is_floating_point()
        return tensor.bfloat16() if whole else tensor

    def _named_loss(self, name: Any, constant: str = "LOSS") -> Callable[[Any, Any], Any]:
        """A loss (output, target) by its name in torch.nn.functional, or by the name of its class in torch.nn."""
        from torch import nn

        function = getattr(nn.functional, name, None) if name.endswith("_loss") or name in OTHER_LOSSES else None
        if name.endswith("Loss") and (kind := getattr(nn, name, None)) is not None:
            function = kind()
            name = "cross_entropy" if name in ("CrossEntropyLoss", "NLLLoss") else name
        if function is None:
            raise StudyError(
                f"{self.address.label}: {constant} {name!r} is not in torch.nn.functional, e.g. cross_entropy; or "
                f"write a function {constant.lower()}(output, target)"
            )

        places_first = self._has_places_first

        def loss(output: Any, target: Any) -> Any:
            prediction = prediction_of(output).float()
            if name in OF_CLASSES:
                return function(*by_class(prediction, target, places_first))
            return function(prediction, target.to(prediction.dtype).reshape(prediction.shape))

        return loss

    @cached_property
    def _has_places_first(self) -> bool:
        """Return whether an input has the places of a target along its first axis after the batch."""
        inputs, targets = (leaves(packed(self.first, name)) for name in ("inputs", "targets"))
        places = {target.shape[1] for target in targets if target.ndim > 1}
        return any(array.ndim > 1 and array.shape[1] in places for array in inputs)

    def _accuracy(self, output: Any, target: Any) -> Any:
        """Share of right classes; of several yes-or-no scores, each counts alone."""
        prediction = prediction_of(output)
        if self.declared.loss in (*FROM_LOGITS, "binary_cross_entropy", "BCELoss"):
            least = 0.0 if self.declared.loss in FROM_LOGITS else 0.5
            return ((prediction > least) == (target.reshape(prediction.shape) > 0.5)).float()
        scores, classes = by_class(prediction, target, self._has_places_first)
        return (scores.argmax(1) == classes).float()


def by_class(prediction: Any, target: Any, places_first: bool) -> tuple[Any, Any]:
    """Scores and class numbers as PyTorch's cross-entropy takes them, with the classes along axis 1.

    Where they are along the last axis, as in sequences, all places become one batch. Shapes do not show it where there
    are as many classes as places: it is so where the inputs have their places first.
    """
    fits = prediction.shape[:1] + prediction.shape[2:] == target.shape
    fits_last = prediction.shape[:-1] == target.shape
    if prediction.ndim == target.ndim + 1 and (not fits or (fits_last and places_first)):
        return prediction.flatten(0, -2), target.flatten()
    return prediction, target


class ScriptFile(TorchFile):
    """A training script of PyTorch, which is recorded as it runs: its step is the script's own."""

    only_on_gpu = "a script of PyTorch is recorded, not measured"

    @property
    def compiled(self) -> bool:
        """Return whether what was recorded calls torch.compile; False of a script that was not looked at yet."""
        return getattr(getattr(self.adapter, "found", None), "compiled", False)
