"""Training in TensorFlow: gather, forward, backward and update, many steps in one call.

The loop runs around the replicas, as Keras' own does: one program of a step then serves any number of steps, where
a loop inside a program that XLA compiles would be compiled anew for each number.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from whichdevice.measure.backends.base import Forward, Means, TrainingLoop, means_of, optimizer_variables
from whichdevice.models.shapes import in_mode, mapped
from whichdevice.models.steps.losses import as_one_array, loss_and_metric, total_loss
from whichdevice.models.workloads.base import Split, TrainingWorkload


def place(tf: Any, strategy: Any, arrays: dict[str, np.ndarray], gather_uint8: bool = True) -> dict[str, Any]:
    """A copy of the arrays on every replica: variables, as a TPU fetches constants from its host at every call.

    TensorFlow 2.21 gathers uint8 on a GPU from a plain variable and by XLA, else copies all of it to the host at each
    step: on several GPUs without `gather_uint8` such arrays become float16, which holds 0 to 255 exactly.
    """
    placed = {}
    for name, array in arrays.items():
        widened = array.dtype == np.uint8 and not gather_uint8 and strategy.num_replicas_in_sync > 1
        value = np.asarray(array, np.float16 if widened else array.dtype)
        with strategy.scope():
            placed[name] = tf.Variable(value, trainable=False, name=name)
    return placed


class TensorFlowTraining(TrainingLoop):
    """Replicas each take their share of a batch, gradients are averaged; `xla` compiles the step and what judges it."""

    def __init__(
        self,
        tf: Any,
        strategy: Any,
        workload: TrainingWorkload,
        model: Any,
        train: Split,
        validation: Split,
        xla: bool,
        gather_uint8: bool,
    ) -> None:
        self._tf, self._strategy, self._workload, self._model = tf, strategy, workload, model
        self._replicas = strategy.num_replicas_in_sync
        self._validation, self._own = validation, workload.own_step(model)
        self._train = place(tf, strategy, train.arrays, gather_uint8)
        self._held_out = place(tf, strategy, validation.arrays, gather_uint8)
        share = workload.options.batch_size // self._replicas
        one: Any = self._program(self._averaged_step, xla) if xla or self._own else self._averaged_step
        if self._own:  # its trace makes what its losses, metrics and optimisers make when they first run
            one.get_concrete_function(tf.TensorSpec([self._replicas, share], tf.int32))
        self._one = one
        self._initial = self._values()
        shape = tf.TensorSpec([None, self._replicas, share], tf.int32)
        self._steps = tf.function(self._many, input_signature=[shape], autograph=False)
        self._judge = self._program(self._judged_on_all, xla)
        self._foretell = self._program(lambda index: strategy.run(self._predicted, (index,)), xla)

    def _program(self, function: Callable[[Any], Any], xla: bool) -> Any:
        return self._tf.function(function, jit_compile=xla or None, autograph=False)

    def _variables(self) -> list[Any]:
        return [*self._model.variables, *optimizer_variables(self._model)]

    def _values(self) -> list[np.ndarray]:
        from keras import ops

        return [ops.convert_to_numpy(variable) for variable in self._variables()]

    def _many(self, batches: Any) -> Any:
        """Means over int32 [steps, replicas, share]."""
        tf = self._tf
        count = tf.shape(batches)[0]

        def body(step: Any, total: Any) -> tuple[Any, Any]:
            means = self._one(batches[step])
            return step + 1, means if self._own else total + means  # its own are means so far

        sums = tf.while_loop(lambda step, _: step < count, body, (0, tf.zeros(2)))[1]
        return sums if self._own else sums / tf.cast(count, tf.float32)

    def _averaged_step(self, index: Any) -> Any:
        return self._averaged(self._step, index)

    def _averaged(self, means: Any, index: Any) -> Any:
        """Run on every replica with its row of the index, int32 [replicas, share]; the mean of what they return."""
        return self._strategy.reduce("MEAN", self._strategy.run(means, (index,)), axis=None)

    def _own_rows(self, index: Any) -> Any:
        return self._tf.gather(index, self._tf.distribute.get_replica_context().replica_id_in_sync_group)

    def _step(self, index: Any) -> Any:
        if self._own:
            return self._pair(self._model.train_step(self._workload.batch(self._train, self._own_rows(index))))
        inputs, target = self._workload.batch(self._train, self._own_rows(index))
        optimizer, variables = self._model.optimizer, self._model.trainable_variables
        with self._tf.GradientTape() as tape:
            prediction = self._model(inputs, **in_mode(self._model, True))
            loss = total_loss(self._workload.loss(target, prediction), self._model.losses)
            scaled = optimizer.scale_loss(loss / self._replicas)  # Keras adds up the gradients of all replicas
        optimizer.apply(tape.gradient(scaled, variables), variables)
        return self._means(loss, target, prediction)

    def _means(self, loss: Any, target: Any, prediction: Any) -> Any:
        metric = 0.0 if self._workload.metric is None else self._workload.quality(target, prediction)
        return self._tf.stack([self._tf.cast(loss, "float32"), self._tf.cast(metric, "float32")])

    def _pair(self, logs: Any) -> Any:
        return self._tf.stack([self._tf.cast(mean, "float32") for mean in loss_and_metric(logs, self._workload.metric)])

    def _judged_on_all(self, index: Any) -> Any:
        """Mean over the replicas."""
        return self._strategy.reduce("MEAN", self._strategy.run(self._judged, (index,)), axis=None)

    def _judged(self, index: Any) -> Any:
        """Loss and metric."""
        if self._own:
            batch = self._workload.batch(self._held_out, self._own_rows(index))
            return self._pair(self._model.test_step(batch))
        inputs, target = self._workload.batch(self._held_out, self._own_rows(index))
        prediction = self._model(inputs, **in_mode(self._model, False))
        loss = total_loss(self._workload.loss(target, prediction), self._model.losses)
        return self._means(loss, target, prediction)

    def _predicted(self, index: Any) -> Any:
        inputs = self._workload.batch(self._held_out, self._own_rows(index))[0]
        return as_one_array(self._model(inputs, **in_mode(self._model, False)))

    def _joined(self, predictions: Any) -> np.ndarray:
        return np.concatenate([part.numpy() for part in self._strategy.experimental_local_results(predictions)])

    def run(self, batches: np.ndarray) -> Means:
        """Train and wait for the sums, which need every step."""
        if self._own:
            self._model.reset_metrics()
        shares = batches.reshape(len(batches), self._replicas, -1)
        return means_of(self._steps(self._tf.constant(shares)).numpy(), self._workload)

    def reset(self) -> None:
        """Write back what every variable held at first, random state included."""
        for variable, value in zip(self._variables(), self._initial, strict=True):
            variable.assign(value)

    def evaluate(self) -> Means | None:
        """Weighted by batch, so that the tail counts for what it is."""
        if self._workload.outputs(self._model) is None:
            return None
        size = self._validation.batch_size or self._workload.options.batch_size
        sums = np.zeros(2)
        if self._own:
            self._model.reset_metrics()
            for index, _ in shared_out(self._validation.examples, size, self._replicas):
                sums = self._judge(self._tf.constant(index)).numpy()
            return means_of(sums, self._workload)
        for index, count in shared_out(self._validation.examples, size, self._replicas):
            sums += self._judge(self._tf.constant(index)).numpy() * count
        return means_of(sums / self._validation.examples, self._workload)

    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predictions of the model as it stands."""
        if self._workload.outputs(self._model) is None:
            return np.zeros((len(index), 0), np.float32)
        share = -(-len(index) // self._replicas)
        rows = np.resize(index, (self._replicas, share))  # repeats some where the replicas cannot share evenly
        return self._joined(self._foretell(self._tf.constant(rows)))[: len(index)]


def shared_out(examples: int, size: int, replicas: int) -> Iterator[tuple[np.ndarray, int]]:
    """Every example once, as (int32 [replicas, up to `size`], how many); all replicas judge the few left at the end."""
    start = 0
    while start < examples:
        share = min(size, (examples - start) // replicas)
        count = share * replicas or examples - start
        index = np.arange(start, start + count, dtype=np.int32)
        yield (index.reshape(replicas, share) if share else np.tile(index, (replicas, 1))), count
        start += count


def traced_forward(tf: Any, strategy: Any, model: Any, xla: bool) -> Forward:
    """The model's forward pass as one program; each replica takes its share of a batch; `xla` compiles it."""
    replicas = strategy.num_replicas_in_sync

    def own(shares: Any) -> Any:
        """This replica's part of inputs [replicas, share, ...]."""
        if replicas == 1:
            return shares
        place = tf.distribute.get_replica_context().replica_id_in_sync_group
        return mapped(lambda leaf: tf.gather(leaf, place), shares)

    def predicted(shares: Any) -> Any:
        return mapped(lambda leaf: tf.cast(leaf, "float32"), model(own(shares), **in_mode(model, False)))

    program = tf.function(lambda shares: strategy.run(predicted, (shares,)), jit_compile=xla or None, autograph=False)

    def divided(leaf: np.ndarray) -> Any:
        return tf.constant(leaf if replicas == 1 else leaf.reshape(replicas, -1, *leaf.shape[1:]))

    def joined(leaf: Any) -> np.ndarray:
        parts = strategy.experimental_local_results(leaf)
        return parts[0].numpy() if replicas == 1 else np.concatenate([part.numpy() for part in parts])

    def forward(inputs: Any) -> Any:
        return mapped(joined, program(mapped(divided, inputs)))

    return forward
