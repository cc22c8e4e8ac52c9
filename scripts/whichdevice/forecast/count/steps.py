"""One training or inference step of JAX, Keras or TensorFlow as a function of shapes, to be counted.

    start()
    step = make_step("resnet50", "mixed_bfloat16", batch=256)
    counted = step.counted()        # kernels and memory (stablehlo.py)

The step is the very function that the JAX backend runs. Models are built without their weights, and data are shapes
where only shapes matter, so that a model larger than this host is counted, too. JAX must not have used a device before
in the process. A model that asks JAX for its devices sees this host's: Keras' LSTM is then a loop over time steps, and
its attention plain products.
"""

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.processes import quick_imports
from whichdevice.forecast.count.fusion import Counted
from whichdevice.forecast.count.recurrent import Recurrent, recurrent_layers
from whichdevice.forecast.products import GENERATING, Mode
from whichdevice.forecast.targets import environment
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
    """A function of shapes."""

    function: Any  # of jax.jit; a donated first argument gives its memory to the result
    arguments: tuple[Any, ...]  # trees of jax.ShapeDtypeStruct
    weights: Any = ()  # the arguments that are weights and other state of the model
    optimizer: Any = ()  # the arguments that are the optimiser's state
    gradients: Any = ()  # weights that have gradients
    tokens: int | None = None  # that a step of mode generate processes or makes
    note: str | None = None  # in what the program is another than the one that a real device would run
    keras: bool = False  # whether it is a step of Keras' `fit`
    recurrent: tuple[Recurrent, ...] = ()  # layers whose loops stand for cuDNN's

    @property
    def arrays(self) -> int:
        """The number of arrays that a call of it hands over."""
        import jax

        return len(jax.tree.leaves(self.arguments))

    def counted(self) -> Counted:
        """Lower the step for a GPU and count it; raises what JAX raises where it cannot be traced."""
        from whichdevice.forecast.count.stablehlo import count_program

        return count_program(self.function.trace(*self.arguments).lower(lowering_platforms=("cuda",)))


def nbytes_of(tree: Any) -> float:
    """Return the bytes of all arrays of a tree of shapes."""
    import jax

    return float(sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)))


def start() -> None:
    """Import JAX and Keras for a host without accelerators; what JAX read before stays as it is."""
    if "jax" not in sys.modules:
        os.environ.update(environment())
    with quick_imports("tensorflow", "torch"):
        import jax
        import keras  # noqa: F401

    jax.config.update("jax_platforms", "cpu")


def make_step(
    module: str,
    precision: str,
    batch: int,
    mode: Mode = "train",
    options: Mapping[str, Any] = {},
    sequence_length: int | None = None,
) -> Step:
    """The step of a workload, of `batch` examples on one device, as a function of shapes."""
    import jax
    import keras

    # As the JAX backend does: full float32 products unless TF32 is asked for.
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if precision == "tf32" else "highest")
    keras.config.set_dtype_policy("float32" if precision == "tf32" else precision)
    given = Options(batch, precision, 1.0, sequence_length, given=dict(options))
    workload = Model.read(module).workload(given)
    if isinstance(workload, OperationWorkload):
        if mode != "train":
            raise StudyError(f"{module}: an operation, which has no inference; leave out --mode")
        return _operation(workload)
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{module}: it has no model to count")
    if isinstance(workload, NativeFile):
        return _native(workload, mode)
    if mode in GENERATING:
        return _generating(workload, mode)
    return _training(workload, precision, mode)


def _native(workload: NativeFile, mode: Mode) -> Step:
    """A step of a JAX function."""
    import jax

    if mode in GENERATING:
        raise StudyError(f"{workload.address.label}: generation is forecast for Keras models only")
    assert isinstance(workload, JaxFile)
    function, state, arrays = jax_step(workload, mode)
    index = jax.ShapeDtypeStruct((workload.options.batch_size,), "int32")
    if mode == "predict":
        return Step(jax.jit(function), (state, arrays, index), weights=state)
    return Step(
        jax.jit(function, donate_argnums=(0,)), (state, arrays, index), weights=(state.trainable, state.non_trainable),
        optimizer=state.optimizer, gradients=state.trainable,
    )  # fmt: skip


