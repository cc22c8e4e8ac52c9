"""A PyTorch module's training step or forward pass as a JAX function, for the compilers of devices that are not here.

torchax runs PyTorch's operations on JAX's arrays, so that the module's own Python code is traced: forward pass, loss
and the optimiser of torch.optim. Gradients are JAX's. The module is built without values where its code allows that.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.models.model_file import error_line
from whichdevice.models.shapes import packed
from whichdevice.models.torch_model import TorchFile, prediction_of

MIXED = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}
LOSS_SCALE = 2.0**16  # PyTorch's first one, in float16
# Overloads by names of axes: torchax 0.0.13 lists them, and PyTorch 2.13 has them no more.
BY_NAME = {
    "all": ("dimname", "dimname_out"),
    "index_add": ("dimname",),
    "index_copy": ("dimname",),
    "index_copy_": ("dimname",),
    "index_fill": ("Dimname_Scalar", "Dimname_Tensor"),
    "index_fill_": ("Dimname_Scalar", "Dimname_Tensor"),
    "norm": ("names_ScalarOpt_dim", "names_ScalarOpt_dim_dtype", "names_dtype_out", "names_out"),
    "prod": ("dim_Dimname",),
    "std": ("correction_names", "correction_names_out", "names_dim", "names_out"),
    "std_mean": ("correction_names", "names_dim"),
    "unbind": ("Dimname",),
}


@cache
def torchax_environment() -> Any:
    """What torchax runs PyTorch's operations in; raises StudyError where it does not fit this PyTorch."""
    import torch

    try:
        _declare_by_name()
        import torchax

        environment = torchax.default_env()
        _complete_autocast()
        environment.override_op_definition(torch.nn.functional.batch_norm, _batch_norm)
        return environment
    except Exception as error:  # one of another PyTorch's: it names operations that this one does not have
        raise StudyError(
            f"PyTorch models are forecast through torchax, which fails with PyTorch {torch.__version__}: {error}"
        ) from error


@cache
def _declare_by_name() -> Any:
    """Declare the overloads in BY_NAME that PyTorch lacks, for torchax to find; nothing can call them.

    They last as long as the library that is returned, here until the process ends.
    """
    import torch

    library = torch.library.Library("aten", "FRAGMENT")
    for operation, overloads in BY_NAME.items():
        known = getattr(torch.ops.aten, operation)
        for overload in overloads:
            if not hasattr(known, overload):
                library.define(f"{operation}.{overload}(Tensor self, str dim) -> Tensor")
    return library


def _complete_autocast() -> None:
    """Add to torchax's list of autocast what reaches it in another form than the list has; as PyTorch's on a GPU."""
    import torch
    from torchax.amp import CastPolicy, autocast_policy

    aten, functional = torch.ops.aten, torch.nn.functional
    products = (
        functional.linear,
        functional.scaled_dot_product_attention,
        torch.einsum,
        aten.convolution.default,
    )
    whole = (
        aten._softmax.default,
        aten._log_softmax.default,
        aten.native_layer_norm.default,
        aten.native_group_norm.default,
    )
    autocast_policy.update(dict.fromkeys(products, CastPolicy.LOWER_PRECISION_FP))
    autocast_policy.update(dict.fromkeys(whole, CastPolicy.FP32))
    for joining in (aten.cat.default, aten.stack.default):  # torchax 0.0.13 takes their list for a tensor; JAX promotes
        autocast_policy.pop(joining, None)


def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """torch.nn.functional.batch_norm: in float32, the result in the input's type, running statistics in place.

    torchax's own leaves the statistics as they are and widens a half-precision input.
    """
    import jax
    from jax import numpy as jnp

    viewed = torchax_environment().j2t_iso
    x = input.jax().astype("float32")
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *[1] * (x.ndim - 2))
    if training or running_mean is None:
        mean, variance = x.mean(axes), x.var(axes)
        if running_mean is not None:
            count = x.size / x.shape[1]
            unbiased = variance * (count / max(count - 1, 1))
            for held, found in ((running_mean, mean), (running_var, unbiased)):
                held.mul_(1 - momentum).add_(viewed(found.astype(held.jax().dtype)) * momentum)
    else:
        mean, variance = (each.jax().astype("float32") for each in (running_mean, running_var))
    scale = jax.lax.rsqrt(variance + eps)
    if weight is not None:
        scale = scale * weight.jax().astype("float32")
    y = (x - mean.reshape(shape)) * scale.reshape(shape)
    if bias is not None:
        y = y + bias.jax().astype("float32").reshape(shape)
    return viewed(jnp.asarray(y, input.jax().dtype))


