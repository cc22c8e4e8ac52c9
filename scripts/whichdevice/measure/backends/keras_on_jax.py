"""Train by JAX: state, data and batch numbers on the device, the state given away at each step and used again.

One training step is a pure function of its state: the JAX backend runs it and forecasts count it. The number formats
of a step's products are read from its program's text (HLO).
"""

import re
from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from whichdevice.base.memory import available_memory
from whichdevice.measure.backends.base import Forward, Means, TrainingLoop, means_of
from whichdevice.measure.backends.number_formats import emulated, product_format
from whichdevice.measure.record import Types
from whichdevice.models.shapes import in_mode
from whichdevice.models.steps.keras_on_jax import State, build_traced, training_step
from whichdevice.models.steps.losses import as_one_array, loss_and_metric, total_loss
from whichdevice.models.workloads.base import Split, TrainingWorkload

HLO_FORMATS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}
PRODUCT = re.compile(r" (?:dot|convolution|custom-call)\(([^)]*)\)(.*)")
LIBRARY_CALL = re.compile(r'custom_call_target="[^"]*(?:cublas|cudnn|onednn|matmul)', re.IGNORECASE)
DEFINED = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = \(?(\w+)\[([\d,]*)\]")


def state_of(model: Any, optimizer: Any, own: bool = False) -> State:
    """The values that a built model and a built optimiser hold now; `own`: and the metrics of the own step."""
    return State(
        [variable.value for variable in model.trainable_variables],
        [variable.value for variable in model.non_trainable_variables],
        [variable.value for variable in optimizer.variables],
        [variable.value for variable in model.metrics_variables] if own else [],
    )


def write_back(state: State, model: Any, optimizer: Any) -> None:
    """Put a state into the Keras variables."""
    for variables, values in (
        (model.trainable_variables, state.trainable),
        (model.non_trainable_variables, state.non_trainable),
        (optimizer.variables, state.optimizer),
    ):
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


class CompiledStep:
    """`step(carry, constants) → carry` as one program; where it works `in_place`, the carry's memory is used again."""

    def __init__(self, jax: Any, step: Callable[[Any, Any], Any], in_place: bool = True) -> None:
        self._jax, self._step, self._donated = jax, step, (0,) if in_place else ()
        self._program: Any = None
        self.written = ""  # HLO before the compiler
        self.executed = ""  # and after it

    def __call__(self, carry: Any, constants: Any) -> Any:
        """Run one step, compiled at the first call; returns before the device is done."""
        self.compile(carry, constants)
        return self._program(carry, constants)

    def compile(self, carry: Any, constants: Any) -> None:
        """Compile for arguments like these, unless that is done."""
        if self._program is not None:
            return
        kept = self._jax.tree.map(lambda leaf: leaf.sharding, carry)
        lowered = self._jax.jit(self._step, donate_argnums=self._donated, out_shardings=kept).lower(carry, constants)
        self._program = lowered.compile()
        _check_host_memory(self._program, self._jax.tree.leaves(carry)[0].devices())
        self.written, self.executed = lowered.as_text("hlo"), self._program.as_text()


def _check_host_memory(compiled: Any, devices: set[Any]) -> None:
    """Raise MemoryError where a CPU's program cannot fit: the system would kill the process without a word."""
    analysis = compiled.memory_analysis()
    if analysis is None or next(iter(devices)).platform != "cpu":
        return
    need, free = analysis.temp_size_in_bytes * len(devices), available_memory()
    if need > free:
        raise MemoryError(f"the compiled step needs {need / 1e9:.1f} GB beside its data, {free / 1e9:.1f} GB are free")


def shardings(jax: Any, mesh: Any) -> tuple[Any, Any]:
    """Return how arrays lie on the replicas: whole on each, or in shares of their first axis."""
    spec = jax.sharding.PartitionSpec
    return jax.sharding.NamedSharding(mesh, spec()), jax.sharding.NamedSharding(mesh, spec("replica"))


class JaxTraining(TrainingLoop):
    """Every replica holds all weights and all data and takes its share of each batch; XLA adds the reductions.

    `model.optimizer` is built.
    """

    def __init__(
        self, jax: Any, mesh: Any, workload: TrainingWorkload, model: Any, train: Split, validation: Split
    ) -> None:
        self._jax, self._workload, self._model, self._validation = jax, workload, model, validation
        self._replicas = mesh.size
        self._whole, self._share = shardings(jax, mesh)
        self._copy = jax.jit(lambda tree: jax.tree.map(jax.numpy.copy, tree), out_shardings=self._whole)
        self._arrays, self._held_out = self._place(train), self._place(validation)
        self._own = workload.own_step(model)
        if self._own and self._held_out:
            build_traced(workload, model, self._held_out, workload.options.batch_size, values=True)
            model.reset_metrics()
        self._state: State = self._held()
        self._initial = jax.tree.map(np.array, self._state)
        self.step = CompiledStep(jax, self._step())
        self._judge = jax.jit(self._judged)
        self._test = jax.jit(self._tested)
        self._foretell = jax.jit(self._predicted)
        jax.block_until_ready((self._arrays, self._held_out))  # the way to the device is no part of the first step

    def _place(self, split: Split) -> Any:
        arrays = {name: np.ascontiguousarray(array) for name, array in split.arrays.items()}
        return self._jax.device_put(arrays, self._whole)

    def _step(self) -> Any:
        step = self._single()

        def summed(carry: Any, constants: Any) -> Any:
            state, sums = carry
            state, means = step(state, *constants)
            return state, means if self._own else sums + means  # its own are means so far

        return summed

    def _single(self) -> Any:
        """One step, (state, arrays, index) → (state, means)."""
        return training_step(self._workload, self._model, self._model.optimizer)

    def run(self, batches: np.ndarray) -> Means:
        """Train and wait for the sums, which need every step."""
        if self._own:
            self._state = self._state._replace(metrics=self._copy(self._initial.metrics))
        carry = self._state, self._copy(np.zeros(2, np.float32))
        for index in batches:
            carry = self.step(carry, (self._arrays, self._jax.device_put(index, self._share)))
        self._state, sums = carry
        return means_of(np.asarray(sums) / (1 if self._own else len(batches)), self._workload)

    def _judged(self, state: State, arrays: Any, index: Any) -> Any:
        """Loss and metric."""
        inputs, target = self._workload.batch(arrays, index)
        prediction, added = self._inferred(state, inputs)
        loss = total_loss(self._workload.loss(target, prediction), added)
        metric = 0.0 if self._workload.metric is None else self._workload.quality(target, prediction)
        jnp = self._jax.numpy
        return jnp.stack([jnp.asarray(mean, "float32") for mean in (loss, metric)])

    def _tested(self, state: State, arrays: Any, index: Any) -> tuple[Any, list[Any]]:
        """Loss and metric so far by the model's own `test_step`, and its metrics."""
        held = (state.trainable, state.non_trainable, state.metrics)
        logs, after = self._model.test_step(held, self._workload.batch(arrays, index))
        jnp = self._jax.numpy
        means = [jnp.asarray(mean, "float32") for mean in loss_and_metric(logs, self._workload.metric)]
        return jnp.stack(means), after[2]

    def _predicted(self, state: State, arrays: Any, index: Any) -> Any:
        return as_one_array(self._inferred(state, self._workload.batch(arrays, index)[0])[0])

    def _inferred(self, state: State, inputs: Any) -> tuple[Any, list[Any]]:
        """Predictions, and the model's own losses."""
        prediction, _, added = self._model.stateless_call(
            state.trainable, state.non_trainable, inputs, return_losses=True, **in_mode(self._model, False)
        )
        return prediction, added

    def _shared(self, index: np.ndarray) -> Any:
        """Example numbers [batch], a share on each replica where it divides, else all on each."""
        return self._jax.device_put(index, self._whole if len(index) % self._replicas else self._share)

    def evaluate(self) -> Means | None:
        """Weighted by batch, so that the tail counts for what it is; compiled for whole batches and for the tail."""
        if self._workload.outputs(self._model) is None:
            return None
        size = self._validation.batch_size or self._workload.options.batch_size
        examples = np.arange(self._validation.examples, dtype=np.int32)
        parts = [examples[start : start + size] for start in range(0, len(examples), size)]
        if self._own:
            state, last = self._state._replace(metrics=self._copy(self._initial.metrics)), np.zeros(2)
            for part in parts:
                last, metrics = self._test(state, self._held_out, self._shared(part))
                state = state._replace(metrics=metrics)
            return means_of(np.asarray(last), self._workload)
        judged = [self._judge(self._state, self._held_out, self._shared(part)) for part in parts]
        weights = [len(part) for part in parts]
        return means_of(np.average(np.asarray(judged), axis=0, weights=weights), self._workload)

    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions of the model as it stands."""
        if self._workload.outputs(self._model) is None:
            return np.zeros((len(index), 0), np.float32)
        return np.asarray(self._foretell(self._state, self._held_out, self._shared(index)))

    def reset(self) -> None:
        """Restore what every weight, optimiser variable and random generator held at first."""
        self._state = self._copy(self._initial)

    def publish(self) -> None:
        """A copy into the Keras model, as the next step gives the state's own memory away."""
        first = self._jax.tree.map(lambda leaf: leaf.addressable_data(0), self._state)
        copied = self._jax.tree.map(lambda leaf: self._jax.numpy.array(leaf, copy=True), first)
        write_back(copied, self._model, self._model.optimizer)

    def adopt(self) -> None:
        """A copy of what the Keras model and its optimiser hold, on every replica."""
        self._state = self._held()

    def _held(self) -> State:
        held = state_of(self._model, self._model.optimizer, self._own)
        return self._copy(self._jax.device_put(held, self._whole))


def keras_forward(jax: Any, mesh: Any, model: Any) -> Forward:
    """The Keras model's forward pass as one program."""
    variables = [variable.value for variable in model.trainable_variables]
    frozen = [variable.value for variable in model.non_trainable_variables]

    def predicted(state: Any, inputs: Any) -> Any:
        prediction, _ = model.stateless_call(*state, inputs, **in_mode(model, False))
        return jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, "float32"), prediction)

    return compiled_forward(jax, mesh, (variables, frozen), predicted)


