"""One training step or forward pass, compiled for a GPU that is not here.

    from whichdevice.forecast.xla.programs import compile_program

    program = compile_program("resnet50", "A100 SXM 80GB", "mixed_float16", batch=256)
    program = compile_program("docs/examples/my_model.py", "T4", "float32", 64, mode="predict", options={"width": 64})
    program.text            # the scheduled program of one device, XLA's HLO
    program.memory.total    # bytes on each device

The step is the very function that the JAX backend runs. Models are built without their weights, and data are shapes
where only shapes matter, so that a model larger than this host compiles too. JAX must not have used a device before in
the process; `compile_program` sets what the compilers need where JAX is not imported yet. A model that asks JAX for its
devices sees this host's: Keras' LSTM is then a loop over time steps, and its attention plain products.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.processes import quick_imports
from whichdevice.forecast.products import GENERATING, Mode
from whichdevice.forecast.targets import COMPILER, CompilerMissingError, Target, environment, find_target
from whichdevice.forecast.xla.device_memory import MemoryNeed, compiler_error, memory_need
from whichdevice.forecast.xla.recurrent import Recurrent, recurrent_layers
from whichdevice.models.counting import without_values
from whichdevice.models.datasets.base import get_dataset
from whichdevice.models.jax_model import JaxFile
from whichdevice.models.loading import Model
from whichdevice.models.model_file import require_jax_step
from whichdevice.models.shapes import in_mode
from whichdevice.models.steps.jax_function import function_step, gathered, prediction
from whichdevice.models.steps.keras_on_jax import State, build_traced, training_step
from whichdevice.models.without_keras import NativeFile
from whichdevice.models.workloads.base import OperationWorkload, Options, TrainingWorkload, prompt_length, tokens_of


@dataclass(frozen=True)
class Step:
    """A function of shapes, before any target is known. It may be compiled for several: JAX traces it once."""

    function: Any  # of jax.jit
    arguments: tuple[Any, ...]  # trees of jax.ShapeDtypeStruct
    batch: tuple[int, ...]  # numbers of the arguments whose first axis is divided over the devices
    outputs: Any  # None, or a prefix of the result's tree of "whole" and "batch"
    in_place: bool  # the result takes the first argument's memory
    tokens: int | None = None  # that a step of mode generate processes or makes
    note: str | None = None  # in what the program is another than the one that a real device would run
    keras: bool = False  # whether it is a step of Keras' `fit`
    recurrent: tuple[Recurrent, ...] = ()  # layers whose loops stand for cuDNN's

    @property
    def arrays(self) -> int:
        """How many arrays a call of it hands over."""
        import jax

        return len(jax.tree.leaves(self.arguments))


@dataclass(frozen=True)
class CompiledProgram:
    """A step as the compiler made it for one target."""

    target: Target
    precision: str
    batch: int
    mode: Mode
    text: str  # the scheduled program of one device
    memory: MemoryNeed
    seconds: float  # of compiling

    @property
    def devices(self) -> int:
        """How many devices run it together."""
        return self.target.devices


def compile_program(
    workload: str,
    target: Target | str,
    precision: str = "float32",
    batch: int | None = None,
    mode: Mode = "train",
    options: Mapping[str, Any] | None = None,
    sequence_length: int | None = None,
    devices: int | None = None,
) -> CompiledProgram:
    """Compile a workload (a built-in name or a path to a .py file) for GPUs, in this process.

    `batch` is over all devices; None takes the recipe's. Raises StudyError, CompilerMissingError where the compiler
    does not load.
    """
    wanted = find_target(target, devices) if isinstance(target, str) else target
    if wanted.kind != "gpu":
        raise StudyError(f"{wanted.device}: no compiler here makes programs for it; its forecast is an estimate")
    start(["cuda"])
    size = batch or Model.read(workload).recipe.batch_size
    step = make_step(workload, wanted.kind, precision, size, mode, options or {}, sequence_length)
    return compile_step(step, wanted, precision, size, mode)


def start(compilers: Sequence[str]) -> None:
    """Set what the compilers need and import JAX and Keras; what JAX read before stays as it is."""
    if "jax" not in sys.modules:
        os.environ.update(environment(compilers))
    with quick_imports("tensorflow", "torch"):
        import jax
        import keras  # noqa: F401

    jax.config.update("jax_platforms", "cpu")


def make_step(
    module: str,
    kind: str,
    precision: str,
    batch: int,
    mode: Mode = "train",
    options: Mapping[str, Any] = {},
    sequence_length: int | None = None,
) -> Step:
    """The step of a workload as a function of shapes, for devices of one kind (`gpu` or `tpu`)."""
    import jax
    import keras

    # As the JAX backend does: full float32 products unless TF32 is asked for; on a TPU for float32 alone.
    asked = {"tf32": "tensorfloat32"}.get(precision, "highest" if kind == "gpu" or precision == "float32" else None)
    jax.config.update("jax_default_matmul_precision", asked)
    keras.config.set_dtype_policy("float32" if precision == "tf32" else precision)
    given = Options(batch, precision, 1.0, sequence_length, given=dict(options))
    workload = Model.read(module).workload(given)
    if isinstance(workload, OperationWorkload):
        if mode != "train":
            raise StudyError(f"{module}: an operation, which has no inference; leave out --mode")
        return _operation(workload)
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{module}: it has no model to compile")
    if isinstance(workload, NativeFile):
        return _native(workload, mode)
    if mode in GENERATING:
        return _generating(workload, mode)
    return _training(workload, kind, precision, mode)


def _native(workload: NativeFile, mode: Mode) -> Step:
    """A step of a JAX function, with weights, data and example numbers placed as for Keras."""
    import jax

    if mode in GENERATING:
        raise StudyError(f"{workload.address.label}: generation is forecast for Keras models only")
    assert isinstance(workload, JaxFile)
    function, state, arrays = jax_step(workload, mode)
    index = jax.ShapeDtypeStruct((workload.options.batch_size,), "int32")
    if mode == "predict":
        return Step(jax.jit(function), (state, arrays, index), (2,), "batch", False)
    return Step(jax.jit(function, donate_argnums=(0,)), (state, arrays, index), (2,), ("whole", "whole"), True)


def _operation(workload: OperationWorkload) -> Step:
    """Every device runs the whole operation, as every replica of a measured run does; in place where that does."""
    import jax
    import keras

    state, operands = workload.operands(np.random.default_rng(0))
    described = _described((state, operands), keras.config.dtype_policy().compute_dtype)
    return Step(jax.jit(workload.step), described, (), "whole", workload.bounded)


def _training(workload: TrainingWorkload, kind: str, precision: str, mode: Mode) -> Step:
    """Weights and data on every device, example numbers divided over them; a training step overwrites its state."""
    import jax

    train, _ = workload.splits(_arrays(workload))
    model = without_values(workload.model)
    arrays = _described(dict(train.arrays))
    index = jax.ShapeDtypeStruct((workload.options.batch_size,), "int32")
    if workload.own_step(model) and mode == "train":
        require_jax_step(model)
        build_traced(workload, model, train.arrays, workload.options.batch_size, values=False)
    weights = _variables(model.trainable_variables), _variables(model.non_trainable_variables)
    layers, note = recurrent_layers(model, workload.options.sequence_length or workload.recipe.sequence_length)
    notes: dict[str, Any] = {"recurrent": tuple(layers), "note": note} if kind == "gpu" else {}
    if mode == "predict":
        workload.check_options()
        return Step(jax.jit(_prediction(workload, model)), (weights, arrays, index), (2,), "batch", False, **notes)
    optimizer = _optimizer(workload, model, precision)
    workload.check_options()
    metrics = _variables(model.metrics_variables) if workload.own_step(model) else []
    state = State(*weights, _variables(optimizer.variables), metrics)
    step = jax.jit(training_step(workload, model, optimizer), donate_argnums=(0,))
    return Step(step, (state, arrays, index), (2,), ("whole", "whole"), True, keras=True, **notes)


def _generating(workload: TrainingWorkload, mode: Mode) -> Step:
    """The prompt's program or a single token's; weights on every device, sequences and their cache divided over them.

    A decoding step overwrites its cache.
    """
    import jax

    from whichdevice.models.steps.generation import generation_programs

    workload.splits(_arrays(workload))
    model = without_values(workload.model)
    length = tokens_of(workload.example(model)).shape[0]
    batch, prompt = workload.options.batch_size, prompt_length(length)
    prefill, decode = generation_programs(workload, model, length)
    weights = _variables([*model.trainable_variables, *model.non_trainable_variables])
    tokens = jax.ShapeDtypeStruct((batch, prompt), "int32")
    workload.check_options()
    if mode == "prefill":
        return Step(jax.jit(prefill), (weights, tokens), (1,), ("batch", "batch"), False, batch * prompt)
    cache, following = jax.eval_shape(lambda *given: prefill(*given), weights, tokens)
    arguments = cache, weights, following, jax.ShapeDtypeStruct((), "int32")
    return Step(jax.jit(decode, donate_argnums=(0,)), arguments, (0, 2), ("batch", "batch"), True, batch)


def _prediction(workload: TrainingWorkload, model: Any) -> Callable[..., Any]:
    """A function (weights, arrays, index int32 [batch]) → float32 predictions."""
    import jax
    from jax import numpy as jnp

    def predict(weights: Any, arrays: Any, index: Any) -> Any:
        inputs = workload.batch(arrays, index)[0]
        prediction, _ = model.stateless_call(*weights, inputs, **in_mode(model, False))
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, "float32"), prediction)

    return predict


def _optimizer(workload: TrainingWorkload, model: Any, precision: str) -> Any:
    """Built; in float16 it scales the loss, as the JAX backend's."""
    import keras

    if workload.own_step(model):
        optimizer = model.optimizer
        with _without_weights():
            optimizer.build(model.trainable_variables)
        return optimizer
    optimizer = workload.optimizer()
    if precision == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    with _without_weights():
        optimizer.build(model.trainable_variables)
    return optimizer


