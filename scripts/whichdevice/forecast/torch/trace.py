"""One step of a PyTorch model, traced on fake tensors: its kernels and its memory. Nothing is computed.

    trace = trace_step(Step(build, batch, loss, optimizer, "mixed_bfloat16"), 32)
    trace.work, trace.memory["peak"], trace.parameters

Forward pass, loss, backward pass and the optimiser's update run as PyTorch runs them operation by operation, on shapes
alone: no device, driver or vendor's compiler is needed. The tensors are fake ones of the CPU; `AsOnGPU` makes what
differs on a GPU as it is there.

This file and models/script/torch_fakes.py use PyTorch's own parts below its public interface:
`TorchDispatchMode`, `tree_leaves`, the counters' registry, an operator's schema and packet, a storage's `_cdata`.
tests/forecast/test_trace.py names what a new PyTorch broke.
"""

import math
import re
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from whichdevice.base.errors import StudyError
from whichdevice.base.memory import most_to_compute
from whichdevice.forecast.torch.fusion import Fusion
from whichdevice.forecast.torch.recurrent import recurrent
from whichdevice.forecast.torch.step import Step, Trace, is_tiny, untested
from whichdevice.forecast.work import (
    FUSED_RECURRENT,
    OF_LAYOUT,
    Item,
    Kind,
    Precision,
    Total,
    Untested,
    in_layout,
)
from whichdevice.models.script.torch_fakes import (
    READING,
    READS_VALUE,
    RECURRENT,
    SEQUENCES,
    Fakes,
    Outcome,
    has_fake,
    is_fake,
    ones,
    replace_tensors,
    signature,
    storage_of,
    unset_fake_temporarily,
)
from whichdevice.models.script.torch_names import on_cpu

HALF = (torch.bfloat16, torch.float16)
DOUBLE = (torch.float64, torch.complex128)
NOT_ON_TPU = ("linalg_eig",)
ON_TPU = ("aten::", "prims::", "_c10d_functional::")  # whose operations have a TPU form; others are somebody's kernels
MIXED = {"mixed_bfloat16": torch.bfloat16, "mixed_float16": torch.float16}
BLOCK = 512  # bytes; PyTorch's allocator on a GPU rounds up to it
WITH_VALUES = "its shapes depend on values: traced on examples with values, which other data may differ from"
PARTLY = "its shapes depend on values: traced with what its examples alone decide, which other data may differ from"
WITHOUT_VALUES = "its shapes depend on values: traced as if all that it chooses from were chosen"
LARGE = 4e9  # bytes of a module that is not built for real
MAX_WITH_VALUES = 1e9  # bytes of a step that reads values and runs for real, as it shows without them
MAX_WORKED_OUT = 1e8  # bytes of examples that have values in a step without them
MAX_COMPUTED = 3e9  # bytes of a step that runs for real because its code fails without values
FEW_LAYERS = 2, 4  # that are traced of many equal ones
LIST = 48  # tensors that one kernel of an optimiser takes
ENTRY = 12  # bytes of an entry of a sparse matrix: its value and its column
THIN = 16  # inputs of a convolution; with fewer the tensor cores are mostly idle
DEVICE = torch.ops.prim.device.default
NO_KERNEL = {f"aten::{name}" for name in ("detach", "empty", "empty_like", "empty_strided", "new_empty", "lift_fresh")}
EXCHANGE = "c10d::"  # with other processes, which is forecast apart
GATHERS = ("embedding", "index", "gather", "index_select", "nll_loss_forward", "nll_loss2d_forward")
SCATTERS = ("embedding_dense_backward", "index_put", "scatter", "index_add", "nll_loss_backward", "nll_loss2d_backward")
WRITES = ("copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_")  # what they write to is not read
IN_PLACE = {  # they give what they change, which keeps its shape
    *(f"aten::{name}" for name in WRITES), "aten::add_", "aten::mul_", "aten::div_", "aten::addcmul_", "aten::addcdiv_",
}  # fmt: skip
ONE_IMAGE = ("instance_norm", "reflection_pad2d")  # slow in float32 on one image
COMPARING = ("lt", "le", "gt", "ge", "eq", "ne")
MASKED = ("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_")  # what a mask may choose in
MASKS = (torch.bool, torch.uint8)
NORMS = ("batch_norm", "layer_norm", "group_norm", "rms_norm")
# What autocast runs in float32 on a GPU and not on a CPU: docs.pytorch.org/docs/stable/amp.html.
IN_FLOAT32 = re.compile(
    "softmax|log_softmax|softmin|layer_norm|group_norm|exp|expm1|log|log10|log1p|log2|pow|__pow__|rsqrt|reciprocal|norm|"
    "cumsum|cumprod|prod|softplus|cosine_similarity|logsumexp|cross_entropy|.*_loss|binary_cross_entropy_with_logits"
)