class TracedModule:
    """A module whose values come from outside, as JAX arrays by name."""

    def __init__(self, workload: TorchFile, precision: str, device: str) -> None:
        import torch

        self.workload, self.precision = workload, precision
        self.environment = torchax_environment()
        with torch.device(device):
            self.module = workload.made_module()
        if precision == "bfloat16":
            self.module.bfloat16()
        named = dict(self.module.named_parameters())  # shared ones once
        self.trained = {name: each for name, each in named.items() if each.requires_grad}
        self.held = {name: each for name, each in named.items() if not each.requires_grad}
        self.held |= dict(self.module.named_buffers())

    def shapes(self, tensors: dict[str, Any]) -> dict[str, Any]:
        """Shapes and types in place of values, with the types that JAX would store."""
        return {name: shape_of(each) for name, each in tensors.items()}

    def viewed(self, arrays: Any) -> Any:
        """JAX arrays as tensors of torchax."""
        return self.environment.j2t_iso(arrays)

    def batch(self, arrays: Any, index: Any) -> tuple[Any, Any]:
        """Inputs and targets, gathered by JAX."""
        import jax

        taken = {name: jax.numpy.take(array, index, axis=0) for name, array in arrays.items()}
        with self.environment:
            typed = {name: self.workload.typed(each) for name, each in self.viewed(taken).items()}
        return packed(typed, "inputs"), packed(typed, "targets")

    def called(self, trained: Any, held: Any, inputs: Any, target: Any = None) -> Any:
        """The module's output for values that are tensors of torchax. Statistics in `held` change in place."""
        import torch

        args, named = self.workload.arguments(inputs, target)
        with torch.device("jax"):
            return torch.func.functional_call(self.module, {**trained, **held}, args, named)

    @contextmanager
    def running(self, key: Any) -> Iterator[None]:
        """What forward passes and losses run in: JAX's arrays, autocast, and random numbers from a key of JAX."""
        import torch

        mixed = {"autocast_dtype": getattr(torch, MIXED[self.precision])} if self.precision in MIXED else {}
        with self.environment, self.environment.override_property(prng=key, **mixed):
            yield


def shape_of(tensor: Any) -> Any:
    """A tensor's shape and the type that JAX stores it in."""
    import jax
    from torchax.ops import mappings

    return jax.ShapeDtypeStruct(tuple(tensor.shape), jax.dtypes.canonicalize_dtype(mappings.t2j_dtype(tensor.dtype)))


def torch_step(workload: TorchFile, precision: str, mode: str) -> tuple[Callable[..., Any], Any, Any]:
    """The function of a step, its first argument as shapes, and shapes of the data.

    Raises StudyError where torchax is missing or cannot run the module.
    """
    import jax

    torchax_environment()
    train, _ = workload.splits({})
    arrays = {
        name: jax.ShapeDtypeStruct(array.shape, jax.dtypes.canonicalize_dtype(array.dtype))
        for name, array in train.arrays.items()
    }
    index = jax.ShapeDtypeStruct((workload.options.batch_size,), "int32")
    failure: Exception | None = None
    for device in ("meta", "cpu"):  # without values first, as the module may be larger than this host's memory
        try:
            traced = TracedModule(workload, precision, device)
            step, state = _training(traced) if mode == "train" else _prediction(traced)
            function = jax.jit(step)  # which keeps the trace for the targets
            jax.eval_shape(function, state, arrays, index)
        except Exception as error:
            failure = error
            continue
        workload.check_options()
        return function, state, arrays
    assert failure is not None
    if isinstance(failure, StudyError):
        raise failure
    what = error_line(failure, workload.address)
    raise StudyError(f"{workload.address.label}: torchax cannot run it on JAX: {what}") from failure


def _prediction(traced: TracedModule) -> tuple[Callable[..., Any], Any]:
    """A function (values, arrays, index) → float32 predictions."""
    import jax

    traced.module.eval()

    def predict(state: Any, arrays: Any, index: Any) -> Any:
        inputs, _ = traced.batch(arrays, index)
        with traced.running(jax.random.key(0)):
            trained, held = traced.viewed(state)
            output = traced.called(trained, held, inputs)
        return jax.numpy.asarray(prediction_of(output).jax(), "float32")

    return predict, (traced.shapes(traced.trained), traced.shapes(traced.held))