@contextmanager
def _without_weights() -> Iterator[None]:
    """While it lasts, Keras' variables are made without values."""
    import keras

    with keras.StatelessScope(initialize_variables=False):
        yield


def _arrays(workload: TrainingWorkload) -> dict[str, np.ndarray]:
    """Zeros in the shapes of the workload's dataset, which take no memory."""
    if workload.dataset is None:
        return {}
    known = get_dataset(workload.dataset).arrays
    return {name: np.broadcast_to(np.zeros((), array.dtype), array.shape) for name, array in known.items()}


def _variables(variables: Sequence[Any]) -> list[Any]:
    import jax

    return [jax.ShapeDtypeStruct(tuple(one.shape), jax.dtypes.canonicalize_dtype(one.dtype)) for one in variables]


def _described(tree: Any, dtype: str | None = None) -> Any:
    """Shapes and types in place of arrays, with the types that JAX would store."""
    import jax

    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, dtype or jax.dtypes.canonicalize_dtype(leaf.dtype)), tree
    )


def compile_step(step: Step, target: Target, precision: str, batch: int, mode: Mode = "train") -> CompiledProgram:
    """Compile a step for a target; the batch is divided over its devices."""
    import jax

    require_fit(target, precision, batch if step.batch else None)
    description = describe(target)
    whole, divided = shardings(description)
    arguments = [
        jax.tree.map(lambda leaf, where=divided if number in step.batch else whole: placed(leaf, where), argument)
        for number, argument in enumerate(step.arguments)
    ]
    lowered = _with_outputs(step, whole, divided).lower(*arguments)
    started = time.monotonic()
    compiled = _compile(lowered)
    seconds = time.monotonic() - started
    memory = memory_need(compiled.memory_analysis())
    return CompiledProgram(target, precision, batch, mode, compiled.as_text(), memory, seconds)