def trace_step(step: Step, size: int) -> Trace:
    """Trace a step of `size` examples: of many equal layers a few, the rest by difference.

    Where shapes depend on values, or the code fails without them, the step of a small model runs for real. Raises what
    the module, the loss or PyTorch raises.
    """
    few, several = FEW_LAYERS
    if step.layers is None or step.layers <= several:
        return _of_layers(step, size)
    first, second = (_of_layers(step, size, layers) for layers in FEW_LAYERS)
    times = (step.layers - few) / (several - few)

    def extended(shallow: float, deep: float) -> float:
        return shallow + (deep - shallow) * times

    memory = {name: extended(nbytes, second.memory[name]) for name, nbytes in first.memory.items()}
    memory["passes"] = max(memory["early"], memory["late"])
    updating = sum(memory[part] for part in ("weights", "gradients", "optimizer", "update"))
    memory["peak"] = max(memory["passes"], updating)
    memory["layers"] = float(step.layers)
    memory["layer"] = (second.memory["weights"] - first.memory["weights"]) / (several - few)
    parameters = round(extended(first.parameters, second.parameters))
    trained = round(extended(first.trained, second.trained))
    work, fused = first.work.deepened(second.work, 1 + times), first.fused.deepened(second.fused, 1 + times)
    forward = first.forward.deepened(second.forward, 1 + times) if first.forward and second.forward else None
    return Trace(work, fused, memory, parameters, trained, first.notes, first.images, first.no_tpu, forward)


def _of_layers(step: Step, size: int, *layers: int) -> Trace:
    fakes, kernels = Fakes(), Kernels(step.precision)
    module = built(step, fakes, *layers)
    try:
        return _traced(step, module, size, fakes.mode, kernels)
    except Exception as error:
        reads, large = isinstance(error, READS_VALUE), sum(map(rounded, module.parameters())) > LARGE
        if isinstance(error, StudyError) or (large and not reads):
            raise
        trace = _guessed(step, size, fakes, *layers) if reads else None
        if trace is None and large:
            raise error
        if trace is None or (not large and trace.memory["peak"] <= MAX_WITH_VALUES):
            if kernels.peak > most_to_compute(MAX_COMPUTED):  # as far as it got
                raise error
            try:
                trace = _with_values(step, size, *layers)
            except TooLargeError:
                raise error from None
    return untested(trace, "values read by the host")


def _guessed(step: Step, size: int, fakes: Fakes, *layers: int) -> Trace | None:
    """The step with the values that few examples alone decide, or else as if each value that it reads were a one."""
    with fakes.mode:
        batch = step.batch(size)
        held = sum(map(rounded, (leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor))))
    attempts: list[tuple[Any, str]] = [(batch, WITHOUT_VALUES)]
    if held <= MAX_WORKED_OUT:
        attempts.insert(0, (step.batch(size), PARTLY))
    for examples, note in attempts:
        with suppress(Exception):  # what a model makes of such values is the model's
            module, kernels = built(step, fakes, *layers), Kernels(step.precision, fakes=fakes)
            trace = _traced(step, module, size, nullcontext(), kernels, examples)
            return replace(trace, notes=(*trace.notes, note))
    return None


def _with_values(step: Step, size: int, *layers: int) -> Trace:
    """The step as it runs here, for real; raises TooLargeError where it takes more than it may."""
    module, kernels = built(step, None, *layers), Kernels(step.precision, most=most_to_compute(MAX_COMPUTED))
    trace = _traced(step, module, size, nullcontext(), kernels)
    return replace(trace, notes=(*trace.notes, WITH_VALUES))


