"""Training by JAX: state, data and batch numbers on the device, the state given away at each step and used again."""

from typing import Any

import numpy as np

from whichdevice.backends.base import Forward, Means, TrainingLoop
from whichdevice.backends.jax_programs import LOOP_STEPS, StepPrograms
from whichdevice.backends.jax_step import State, build_traced, state_of, training_step, write_back
from whichdevice.backends.model_losses import as_one_array, loss_and_metric, total_loss
from whichdevice.workloads.base import Split, TrainingWorkload
from whichdevice.workloads.shapes import in_mode


class JaxTraining(TrainingLoop):
    """Every replica holds all weights and all data and takes its share of each batch; XLA adds the reductions.

    `model.optimizer` is built. `loops`: many steps in one compiled loop, where the device runs them well.
    """

    def __init__(
        self, jax: Any, mesh: Any, workload: TrainingWorkload, model: Any, train: Split, validation: Split, loops: bool
    ) -> None:
        self._jax, self._workload, self._model, self._validation = jax, workload, model, validation
        spec = jax.sharding.PartitionSpec
        self._replicas = mesh.size
        self._whole = jax.sharding.NamedSharding(mesh, spec())
        self._rows = jax.sharding.NamedSharding(mesh, spec(None, "replica"))
        self._copy = jax.jit(lambda tree: jax.tree.map(jax.numpy.copy, tree), out_shardings=self._whole)
        self._arrays, self._held_out = self._place(train), self._place(validation)
        self._own = workload.own_step(model)
        if self._own and self._held_out:
            build_traced(workload, model, self._held_out, workload.options.batch_size, values=True)
            model.reset_metrics()
        self._state: State = self._held()
        self._initial = jax.tree.map(np.array, self._state)
        self.programs = StepPrograms(jax, self._step(), loops)
        self._judge = jax.jit(self._judged)
        self._test = jax.jit(self._tested)
        self._foretell = jax.jit(self._predicted)
        jax.block_until_ready((self._arrays, self._held_out))  # the way to the device is no part of the first step

    def _place(self, split: Split) -> Any:
        arrays = {name: np.ascontiguousarray(array) for name, array in split.arrays.items()}
        return self._jax.device_put(arrays, self._whole)

    def _step(self) -> Any:
        step = training_step(self._workload, self._model, self._model.optimizer)

        def counted(carry: Any, constants: Any) -> Any:
            state, sums, done = carry
            arrays, block = constants
            state, means = step(state, arrays, block[done % LOOP_STEPS])
            return state, means if self._own else sums + means, done + 1  # its own are means so far

        return counted

    def run(self, batches: np.ndarray) -> Means:
        """Train and wait for the sums, which need every step."""
        if self._own:
            self._state = self._state._replace(metrics=self._copy(self._initial.metrics))
        carry = (self._state, *self._copy((np.zeros(2, np.float32), np.int32(0))))
        for start in range(0, len(batches), LOOP_STEPS):
            part = batches[start : start + LOOP_STEPS]
            block = np.zeros((LOOP_STEPS, batches.shape[1]), np.int32)  # one shape, whatever the number of steps
            block[: len(part)] = part
            constants = (self._arrays, self._jax.device_put(block, self._rows))
            carry = self.programs.run(carry, constants, len(part))
        self._state, sums, _ = carry
        return self._read(np.asarray(sums) / (1 if self._own else len(batches)))

    def _read(self, means: np.ndarray) -> Means:
        return Means(float(means[0]), None if self._workload.metric is None else float(means[1]))

    def _judged(self, state: State, arrays: Any, index: Any) -> Any:
        inputs, target = self._workload.batch(arrays, index)
        prediction, own = self._inferred(state, inputs)
        loss = total_loss(self._workload.loss(target, prediction), own)
        metric = 0.0 if self._workload.metric is None else self._workload.quality(target, prediction)
        jnp = self._jax.numpy
        return jnp.stack([jnp.asarray(mean, "float32") for mean in (loss, metric)])

    def _tested(self, state: State, arrays: Any, index: Any) -> tuple[Any, list[Any]]:
        """Loss and metric so far by the model's own `test_step`, and its metrics."""
        held = (state.trainable, state.non_trainable, state.metrics)
        logs, after = self._model.test_step(held, self._workload.batch(arrays, index))
        jnp = self._jax.numpy
        means = [jnp.asarray(each, "float32") for each in loss_and_metric(logs, self._workload.metric)]
        return jnp.stack(means), after[2]

    def _predicted(self, state: State, arrays: Any, index: Any) -> Any:
        return as_one_array(self._inferred(state, self._workload.batch(arrays, index)[0])[0])

    def _inferred(self, state: State, inputs: Any) -> tuple[Any, list[Any]]:
        """Predictions, and the model's own losses."""
        prediction, _, own = self._model.stateless_call(
            state.trainable, state.non_trainable, inputs, return_losses=True, **in_mode(self._model, False)
        )
        return prediction, own

    def _shared(self, index: np.ndarray) -> Any:
        """Example numbers [batch], a share on each replica where it divides, else all on each."""
        spec = self._jax.sharding.PartitionSpec("replica" if len(index) % self._replicas == 0 else None)
        return self._jax.device_put(index, self._jax.sharding.NamedSharding(self._whole.mesh, spec))

    def evaluate(self) -> Means:
        """Weighted by batch, so that the tail counts for what it is; compiled for whole batches and for the tail."""
        size = self._validation.batch_size or self._workload.options.batch_size
        examples = np.arange(self._validation.examples, dtype=np.int32)
        parts = [examples[start : start + size] for start in range(0, len(examples), size)]
        if self._own:
            state, last = self._state._replace(metrics=self._copy(self._initial.metrics)), np.zeros(2)
            for part in parts:
                last, metrics = self._test(state, self._held_out, self._shared(part))
                state = state._replace(metrics=metrics)
            return self._read(np.asarray(last))
        means = [self._judge(self._state, self._held_out, self._shared(part)) for part in parts]
        return self._read(np.average(np.asarray(means), axis=0, weights=[len(part) for part in parts]))

    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions of the model as it stands."""
        return np.asarray(self._foretell(self._state, self._held_out, self._shared(index)))

    def reset(self) -> None:
        """What every weight, optimiser variable and random generator held at first."""
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


def compiled_forward(jax: Any, mesh: Any, model: Any) -> Forward:
    """The model's forward pass as one program with its weights on every replica; replicas share each batch."""
    spec = jax.sharding.PartitionSpec
    whole, rows = (jax.sharding.NamedSharding(mesh, spec(*axes)) for axes in ((), ("replica",)))
    trainable, non_trainable = jax.device_put(
        (
            [variable.value for variable in model.trainable_variables],
            [variable.value for variable in model.non_trainable_variables],
        ),
        whole,
    )

    def predicted(trainable: Any, non_trainable: Any, inputs: Any) -> Any:
        prediction, _ = model.stateless_call(trainable, non_trainable, inputs, **in_mode(model, False))
        return jax.tree.map(lambda leaf: jax.numpy.asarray(leaf, "float32"), prediction)

    program = jax.jit(predicted)

    def forward(inputs: Any) -> Any:
        placed = inputs if mesh.size == 1 else jax.device_put(inputs, rows)
        return jax.tree.map(np.asarray, program(trainable, non_trainable, placed))

    return forward