def _operation(workload: OperationWorkload) -> Step:
    """An operation, in place where a measured run's is."""
    import jax
    import keras

    state, operands = workload.operands(np.random.default_rng(0))
    described = _described((state, operands), keras.config.dtype_policy().compute_dtype)
    return Step(jax.jit(workload.step, donate_argnums=(0,) if workload.bounded else ()), described)


def _training(workload: TrainingWorkload, precision: str, mode: Mode) -> Step:
    """A step on weights, data and example numbers; a training step overwrites its state."""
    import jax

    train, _ = workload.splits(_arrays(workload))
    model = without_values(workload.model)
    arrays = _described(dict(train.arrays))
    index = jax.ShapeDtypeStruct((workload.options.batch_size,), "int32")
    if workload.own_step(model) and mode == "train":
        require_jax_step(model)
        build_traced(workload, model, train.arrays, workload.options.batch_size, values=False)
    weights = _described(model.trainable_variables), _described(model.non_trainable_variables)
    layers, note = recurrent_layers(model, workload.options.sequence_length or workload.recipe.sequence_length)
    notes: dict[str, Any] = {"recurrent": tuple(layers), "note": note, "weights": weights}
    if mode == "predict":
        workload.check_options()
        return Step(jax.jit(_prediction(workload, model)), (weights, arrays, index), **notes)
    optimizer = _optimizer(workload, model, precision)
    workload.check_options()
    metrics = _described(model.metrics_variables) if workload.own_step(model) else []
    state = State(*weights, _described(optimizer.variables), metrics)
    step = jax.jit(training_step(workload, model, optimizer), donate_argnums=(0,))
    of_state: dict[str, Any] = {"optimizer": state.optimizer, "gradients": state.trainable}
    return Step(step, (state, arrays, index), keras=True, **of_state, **notes)


def _generating(workload: TrainingWorkload, mode: Mode) -> Step:
    """The prompt's program or a single token's; a decoding step overwrites its cache."""
    import jax

    from whichdevice.models.steps.generation import generation_programs

    workload.splits(_arrays(workload))
    model = without_values(workload.model)
    length = tokens_of(workload.example(model)).shape[0]
    batch, prompt = workload.options.batch_size, prompt_length(length)
    prefill, decode = generation_programs(workload, model, length)
    weights = _described([*model.trainable_variables, *model.non_trainable_variables])
    tokens = jax.ShapeDtypeStruct((batch, prompt), "int32")
    workload.check_options()
    if mode == "prefill":
        return Step(jax.jit(prefill), (weights, tokens), weights=weights, tokens=batch * prompt)
    cache, following = jax.eval_shape(lambda *given: prefill(*given), weights, tokens)
    arguments = cache, weights, following, jax.ShapeDtypeStruct((), "int32")
    return Step(jax.jit(decode, donate_argnums=(0,)), arguments, weights=weights, tokens=batch)


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


def without_values(make: Callable[[], Any]) -> Any:
    """Return the model that `make` makes on JAX, whose weights have no values, which would take longest.

    One that comes compiled has them: no optimiser is made otherwise.
    """
    try:
        with _without_weights():
            return make()
    except (StudyError, ValueError) as error:
        if "stateless scope" not in str(error):
            raise
    return make()


def _described(tree: Any, dtype: str | None = None) -> Any:
    """Shapes and types in place of arrays and variables, with the types that JAX would store."""
    import jax

    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(tuple(leaf.shape), dtype or jax.dtypes.canonicalize_dtype(leaf.dtype)), tree
    )


def jax_step(workload: JaxFile, mode: str) -> tuple[Callable[..., Any], Any, Any]:
    """The function of a step, its first argument as shapes, and shapes of the data."""
    import jax

    train, _ = workload.splits({})
    model = workload.model()
    arrays = _described(dict(train.arrays))
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