def _training(traced: TracedModule) -> tuple[Callable[..., Any], Any]:
    """A function (state, arrays, index) → (state, [loss, metric]), and the state's shapes.

    The state: trained values, others, the optimiser's, and a key of random numbers. In float16 the loss is
    scaled, and a step whose gradients are not finite changes nothing, as with PyTorch's GradScaler.
    """
    import jax
    from jax import numpy as jnp

    workload, update = traced.workload, _Update(traced)
    traced.module.train()
    scale = LOSS_SCALE if traced.precision == "mixed_float16" else 1.0

    def judged(trained: Any, held: Any, inputs: Any, target: Any, key: Any) -> Any:
        tensors, others = traced.viewed((trained, held))
        with traced.running(key):
            output = traced.called(tensors, others, inputs, target)
            loss = workload.loss(target, output)
            metric = loss * 0 if workload.metric is None else workload.quality(target, output)
        means = jnp.stack([jax.lax.stop_gradient(each.jax().astype("float32")) for each in (loss, metric)])
        return loss.jax() * scale, (means, {name: each.jax() for name, each in others.items()})

    def step(state: Any, arrays: Any, index: Any) -> Any:
        trained, held, optimizer, seed = state
        now, later = jax.random.split(jax.random.wrap_key_data(seed))
        inputs, target = traced.batch(arrays, index)
        (_, (means, held)), gradients = jax.value_and_grad(judged, has_aux=True)(trained, held, inputs, target, now)
        seed = jax.random.key_data(later)
        if scale == 1.0:
            trained, optimizer = update(trained, gradients, optimizer)
            return (trained, held, optimizer, seed), means
        gradients = jax.tree.map(lambda each: each / scale, gradients)
        finite = jnp.all(jnp.stack([jnp.isfinite(each).all() for each in jax.tree.leaves(gradients)]))
        trained, optimizer = jax.lax.cond(
            finite, lambda: update(trained, gradients, optimizer), lambda: (trained, optimizer)
        )
        return (trained, held, optimizer, seed), means

    trained = traced.shapes(traced.trained)
    seed = jax.ShapeDtypeStruct((2,), "uint32")
    return step, (trained, traced.shapes(traced.held), update.state(trained), seed)


class _Update:
    """The step of an optimiser of torch.optim as a pure function of values, gradients and its own state.

    What it counts on the host, as Adam its steps, stays as the first step leaves it.
    """

    def __init__(self, traced: TracedModule) -> None:
        self._traced = traced
        self._optimizer = traced.workload.optimizer(traced.module)
        names = {id(each): name for name, each in traced.trained.items()}
        self._groups = [[names[id(each)] for each in group["params"]] for group in self._optimizer.param_groups]
        self._constants: dict[str, dict[str, Any]] = {}  # of its state: what is no tensor of torchax, such as counters

    def state(self, trained: Any) -> Any:
        """Shapes of the state that a first step leaves."""
        import jax

        return jax.eval_shape(lambda values: self(values, values, {})[1], trained)

    def __call__(self, trained: Any, gradients: Any, state: Any) -> tuple[Any, Any]:
        """New values and state."""
        import copy

        import torchax

        optimizer, tensors = self._optimizer, self._traced.viewed(trained)
        for group, names in zip(optimizer.param_groups, self._groups, strict=True):
            group.update(params=[tensors[name] for name in names], foreach=False, fused=None)
        optimizer.state = defaultdict(dict)
        for name, tensor in tensors.items():
            tensor.grad = self._traced.viewed(gradients[name])
            if name in state:
                constants = copy.deepcopy(self._constants.get(name, {}))
                optimizer.state[tensor] = {**constants, **self._traced.viewed(state[name])}
        with self._traced.environment:
            optimizer.step()
        found: dict[str, dict[str, Any]] = {}
        for name, tensor in tensors.items():
            kept = optimizer.state.get(tensor, {})
            found[name] = {key: each.jax() for key, each in kept.items() if isinstance(each, torchax.tensor.Tensor)}
            if not state:
                self._constants[name] = {key: each for key, each in kept.items() if key not in found[name]}
        return {name: tensor.jax() for name, tensor in tensors.items()}, found
