"""What a JAX run does, seen in a process of its own: `python jax_behaviour.py REPLICAS RESULT.json`."""

import json
import sys
from pathlib import Path

import numpy as np
from backends.scenario import arrays_for, request_for, small, variables_for, without_dropout, written

BATCH, STEPS = 16, 6


def behaviour(replicas: int, folder: Path) -> dict:
    """Everything that `main` finds, with so many virtual devices."""
    variables = variables_for(request(replicas=replicas))
    found, errors = written(__file__, folder, variables, str(replicas))
    return {**found, "stderr": errors}


def request(**changes):
    return request_for(backend="jax", batch_size=BATCH, **changes)


def main() -> None:
    import jax

    from whichdevice.measure.backends.jax import Jax

    replicas = int(sys.argv[1])
    backend = Jax(request(replicas=replicas), threads=2)
    backend.start()
    backend.initialise()
    compiled = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, _, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
    )
    found = {"many": many_steps(backend, compiled), "operation": operation(backend)}
    found |= {"evaluation": evaluation(backend), "device": backend.device(), "flags": dict(backend.flags())}
    if replicas == 1:
        found |= {"state": state(backend), "memory": memory(backend, jax)}
        found |= {"crowded": crowded(backend)}
    Path(sys.argv[2]).write_text(json.dumps(found))


def training(backend, dropout=False):
    """Workload, model and loop."""
    from whichdevice.models.workloads.base import Options

    backend._keras.utils.set_random_seed(1)
    workload = small("mnist_cnn", Options(BATCH))
    model = workload.model() if dropout else without_dropout(workload.model())
    train, validation = workload.splits(arrays_for("mnist_cnn"))
    return workload, model, backend.training_loop(workload, model, train, validation)


def many_steps(backend, compiled) -> dict:
    """The same 40 steps one by one and in uneven calls; what compiled after the first of them."""
    batches = np.random.default_rng(0).integers(0, 640, (40, BATCH), np.int32)
    _, _, apart = training(backend)
    single = [apart.run(batch[None]) for batch in batches]
    _, _, uneven = training(backend)
    first = uneven.run(batches[:1])
    before = len(compiled)
    rest = [uneven.run(batches[start:end]) for start, end in ((1, 3), (3, 38), (38, 40))]
    return {
        "single": [means[:2] for means in single],
        "uneven": [means[:2] for means in (first, *rest)],
        "compiled_after_the_first_step": len(compiled) - before,
        "reductions": uneven.step.executed.count(" all-reduce("),
        "gathered": uneven.step.executed.count(" all-gather("),
    }


def state(backend) -> dict:
    """With dropout: what reset, publish and adopt do to losses and weights."""
    batches = np.random.default_rng(0).integers(0, 640, (STEPS, BATCH), np.int32)
    _, model, loop = training(backend, dropout=True)
    before = model.get_weights()
    first = loop.run(batches).loss
    untouched = all(np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    loop.publish()
    published = model.get_weights()
    second = loop.run(batches).loss  # another dropout, other weights
    still = all(np.array_equal(a, b) for a, b in zip(published, model.get_weights(), strict=True))
    loop.adopt()  # back to what was published, random state included
    again = loop.run(batches).loss
    loop.reset()
    reset = loop.run(batches).loss
    model.optimizer.learning_rate = 0.0
    loop.publish()
    kept = float(model.optimizer.learning_rate)  # the loop's own value
    model.optimizer.learning_rate = 0.0
    loop.adopt()
    held = model.get_weights()
    loop.run(batches)
    loop.publish()
    frozen = all(np.array_equal(a, b) for a, b in zip(held, model.get_weights(), strict=True))
    return {
        "losses": [first, second, again, reset], "untouched": untouched, "still": still, "kept": kept, "frozen": frozen
    }  # fmt: skip


def evaluation(backend) -> dict:
    """23 examples whole, and as 10 + 10 + 3."""
    from whichdevice.models.workloads.base import Split

    _, model, loop = training(backend)
    whole = loop.evaluate()[:2]
    held = loop._validation
    loop._validation = Split(held.arrays, held.examples, batch_size=10)
    parts = loop.evaluate()[:2]
    predicted = loop.predict(np.arange(23, dtype=np.int32))
    images = held.arrays["images"][..., None] / np.float32(255)
    expected = model.predict(images, verbose=0)
    return {
        "whole": whole, "parts": parts, "dtype": str(predicted.dtype),
        "difference": float(np.abs(predicted - expected).max()),
        "accuracy": float((expected.argmax(1) == held.arrays["labels"]).mean()),
    }  # fmt: skip


def operation(backend) -> dict:
    """A chain of products on every replica."""
    from whichdevice.models.loading import Model
    from whichdevice.models.workloads.base import Options

    workload = Model.read("matmul").workload(Options(32))
    loop = backend.operation_loop(workload, np.random.default_rng(1))
    state, operands = workload.operands(np.random.default_rng(1))
    loop.run(1)
    loop.run(40)
    loop.run(35)
    states = loop.states_after(35)  # from the initial state again
    results = np.asarray(states).reshape(-1, 32, 32)
    expected = state @ np.linalg.matrix_power(operands["b"].astype(np.float64), 35)
    return {
        "shape": results.shape,
        "difference": float(np.abs(results - expected).max()),
        "places": len(states.sharding.device_set),
    }


def memory(backend, jax) -> dict:
    """An array that no machine holds."""
    try:
        jax.block_until_ready(jax.numpy.zeros((1 << 21, 1 << 21)))
    except Exception as error:
        return {
            "recognised": backend.is_out_of_memory(error),
            "said": str(error),
            "other": backend.is_out_of_memory(RuntimeError("INVALID_ARGUMENT: shapes")),
        }
    return {}


def crowded(backend) -> dict:
    """A step on a host that has next to no memory left."""
    from whichdevice.measure.backends import keras_on_jax

    _, _, loop = training(backend)
    keras_on_jax.available_memory = lambda: 1000
    try:
        loop.run(np.zeros((1, BATCH), np.int32))
    except Exception as error:
        return {"recognised": backend.is_out_of_memory(error), "said": str(error)}
    return {}


if __name__ == "__main__":
    main()