def compiled_forward(jax: Any, mesh: Any, state: Any, predicted: Callable[[Any, Any], Any]) -> Forward:
    """`predicted(state, inputs)` as one program with the state on every replica; replicas share each batch."""
    whole, rows = shardings(jax, mesh)
    state, program = jax.device_put(state, whole), jax.jit(predicted)

    def forward(inputs: Any) -> Any:
        placed = inputs if mesh.size == 1 else jax.device_put(inputs, rows)
        return jax.tree.map(np.asarray, program(state, placed))

    return forward


def factor_formats(text: str) -> Counter[str]:
    """Formats of the factors that products take, by about how many multiplications each accounts for."""
    shapes = {}
    for line in text.splitlines():
        if (defined := DEFINED.match(line)) is not None:
            shapes[defined[1]] = (defined[2], prod(int(size) for size in defined[3].split(",") if size))
    formats: Counter[str] = Counter()
    for line in text.splitlines():
        result, product = DEFINED.match(line), PRODUCT.search(line)
        if result is None or product is None or ("custom-call(" in line and not LIBRARY_CALL.search(line)):
            continue
        names = [name for name in re.findall(r"[\w.\-]+", product[1]) if name in shapes][:2]
        sizes = [shapes[name][1] for name in (result[1], *names)]
        formats[shapes[names[0]][0]] += round(prod(sizes) ** 0.5)  # exact for matrices, near enough for convolutions
    return formats


def types_of(precision: str, kind: str, storage: str, written: str, executed: str) -> Types:
    """Return what a compiled step really does; before there is one (empty texts), what was asked for.

    Products are named by what their factors are rounded to in the program as written. XLA may then widen them to a
    format that the device has: that is an emulation. It sums in float32 and rounds when stored.
    """
    product = product_format(precision)
    asked, done = (_most(factor_formats(text)) for text in (written, executed))
    if asked is not None and not (product == "tf32" and asked == "float32"):
        product = asked
    how = emulated(kind, product)
    if how is None and asked is not None and done is not None and done != asked:
        how = f"XLA computes them as {done} products"
    return Types(storage=storage, product=product, sum="float32", emulated=how)


def _most(formats: Counter[str]) -> str | None:
    known = Counter({HLO_FORMATS[name]: work for name, work in formats.items() if name in HLO_FORMATS})
    return known.most_common(1)[0][0] if known else None
