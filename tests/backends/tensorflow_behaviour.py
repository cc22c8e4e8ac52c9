"""TensorFlow's backend in a process of its own: `python tensorflow_behaviour.py WHAT... RESULT.json`.

One function below answers each question of test_tensorflow_replicas.py; those of one process have as many virtual
devices.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
from backends import scenario
from backends.scenario import arrays_for, give_weights, request_for, small, without_dropout

BATCH, REPLICAS = 16, 4


def behaviours(folder: Path, *what: str) -> dict[str, dict]:
    """What each of the functions below says, asked in one process."""
    return scenario.written(__file__, folder, scenario.variables_for(request_for()), *what)[0]


def started(workload: str, **asked):
    """The backend with its devices taken, as a run has it."""
    from whichdevice.measure.backends import backend_class

    request = request_for(workload, **{"replicas": REPLICAS, **asked})
    backend = backend_class("tensorflow")(request, threads=2)
    os.environ.update(backend.environment(request, 2))
    backend.start()
    backend.initialise()
    return backend


def built(backend, workload: str, arrays=None, prepare=without_dropout):
    """Workload, model with NumPy's weights, splits."""
    from whichdevice.models.loading import Model
    from whichdevice.models.workloads.base import Options

    options = Options(backend.request.batch_size, backend.request.precision, sequence_length=12)
    made = small(workload, options) if workload == "mnist_cnn" else Model.read(workload).workload(options)
    with backend.scope():
        model = prepare(made.model())
    give_weights(model)
    return made, model, *made.splits(arrays_for(workload) if arrays is None else arrays)


def evaluation() -> dict:
    """23 examples, which the replicas cannot share evenly, against the model's own prediction."""
    backend = started("mnist_cnn")
    workload, model, train, validation = built(backend, "mnist_cnn")
    loop = backend.training_loop(workload, model, train, validation)
    index = np.arange(23, dtype=np.int32)
    plain = model(validation.arrays["images"][..., None] / 255, training=False).numpy()
    chosen = plain[index, validation.arrays["labels"]]
    predicted = loop.predict(index)
    return {
        "evaluated": list(loop.evaluate()[:2]),
        "expected": [float(-np.log(chosen).mean()), float((plain.argmax(1) == validation.arrays["labels"]).mean())],
        "shape": list(predicted.shape),
        "difference": float(np.abs(predicted - plain).max()),
        "flags": dict(backend.flags()),
        "device": backend.device(),
    }


def reset() -> dict:
    """The same two batches, before and after a reset, with dropout; and a callback that changes the rate."""
    from keras import callbacks, ops

    backend = started("mnist_cnn")
    workload, model, train, validation = built(backend, "mnist_cnn", prepare=lambda model: model)
    loop = backend.training_loop(workload, model, train, validation)
    batches = workload.order(train.examples, 1).take(2)
    first = loop.run(batches)
    loop.reset()
    again = loop.run(batches)
    plateau = callbacks.ReduceLROnPlateau(patience=0, factor=0.1, min_lr=0, cooldown=0)
    plateau.set_model(model)
    plateau.on_train_begin()
    for epoch in range(3):
        plateau.on_epoch_end(epoch, {"val_loss": 1.0})
    rates = [float(ops.convert_to_numpy(model.optimizer.learning_rate))]
    return {"first": list(first), "again": list(again), "rates": rates}


def overflow() -> dict:
    """float16 where only the later replicas' gradients overflow: the first one's share of the batch is black."""
    from keras import ops

    backend = started("mnist_cnn", precision="mixed_float16")
    arrays = arrays_for("mnist_cnn")
    arrays["train_images"][: BATCH // REPLICAS] = 0
    workload, model, train, validation = built(backend, "mnist_cnn", arrays)
    loop = backend.training_loop(workload, model, train, validation)
    batch = np.arange(BATCH, dtype=np.int32)[None]
    kept = []
    for power in (16, 20, 24, 27):
        loop.reset()
        model.optimizer.dynamic_scale.assign(2.0**power)
        loop.run(batch)
        finite = all(bool(np.isfinite(value).all()) for value in model.get_weights())
        scale = float(ops.convert_to_numpy(model.optimizer.dynamic_scale))
        kept.append([finite, scale / 2.0**power, int(ops.convert_to_numpy(model.optimizer.iterations))])
    return {"kept": kept}


def float16() -> dict:
    """Loss scaling on one replica: learn, overflow once, learn on."""
    import keras
    from keras import ops

    few = 4
    backend = started("mnist_cnn", precision="mixed_float16", replicas=1, batch_size=few)
    workload, model, train, validation = built(backend, "mnist_cnn")
    workload.optimizer = lambda: keras.optimizers.Adam(0.01)  # learns in a few steps
    loop = backend.training_loop(workload, model, train, validation)
    batch = np.arange(few, dtype=np.int32)[None]
    scale = model.optimizer.dynamic_scale
    losses, scales = [loop.run(batch).loss for _ in range(8)], [float(ops.convert_to_numpy(scale))]
    before = model.get_weights()
    scale.assign(2.0**30)
    loop.run(batch)
    scales.append(float(ops.convert_to_numpy(scale)))
    kept = all(np.array_equal(was, now) for was, now in zip(before, model.get_weights(), strict=True))
    losses += [loop.run(batch).loss for _ in range(24)]
    return {
        "losses": losses,
        "scales": [*scales, float(ops.convert_to_numpy(scale))],
        "kept": kept,
        "types": backend.types().model_dump(),
        "dtypes": sorted({layer.compute_dtype for layer in model.layers}),
    }


def kernels() -> dict:
    """Operations of the step on several replicas that a GPU would leave to its host, text gathered as on GPUs."""
    from backends.tensorflow_kernels import without_gpu_kernel

    from whichdevice.measure.backends.base import built_optimizer
    from whichdevice.measure.backends.keras_on_tensorflow import TensorFlowTraining

    backend = started("shakespeare_lstm")
    workload, model, train, validation = built(backend, "shakespeare_lstm")
    with backend.scope():
        model.optimizer = built_optimizer(backend.request, workload, model)
        given = (backend._tf, backend._strategy, workload, model, train, validation)
        loop = TensorFlowTraining(*given, xla=False, gather_uint8=False)
    return without_gpu_kernel(loop._steps.get_concrete_function().graph)


if __name__ == "__main__":
    Path(sys.argv[-1]).write_text(json.dumps({what: globals()[what]() for what in sys.argv[1:-1]}))