def require_fit(target: Target, precision: str, batch: int | None) -> None:
    """Raise StudyError where the target has no such number format, or a batch does not divide over its devices."""
    if (refusal := replace(target, devices=1).refusal(precision)) is not None:
        raise StudyError(refusal)
    if batch is not None and batch % target.devices:
        raise StudyError(f"batch size {batch} does not divide over the {target.devices} devices of {target.label}")


def _with_outputs(step: Step, whole: Any, divided: Any) -> Any:
    import jax

    where = jax.tree.map({"whole": whole, "batch": divided}.__getitem__, step.outputs)
    donate = (0,) if step.in_place else ()
    return jax.jit(step.function, donate_argnums=donate, out_shardings=where)


def describe(target: Target) -> Any:
    """JAX's description of a target's devices, `.devices` included.

    `start` was called before. Raises CompilerMissingError where the compiler does not load.
    """
    from jax.experimental import topologies

    shape = f"1x1x{target.devices}"  # slices x hosts x devices
    try:
        topology = topologies.get_topology_desc(platform="cuda", target_config=target.config_text(), topology=shape)
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise CompilerMissingError(f"{COMPILER} does not load here: {first}") from error
    if len(topology.devices) != target.devices:
        raise StudyError(f"{target.label}: the compiler gives {len(topology.devices)} devices, not {target.devices}")
    return topology


def shardings(description: Any) -> tuple[Any, Any]:
    """Copied to every device, and divided along the first axis."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(description.devices), ("batch",))
    return NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("batch"))


def placed(leaf: Any, sharding: Any) -> Any:
    """A description of an array with its place."""
    import jax

    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _compile(lowered: Any) -> Any:
    try:
        return lowered.compile()
    except Exception as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise compiler_error(f"{type(error).__name__}: {first}") from error


def jax_step(workload: JaxFile, mode: str) -> tuple[Callable[..., Any], Any, Any]:
    """The function of a step, its first argument as shapes, and shapes of the data."""
    import jax

    train, _ = workload.splits({})
    model = workload.model()

    def shape_of(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))

    arrays = {name: shape_of(array) for name, array in train.arrays.items()}
    trained, held = jax.eval_shape(lambda tree: jax.tree.map(workload.typed, tree), (model.trained, model.held))
    if mode == "predict":
        predicted = prediction(model)
        return (
            lambda state, arrays, index: predicted(state, workload.batch(arrays, index)[0]),
            (trained, held),
            arrays,
        )
    optimizer = workload.optimizer()
    workload.check_options()
    state = State(trained, held, jax.eval_shape(optimizer.init, trained))
    return gathered(workload, function_step(workload, model, optimizer)), state, arrays