def _traced(
    step: Step,
    module: Any,
    size: int,
    where: AbstractContextManager[Any],
    kernels: "Kernels",
    known: Any = None,
) -> Trace:
    trains = step.optimizer is not None
    module.train(trains)
    updates, state = _optimizer(step, module, where)
    parameters = list(module.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad] if trains else []
    as_on_gpu = AsOnGPU(kernels)
    with where:
        kernels.hold(*parameters, *module.buffers())
        weights, kernels.live = kernels.live, kernels.live + state
        batch = step.batch(size) if known is None else known
        kernels.hold(*(tensor for tensor in tree_leaves(batch) if isinstance(tensor, torch.Tensor)))
        with kernels, as_on_gpu, torch.enable_grad() if trains else torch.no_grad():
            loss = _forward(step, module, batch)
            kept, forward = kernels.live - weights - state, _total(kernels.items())
            if trains:
                _backward(loss, trained, kernels)
        gradients = sum(rounded(parameter.grad) for parameter in trained if parameter.grad is not None)
    memory = {"weights": weights, "gradients": gradients, "optimizer": state, "activations": kept}
    memory |= {"passes": kernels.peak, "early": kernels.early, "late": kernels.late}
    memory |= {"working": kernels.peak_besides - weights - state, "update": updates.peak}
    memory["peak"] = max(memory["passes"], weights + gradients + state + updates.peak)
    alone, fused = (_total(items, updates.items()) for items in (kernels.items(), kernels.fusion.items()))
    works = alone.work("gpu", "eager"), fused.work("gpu", "torch.compile")
    counts = (sum(parameter.numel() for parameter in some) for some in (parameters, trained))
    trace = Trace(*works, {name: float(nbytes) for name, nbytes in memory.items()}, *counts)
    trace = replace(trace, images=kernels.images, forward=forward.work("gpu", "eager") if trains else None)
    return _marked(trace, kernels)


def _optimizer(step: Step, module: Any, where: AbstractContextManager[Any]) -> tuple["Kernels", int]:
    """The optimiser's kernels and the bytes of its state; none without an optimiser."""
    if step.optimizer is None:
        return Kernels(step.precision, "optimizer"), 0
    with where, AsOnGPU():
        optimizer = step.optimizer(module)
    return _updates(optimizer, step.precision)


def _forward(step: Step, module: Any, batch: Any) -> Any:
    dtype = MIXED.get(step.precision)
    with torch.autocast("cpu", dtype=dtype) if dtype else nullcontext():
        return step.loss(module, batch)


def _backward(loss: Any, trained: Sequence[Any], kernels: "Kernels") -> None:
    kernels.trained = len(trained)
    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(kernels.accumulated)
    # By its edge: a tensor would take `AsOnGPU` out of what checkpointing computes again.
    torch.autograd.backward(torch.autograd.graph.get_gradient_edge(loss), (torch.ones_like(loss),))


def _total(*parts: Iterable[Item]) -> Total:
    """The sum of kernels."""
    total = Total()
    for item in chain(*parts):
        total.put(item, 1)
    return total


def _marked(trace: Trace, kernels: "Kernels") -> Trace:
    """The trace with what its kernels tell of forecasts that nobody tested, and of TPUs."""
    if is_tiny(trace.work):
        kernels.untested.add("hundreds of tiny kernels")
    trace = replace(trace, notes=tuple(sorted(kernels.notes)), no_tpu=tuple(sorted(kernels.no_tpu)))
    return untested(trace, *sorted(kernels.untested))


def built(step: Step, fakes: Fakes | None, *layers: int) -> Any:
    """The module without values: of fake tensors; of the device `meta` and then fake, where it changes its own types.

    One whose constructor reads values is built for real, if what the first attempt made until then is small; any is
    without `fakes`.
    """
    made, halves = Kernels(step.precision), step.precision == "bfloat16"
    if fakes is not None:
        try:
            with fakes.mode, made, AsOnGPU():
                module = step.build(*layers)
                return _fake(module, halves) if halves or not all(map(is_fake, module.parameters())) else module
        except Exception as error:
            if isinstance(error, StudyError) and error.__cause__ is None:  # of what is asked, not of what was tried
                raise
            try:
                with torch.device("meta"), AsOnGPU(device="meta"):
                    module = step.build(*layers)
                with fakes.mode:
                    return _fake(module, halves)
            except Exception:
                if made.peak > LARGE:
                    raise
    with AsOnGPU():
        module = step.build(*layers)
    if halves:
        replace_tensors(module, lambda tensor: tensor.bfloat16() if tensor.is_floating_point() else tensor)
    return module


