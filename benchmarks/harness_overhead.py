"""Step time as this project reports it against a bare loop that is written here, in alternating blocks.

python benchmarks/harness_overhead.py [--workload mnist_cnn] [--batch 64] [--processes 2] [--pairs 20]
    [--seconds 0.5] [--backends tensorflow jax torch] [--fit]

Both train the same model on the same generated data that lie on the device. A pair is a block timed by the project's
own search for a steady state (all its windows), then as many steps of the bare loop with one reading of the clock at
each end; every other pair begins with the bare one. Printed: the geometric mean of the ratios over all pairs with its
95 % t-interval, and the same of processor time. What sets two compiled programs of one process apart (where each lies
in memory, say) stays for all its pairs: take several processes.

With `--fit` Keras' own `fit` takes the bare loop's place, 32 steps an execution: each block is one call of an epoch.
TensorFlow draws the batches by `tf.data`; JAX gets them as arrays, drawn before the clock.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
Train = Callable[[np.ndarray], None]  # batches of example numbers, int32 [steps, batch]; waits for the last step
EXECUTION = 32  # steps of `fit` in one call of its program


def bare_tensorflow(workload: Any, model: Any, arrays: dict[str, np.ndarray]) -> Train:
    """All steps in one call, as of `steps_per_execution`."""
    import tensorflow as tf

    held = {name: tf.Variable(np.asarray(array), trainable=False) for name, array in arrays.items()}
    optimizer, variables = workload.optimizer(), model.trainable_variables
    optimizer.build(variables)

    def step(index: Any) -> Any:
        inputs, target = workload.batch(held, index)
        with tf.GradientTape() as tape:
            prediction = model(inputs, training=True)
            loss = workload.loss(target, prediction)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return tf.stack([loss, workload.quality(target, prediction)])

    @tf.function(input_signature=[tf.TensorSpec([None, workload.options.batch_size], tf.int32)], autograph=False)
    def steps(rows: Any) -> Any:
        def one(place: Any, sums: Any) -> tuple[Any, Any]:
            return place + 1, sums + step(rows[place])

        return tf.while_loop(lambda place, _: place < tf.shape(rows)[0], one, (0, tf.zeros(2)))[1]

    return lambda batches: steps(tf.constant(batches)).numpy()


def bare_jax(workload: Any, model: Any, arrays: dict[str, np.ndarray]) -> Train:
    """One jitted step, its state given away at each call."""
    import jax
    from jax import numpy as jnp

    held = {name: jnp.asarray(np.asarray(array)) for name, array in arrays.items()}
    optimizer = workload.optimizer()
    optimizer.build(model.trainable_variables)
    kinds = model.trainable_variables, model.non_trainable_variables, optimizer.variables
    state = [[jnp.array(variable.value, copy=True) for variable in variables] for variables in kinds]

    def loss_of(trained: Any, others: Any, inputs: Any, target: Any) -> Any:
        prediction, others = model.stateless_call(trained, others, inputs, training=True)
        return workload.loss(target, prediction), (prediction, others)

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(state: Any, sums: Any, held: Any, index: Any) -> Any:
        trained, others, kept = state
        inputs, target = workload.batch(held, index)
        (loss, (prediction, others)), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            trained, others, inputs, target
        )
        trained, kept = optimizer.stateless_apply(kept, gradients, trained)
        return [trained, others, kept], sums + jnp.stack([loss, workload.quality(target, prediction)])

    def train(batches: np.ndarray) -> None:
        nonlocal state
        sums = jnp.zeros(2)
        for index in batches:
            state, sums = step(state, sums, held, index)
        np.asarray(sums)

    return train


def bare_torch(workload: Any, model: Any, arrays: dict[str, np.ndarray]) -> Train:
    """One operation after the other."""
    import torch

    held = {name: torch.tensor(np.asarray(array)) for name, array in arrays.items()}
    optimizer, variables = workload.optimizer(), model.trainable_variables
    optimizer.build(variables)

    def train(batches: np.ndarray) -> None:
        sums = torch.zeros(2)
        for index in torch.tensor(batches):
            inputs, target = workload.batch(held, index)
            model.zero_grad()
            prediction = model(inputs, training=True)
            loss = workload.loss(target, prediction)
            loss.backward()
            with torch.no_grad():
                optimizer.apply([variable.value.grad for variable in variables], variables)
                sums += torch.stack([loss, workload.quality(target, prediction)])
        sums.tolist()

    return train


def keras_fit(name: str, workload: Any, model: Any, arrays: dict[str, np.ndarray]) -> Callable[[np.ndarray], Any]:
    """Return what prepares a call of `fit` on batches; as in the project's loop, XLA compiles JAX's step alone."""
    import keras

    held = {name: keras.ops.convert_to_tensor(np.asarray(array)) for name, array in arrays.items()}
    model.compile(
        workload.optimizer(), workload.loss, metrics=[workload.quality], steps_per_execution=EXECUTION,
        jit_compile=name == "jax",
    )  # fmt: skip

    def prepare(batches: np.ndarray) -> Callable[[], Any]:
        if name == "tensorflow":
            import tensorflow as tf

            drawn = tf.data.Dataset.from_tensor_slices(batches)
            drawn = drawn.map(lambda index: workload.batch(held, index), num_parallel_calls=tf.data.AUTOTUNE)
            return partial(model.fit, drawn.prefetch(tf.data.AUTOTUNE), verbose=0)
        pairs = [workload.batch(held, index) for index in batches]
        inputs, targets = (np.concatenate([np.asarray(part) for part in parts]) for parts in zip(*pairs, strict=True))
        return partial(model.fit, inputs, targets, batch_size=batches.shape[1], shuffle=False, verbose=0)

    return prepare


BARE_LOOPS = {"tensorflow": bare_tensorflow, "jax": bare_jax, "torch": bare_torch}


def ratios(
    name: str, workload_name: str, batch: int, pairs: int, seconds: float, fit: bool
) -> list[tuple[float, float]]:
    """Ratios of the project's step time to the other loop's, one a pair; and of their processor time."""
    from backends.scenario import arrays_for, request_for

    from whichdevice.measure.backends import backend_class
    from whichdevice.measure.timing import Budget, find_steady_state
    from whichdevice.models.loading import Model
    from whichdevice.models.workloads.base import Options

    request = request_for(workload_name, backend=name, batch_size=batch)
    backend = backend_class(name)(request, threads=int(os.environ["OMP_NUM_THREADS"]))
    backend.start()
    backend.initialise()
    workload: Any = Model.read(workload_name).workload(Options(batch, "float32", 1.0, None))
    train, validation = workload.splits(arrays_for(workload_name))
    loop = backend.training_loop(workload, workload.model(), train, validation)
    other_model = workload.model()
    if fit:
        prepare = keras_fit(name, workload, other_model, train.arrays)
    else:
        bare = BARE_LOOPS[name](workload, other_model, train.arrays)
        prepare = partial(partial, bare)
    order = workload.order(train.examples, 1)

    def harness() -> tuple[float, float, int]:
        processor = []

        def prepared(steps: int) -> Callable[[], None]:
            batches = order.take(steps)

            def run() -> None:
                began = time.process_time()
                loop.run(batches)
                processor.append(time.process_time() - began)

            return run

        state = find_steady_state(prepared, Budget(seconds, 4))
        windows = [*state.warm_up, *state.windows]
        steps = sum(count for count, _ in windows)
        return sum(took for _, took in windows) / steps, sum(processor) / steps, steps

    def plain(steps: int) -> tuple[float, float]:
        steps = -(-steps // EXECUTION) * EXECUTION if fit else steps
        run = prepare(order.take(steps))
        began, used = time.perf_counter(), time.process_time()
        run()
        return (time.perf_counter() - began) / steps, (time.process_time() - used) / steps

    for _ in range(2):  # the first long calls of a process also pay for growing memory
        steps = harness()[2]
        plain(steps)
    of_pairs = []
    for pair in range(pairs):
        second = plain(steps) if pair % 2 else None
        reported, used, steps = harness()
        wall, processor = second or plain(steps)
        of_pairs.append((reported / wall, used / processor))
    return of_pairs


def in_process(name: str) -> list[tuple[float, float]]:
    """The ratios of one process, in a run's environment."""
    from backends.scenario import request_for

    from whichdevice.base.cpu import thread_environment, usable_cores
    from whichdevice.measure.backends import backend_class

    threads = usable_cores()
    run = backend_class(name).environment(request_for(backend=name), threads)
    command = [sys.executable, __file__, *sys.argv[1:], "--process", name]
    environment = {**os.environ, **thread_environment(threads), **run}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def interval(values: list[float]) -> str:
    """Geometric mean with its 95 % t-interval."""
    from scipy import stats

    logs = np.log(values)
    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else np.nan
    middle, low, high = np.exp([logs.mean(), logs.mean() - half, logs.mean() + half])
    return f"{middle:.3f} [{low:.3f}, {high:.3f}], median {np.median(values):.3f}"


def main() -> None:
    """Print both ratios of each backend, of each process and of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", default="mnist_cnn")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2, help="of each backend")
    parser.add_argument("--pairs", type=int, default=20, help="of each process")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--backends", nargs="+", default=["tensorflow", "jax", "torch"])
    parser.add_argument("--fit", action="store_true", help="against Keras' own `fit`")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.process:
        settings = asked.workload, asked.batch, asked.pairs, asked.seconds, asked.fit
        print("\n" + json.dumps(ratios(asked.process, *settings)))
        return
    for name in asked.backends:
        of_all = [pair for _ in range(asked.processes) for pair in in_process(name)]
        wall, processor = (interval(list(values)) for values in zip(*of_all, strict=True))
        other = "fit" if asked.fit else "bare loop"
        print(f"{name}: reported / {other} {wall}; processor time {processor}; {len(of_all)} pairs", flush=True)


if __name__ == "__main__":
    main()