def _fake(module: Any, halves: bool) -> Any:
    """Return the module on new fake tensors of the CPU, its floats in bfloat16 if `halves`."""

    def like(tensor: Any) -> Any:
        dtype = torch.bfloat16 if halves and tensor.is_floating_point() else tensor.dtype
        strides = tensor.stride()  # not like the tensor itself, which would be made a fake one first
        if 0 in strides:
            return torch.empty(tensor.shape, dtype=dtype, device="cpu")
        return torch.empty_strided(tensor.shape, strides, dtype=dtype, device="cpu")

    replace_tensors(module, like)
    return module


def _updates(optimizer: Any, precision: str) -> tuple["Kernels", int]:
    """The kernels of the optimiser's second step, whose `peak` is what it needs for a while, and bytes of its state.

    It runs on parameters of PyTorch's device `meta`, as it reads its count of steps. A GPU updates all parameters
    together (`foreach`) where the file does not choose.
    """
    kernels = Kernels(precision, "optimizer")
    for group in optimizer.param_groups:
        held = [parameter for parameter in group["params"] if parameter.requires_grad]
        group["params"] = [
            torch.nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype, device="meta")) for parameter in held
        ]
        if group.get("fused"):  # PyTorch refuses it on `meta`; one kernel more or less
            group["fused"], group["foreach"] = False, None
        if group.get("foreach", True) is None:
            group["foreach"] = True
        for parameter in group["params"]:
            parameter.grad = torch.empty_like(parameter)
    optimizer.state = defaultdict(dict)
    with Ones():
        optimizer.step()
    state = [tensor for tensor in tree_leaves(list(optimizer.state.values())) if isinstance(tensor, torch.Tensor)]
    state = [tensor for tensor in state if tensor.device.type == "meta"]
    trained = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    kernels.hold(*state, *trained, *(parameter.grad for parameter in trained))
    kernels.live = kernels.peak = 0
    with Ones(), kernels:
        optimizer.step()
    return kernels, sum(map(rounded, state))


class Ones(TorchFunctionMode):
    """Makes an optimiser of a file's own that reads values of tensors on `meta`, such as norms, find ones."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function."""
        if getattr(function, "__name__", "") in READING and args and torch.is_tensor(args[0]) and args[0].is_meta:
            args = (torch.ones((), dtype=args[0].dtype, device="cpu").expand(args[0].shape), *args[1:])
        return function(*args, **(kwargs or {}))


class AsOnGPU(TorchFunctionMode):
    """Make PyTorch on fake tensors of the CPU take the steps that it takes on a GPU.

    A GPU drops out in one kernel and within fused attention, autocast runs more functions in float32 (IN_FLOAT32), and
    a causal mask that a library writes out for fake tensors is no mask to the kernel. Devices of CUDA
    that the file names are the CPU.
    """

    def __init__(
        self,
        kernels: "Kernels | None" = None,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self._kernels, self._device = kernels, torch.device(device)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch, as a GPU would run it."""
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0]
        args, kwargs = on_cpu(args, kwargs or {}, self._device)
        if self._kernels is None:
            return function(*args, **kwargs)
        if name == "scaled_dot_product_attention":
            return self._attention(function, *args, **kwargs)
        if name in ONE_IMAGE and len(args[0]) == 1 and not torch.is_autocast_enabled("cpu"):
            self._kernels.untested.add("instance norm at batch 1")
        if name == "rms_norm":  # one kernel on a GPU, from PyTorch 2.9 on; layer norm moves as much
            return torch.nn.functional.layer_norm(*args[:2], *args[2:3] or (kwargs.get("weight"),))
        if name in SEQUENCES and is_fake(args[0]):
            return SEQUENCES[name](*args)
        if name == "ctc_loss" and is_fake(args[0]):
            return _aligned(*args, **kwargs)
        if name in RECURRENT:
            return recurrent(self._kernels.product, *args, **kwargs)
        if name == "multi_head_attention_forward":
            return function(*args, **kwargs | {"dropout_p": 0.0}) if len(args) < 12 else function(*args, **kwargs)
        if function is torch.nn.functional.dropout:
            return _dropout(*args, **kwargs)
        if IN_FLOAT32.fullmatch(name) and torch.is_autocast_enabled("cpu"):
            args, kwargs = tree_map_only(torch.Tensor, _whole, (args, kwargs))
            with torch.autocast("cpu", enabled=False):
                return function(*args, **kwargs)
        if self._kernels.fakes is not None and (has_fake(args) or has_fake(kwargs.values())):
            return self._kernels.fakes.call(function, name, args, kwargs)
        if name in ("numpy", "__array__") and is_fake(args[0]):  # PyTorch refuses it by another error
            raise READS_VALUE[0](function)
        return function(*args, **kwargs)

    def _attention(
        self,
        function: Any,
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **others: Any,
    ) -> Any:
        """Trace attention without dropout, which costs a fused kernel little; a fixed mask of a square is causal."""
        assert self._kernels is not None
        if attn_mask is not None and query.shape[-2] == key.shape[-2] > 1 and self._kernels.fixed(attn_mask):
            attn_mask, is_causal = None, True
        return function(query, key, value, attn_mask, 0.0, is_causal, **others)


def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return torch.native_dropout(input, p, True)[0] if training and p > 0 else input


def _aligned(log_probs: Any, *_: Any, reduction: str = "mean", **__: Any) -> Any:
    """Replace a CTC loss, which reads lengths, by one that passes over all time steps and classes, and back."""
    losses = log_probs.float().exp().sum((0, 2))
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.mean()


def _whole(tensor: Any) -> Any:
    return tensor.float() if tensor.dtype in HALF else tensor


class TooLargeError(Exception):
    """A step that runs for real takes too much memory."""


class Kernel(NamedTuple):
    """The kernel that an operation launches on a GPU."""

    kind: Kind
    half: bool
    operations: float
    nbytes: int
    launches: int


class Kernels(TorchDispatchMode):
    """The kernels that run under it, with their operations and bytes, and the bytes of live storages."""

    resting = 0  # depth of what belongs to the host, which is not taken down: making of batches

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return that PyTorch need not keep its compiler out of here: doing so takes as long as half of a call."""
        return False

    def __init__(
        self, precision: str, kind: Kind | None = None, most: float = math.inf, fakes: Fakes | None = None
    ) -> None:
        super().__init__()
        self._most = most  # bytes that may live
        self.fakes = fakes  # with these a value that is asked for is a one, and a mask without values chooses all
        self.live = self.peak = self.early = self.late = self.peak_besides = self.gradients = 0
        self.trained, self.whole = 1, 0  # parameters, and those whose gradient is whole
        self._full: Precision = "tf32" if precision == "tf32" else "float32"
        self._kind, self._found = kind, Counter[Any]()
        self._repeats = dict[Any, tuple[Outcome, Kernel | None]]()  # by operation and shapes
        self._known, self._fixed = set[int](), set[int]()  # storages that live; those that depend on no input or weight
        self.fusion, self.notes, self.untested, self.images = Fusion(), set[str](), set[Untested](), False
        self.no_tpu = set[str]()
        self._entries = dict[tuple[int, ...], int]()  # of sparse matrices, by their sides

    def items(self) -> Iterator[Item]:
        """Kernels as items, equal ones once."""
        for (kind, precision, operations, nbytes), count in self._found.items():
            yield Item(kind, precision, float(operations), float(nbytes), count)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and take down what it does; no mode for functions sees what that asks of tensors."""
        if function is DEVICE:  # asked for several times by each operation of the backward pass
            return args[0].device
        if self.resting:
            return function(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            return (self._run if self.fakes is None else self._answered)(function, args, kwargs or {})

    def _answered(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation, or answer it where it reads what has no values."""
        assert self.fakes is not None
        name = function._schema.name.removeprefix("aten::")
        if name == "_local_scalar_dense" and is_fake(args[0]):
            self.note_read()
            kind = args[0].dtype
            return True if kind == torch.bool else 1.0 if kind.is_floating_point else 1
        compares = name in COMPARING and not is_fake(args[1])
        if compares and is_fake(args[0]) and args[0].numel() == 1:  # a loss with a limit
            return function(*ones(args), **kwargs)
        if name in MASKED and tree_any(is_fake, args[:2]):
            args = (args[0], [place for part in args[1] for place in self._places(part)], *args[2:])
        if name in ("masked_select", "nonzero") and tree_any(is_fake, args):
            return self._chosen(function, name, args)
        try:
            return self._run(function, args, kwargs)
        except READS_VALUE:
            self.note_read()
            return tree_map_only(torch.Tensor, self._without_values, function(*ones(args), **ones(kwargs)))

    def note_read(self) -> None:
        """Note that the host reads a value."""

    def _chosen(self, function: Any, name: str, args: Any) -> Any:
        """Return all values of a tensor, or all places in it."""
        assert self.fakes is not None
        self.note_read()
        shape = torch.broadcast_shapes(*(tensor.shape for tensor in args))
        sizes = (shape.numel(),) if name == "masked_select" else (shape.numel(), len(shape))
        made = self.fakes.empty(sizes, args[0].dtype if name == "masked_select" else torch.int64)
        self._kernel(function, args, {}, made)
        return made

    def _without_values(self, tensor: torch.Tensor) -> torch.Tensor:
        assert self.fakes is not None
        made = self.fakes.like(tensor)
        self.hold(made)
        return made

    def _places(self, part: Any) -> tuple[Any, ...]:
        """Return the places that a part of an index chooses: of a mask without values all."""
        assert self.fakes is not None
        if part is None or part.dtype not in MASKS:
            return (part,)
        self.note_read()
        if not is_fake(part):
            return part.nonzero().unbind(1)  # type: ignore[no-any-return]
        return tuple(self.fakes.empty((part.numel(),), torch.int64) for _ in part.shape)

    def _run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation; one of such shapes that was run before has its outcome and its kernel again."""
        inputs: list[Any] = []
        key = signature((*args, *kwargs.items()), inputs) if not function._schema.is_mutable else None
        key = key if any(map(is_fake, inputs)) else None
        known = None if key is None else self._repeats.get((function, key))
        if known is not None:
            result, outputs = known[0].made(inputs)
            self._follow(inputs, outputs, mutable=False)
            if known[1] is not None:
                self._count(known[1], inputs, outputs)
            return result
        changes = function._schema.name in IN_PLACE and is_fake(args[0])
        result = args[0] if changes else function(*args, **kwargs)
        kernel, inputs = self._kernel(function, args, kwargs, result)
        if key is not None and (outcome := Outcome.of(result, inputs)) is not None:
            self._repeats[function, key] = outcome, kernel
        return result

    def _follow(self, inputs: Sequence[Any], outputs: Sequence[Any], mutable: bool) -> set[int]:
        """Hold what was made, and return the storages of what it was made of."""
        self.hold(*outputs)
        return self._settle(inputs, outputs, mutable)

    def _settle(self, inputs: Sequence[Any], outputs: Sequence[Any], mutable: bool) -> set[int]:
        """Note what depends on no input and no weight, and return the storages of what was read."""
        shared = {storage_of(tensor) for tensor in inputs}
        if shared <= self._fixed:
            for tensor in outputs:
                self._fix(tensor)
        elif mutable:
            self._fixed.difference_update(map(storage_of, outputs))
        return shared

    def _fix(self, tensor: Any) -> None:
        """Note that a tensor's values are fixed until it is freed: another one may lie in its place then."""
        if (key := storage_of(tensor)) not in self._fixed:
            self._fixed.add(key)
            weakref.finalize(tensor.untyped_storage(), self._fixed.discard, key)

    def _kernel(self, function: Any, args: Any, kwargs: Any, result: Any) -> tuple["Kernel | None", list[Any]]:
        """Take down what an operation does; return its kernel, where it has one, and what it reads."""
        schema = function._schema
        outputs, inputs, sparse = dense(result), dense((args, kwargs)), self._sparse((args, kwargs))
        if schema.is_mutable and not outputs:
            outputs = dense(args[0])
        shared = self._follow(inputs, outputs, schema.is_mutable)
        view = not schema.is_mutable and all(storage_of(tensor) in shared for tensor in outputs)
        if view or schema.name in NO_KERNEL or schema.name.startswith(EXCHANGE):
            return None, inputs
        name = schema.name.removeprefix("aten::")
        if any(tensor.dtype in DOUBLE and tensor.dim() for tensor in (*inputs, *outputs)):
            self.no_tpu.add("float64")
        if name in NOT_ON_TPU or not schema.name.startswith(ON_TPU):
            self.no_tpu.add(name)
        kind, operations = self._kind or kind_of(name, args), 0.0
        if "convolution" in name:
            kind, operations = convolution_work(name, args, outputs)
            self.images |= inputs[0].dim() == 4
            if inputs[0].dim() == 5:
                self.untested.add("3-D convolutions")
        elif sparse:  # a sparse matrix's product: a row of the other one for each of its entries
            width = outputs[0].shape[-1]
            row = width * outputs[0].element_size()
            self.no_tpu.add("sparse matrices")
            operations, nbytes = 2.0 * sparse * width, sparse * (row + ENTRY) + outputs[0].shape[0] * row
            kernel = Kernel("gather and scatter", outputs[0].dtype in HALF, operations, nbytes, 1)
            self._count(kernel, inputs, outputs)
            return kernel, []
        elif "scaled_dot_product" in name:
            kind, operations = attention_work(name, args)
        elif "grouped_mm" in name:
            kind, operations = "product", 2.0 * args[0].numel() * args[1].shape[-1]
        elif counted := flop_registry.get(function._overloadpacket):
            kind, operations = "product", counted(*args, **kwargs, out_val=result)
        if kind in OF_LAYOUT and any(map(last_channels, inputs)):
            kind = in_layout(kind, last=True)
        half = any(tensor.dtype in HALF for tensor in inputs or outputs)
        launches = -(-len(outputs) // LIST) if "_foreach" in name or "_fused" in name else 1
        nbytes = moved(name, inputs, outputs) // max(launches, 1)
        kernel = Kernel(kind, half, operations, nbytes, launches)
        self._count(kernel, inputs, outputs)
        return kernel, inputs

    def _count(self, kernel: "Kernel", inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Count a kernel."""
        self._put(kernel.kind, kernel.half, kernel.operations, kernel.nbytes, kernel.launches, inputs, outputs)

    def _sparse(self, tree: Any) -> int:
        """Return the entries of the sparse matrices among some tensors; of one without values as of its transpose."""
        entries = 0
        for tensor in tree_leaves(tree):
            if isinstance(tensor, torch.Tensor) and tensor.layout != torch.strided:
                sides = tuple(sorted(tensor.shape))
                if not is_fake(tensor):
                    with unset_fake_temporarily():
                        self._entries[sides] = tensor._nnz()
                entries += self._entries.get(sides, 0)
        return entries

    def product(
        self, dtype: Any, operations: float, inputs: Sequence[Any], outputs: Sequence[Any], steps: int = 0
    ) -> None:
        """Count a kernel that PyTorch's CPU build lacks; or two for each time step, which reads its `inputs` anew."""
        if not steps:
            self._put("product", dtype in HALF, operations, moved("", inputs, outputs), 1, inputs, outputs)
            return
        weights = sum(tensor.numel() * tensor.element_size() for tensor in inputs if tensor.dim() == 2)
        rest = moved("", inputs, outputs) - weights
        nbytes = (weights + rest // steps) // 2
        self.notes.add(FUSED_RECURRENT)
        self._put("recurrent", dtype in HALF, operations / steps / 2, nbytes, 2 * steps, (), ())

    def _put(
        self,
        kind: Kind,
        half: bool,
        operations: float,
        nbytes: int,
        launches: int,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        full: Precision = "half" if half else self._full
        self._found[kind, full, int(operations), nbytes] += launches
        if self._kind is None:
            self._join(self.fusion, kind, full, operations, nbytes, launches, inputs, outputs)

    @staticmethod
    def _join(
        fusion: Fusion,
        kind: Kind,
        full: Precision,
        operations: float,
        nbytes: int,
        launches: int,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
    ) -> None:
        """Add a kernel to those that torch.compile joins."""
        sizes = {storage_of(tensor): float(tensor.numel() * tensor.element_size()) for tensor in [*inputs, *outputs]}
        reads, writes = ([storage_of(tensor) for tensor in some] for some in (inputs, outputs))
        plain = in_layout(kind, last=False)
        fusion.put(plain, full, float(operations), reads, writes, sizes or {0: float(nbytes)}, launches)

    def fixed(self, tensor: Any) -> bool:
        """Whether a tensor's values depend on no input and no weight."""
        return storage_of(tensor) in self._fixed

    def hold(self, *tensors: Any) -> None:
        """Count the storages of tensors as live until they are freed, each once."""
        for tensor in tensors:
            storage, key = tensor.untyped_storage(), storage_of(tensor)
            if key not in self._known:
                self._known.add(key)
                self.live += rounded(tensor)
                self.peak = max(self.peak, self.live)
                if self.live > self._most:
                    raise TooLargeError(f"the step takes more than {self._most:.0e} bytes")
                if 2 * self.whole < self.trained:
                    self.early = max(self.early, self.live)
                else:
                    self.late = max(self.late, self.live)
                self.peak_besides = max(self.peak_besides, self.live - self.gradients)
                weakref.finalize(storage, self._drop, key, rounded(tensor))

    def accumulated(self, parameter: Any) -> None:
        """Count a parameter's gradient as whole, from when it is."""
        self.gradients += rounded(parameter.grad)
        self.whole += 1

    def _drop(self, key: int, nbytes: int) -> None:
        self._known.discard(key)
        self.fusion.free(key)
        self.live -= nbytes


def dense(tree: Any) -> list[Any]:
    """The tensors of a tree that have a storage of their own: not sparse ones."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided]


def rounded(tensor: Any) -> int:
    """Bytes that PyTorch's allocator takes for a tensor's storage."""
    return -(-int(tensor.untyped_storage().nbytes()) // BLOCK) * BLOCK


def last_channels(tensor: Any) -> bool:
    """Whether the channels of images are their last axis in memory, and not in a place where both layouts agree."""
    last = torch.channels_last
    return bool(tensor.dim() == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=last))


def kind_of(name: str, args: Any) -> Kind:
    """The kind of a kernel without products."""
    plain = name.rstrip("_")
    if plain in GATHERS or plain in SCATTERS:
        return "gather and scatter"
    if "batch_norm" in name and any(argument is True for argument in args):
        return "batch norm"
    return "norm" if any(norm in name for norm in NORMS) else "memory"


def moved(name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    """Bytes that a kernel reads and writes: all of its inputs and outputs, but of tables only what it takes."""
    written = sum(tensor.numel() * tensor.element_size() for tensor in outputs)
    read = [tensor.numel() * tensor.element_size() for tensor in inputs]
    if name in GATHERS:
        return sum(read[1:]) + 2 * written
    if name in WRITES or name.rstrip("_") in ("index_put", "scatter", "index_add"):
        read = read[1:]
        written = written if name in WRITES else 2 * max(read, default=0)
    if name in ("nll_loss_backward", "nll_loss2d_backward"):
        return written
    return sum(read) + written


def convolution_work(name: str, args: Any, outputs: list[Any]) -> tuple[Kind, float]:
    """Return kind and operations of a convolution, or of its gradients that are asked for."""
    backward = "backward" in name
    images, weight = args[1:3] if backward else args[:2]
    transposed, groups = (args[7], args[9]) if backward else (args[6], args[8])
    small = args[0] if backward else outputs[0]  # what has a value for each place that the filter is put at
    small = images if transposed else small
    thin, pointwise = weight.shape[1], weight.shape[2:].numel() == 1
    kind = "pointwise convolution" if pointwise else "convolution" if thin >= THIN else "thin convolution"
    if groups > 1:
        kind = "depthwise convolution" if thin == 1 else "grouped convolution"
    times = sum(args[10][:2]) if backward else 1
    operations = 2.0 * small.numel() * weight.shape[1:].numel() * times
    return (f"{kind} backward" if backward else kind), operations  # type: ignore[return-value]


def attention_work(name: str, args: Any) -> tuple[Kind, float]:
    """Kind and operations of fused attention, which PyTorch's own counter lacks for a CPU's kernel.

    The backward pass makes the scores again: five products to the forward pass's two. A causal one leaves out half.
    """
    backward = "backward" in name
    query, key = args[1:3] if backward else args[:2]
    causal = any(argument is True for argument in args)
    operations = 4.0 * query.numel() * key.shape[-2] * (2.5 if backward else 1) / (2 if causal else 1)
    return ("attention backward" if backward else "attention"), operations
