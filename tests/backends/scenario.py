"""One backend in a process of its own: `python scenario.py JOB.json RESULT.json`; a process has one Keras backend.

The job names workload, backend, replicas, precision and a planted fault. `play_each` gives the loss of every
step, with weights, data and batch order from NumPy, so that every backend is given the same. `accuracies` learns
several seeds, each with the backend's own weights and dropout.
"""

import json
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
from forked import run_forked

from whichdevice.measure.backends import backend_class
from whichdevice.measure.record import Request

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "tests")])
FIRST_RATE = 0.003
# What a run does not import beside its framework.
OTHERS = {"tensorflow": ("jax", "scipy"), "jax": ("tensorflow", "torch"), "torch": ("jax", "tensorflow")}


def request_for(workload: str = "mnist_cnn", **changes) -> Request:
    """What is asked of a short run on a CPU, with changes."""
    plain = dict(
        device="cpu", kind="cpu", replicas=1, workload=workload, module=workload, backend="tensorflow",
        precision="float32", batch_size=16, fraction=1.0, sequence_length=None, repeat=1, seed=1,
        epochs=1, steps_per_epoch=None, validation=True, learn=True, seconds=1.0, min_steps=1, timeout=60.0,
        dataset=None, source=None,
    )  # fmt: skip
    return Request(**{**plain, **changes})


def variables_for(request: Request) -> dict[str, str]:
    """The environment of a run's backend."""
    return backend_class(request.backend).environment(request, 2)


OWN_MODEL = """
import keras
from keras import layers, regularizers

INPUT, TARGET = {"shape": (12,)}, {"shape": (2,)}
LOSS, METRIC = "mse", "mae"


def optimizer():
    return keras.optimizers.SGD(0.05)


def model(options):
    return keras.Sequential([
        keras.Input((12,)),
        layers.Dense(8, "relu", kernel_regularizer=regularizers.L2(%(weights)s)),
        layers.ActivityRegularization(l2=%(activities)s) if %(activities)s else layers.Identity(),
        layers.Dense(2, dtype="float32"),
    ])
"""


def play_each(folder: Path, runs: dict[str, dict], steps: int, **request) -> dict[str, dict]:
    """{"losses": [...], "evaluated": [loss, metric], "modules": [...], ...} of each run, all in one process.

    Most of a process is its imports. Runs may differ in workload, precision and `fault`, not in replicas; one that is
    `by_keras` is trained by `train_on_batch`, one that `is_small` is `small`.
    """
    return _in_process(folder, {"steps": steps, "fault": None, "runs": runs}, request)


def model_file(folder: Path, weights: float = 0.1, activities: float = 0.01) -> str:
    """A model with regularisers of its weights and of a layer's output, of these sizes; the path of its file."""
    path = folder / f"own_{weights}_{activities}.py"
    path.write_text(OWN_MODEL % {"weights": weights, "activities": activities})
    return str(path)


def accuracies(
    folder: Path, dataset: Path, initial: Path, seeds: int, epochs: int, fault: str | None = None, **request
) -> list[float]:
    """Final validation accuracy of each seed on a prepared dataset, in per cent.

    A seed gives batch order, dropout and initial weights; whoever comes first leaves its weights in `initial`.
    """
    job = {"dataset": str(dataset), "initial": str(initial), "seeds": seeds, "epochs": epochs, "fault": fault}
    return _in_process(folder, job, request)["accuracies"]


def _in_process(folder: Path, work: dict, request: dict) -> dict:
    asked = request_for(**request)
    job = folder / "job.json"
    job.write_text(json.dumps({"request": asked.model_dump(), **work}))
    return written(__file__, folder, variables_for(asked), str(job))[0]


def written(script: str, folder: Path, variables: dict[str, str], *arguments: str) -> tuple[dict, str]:
    """Run a script in a process of its own: what it writes to the file of its last argument, and its errors."""
    result = folder / "result.json"
    done = run_with_keras(["", script, *arguments, str(result)], variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(result.read_text()), done.stderr


def run_with_keras(program: list[str], variables: dict[str, str], seconds: float = 900) -> CompletedProcess[str]:
    """Run a program where Keras is imported as a run's backend imports it."""
    name = variables["KERAS_BACKEND"]
    imports = "from whichdevice.base.processes import quick_imports\n"
    imports += f"with quick_imports(*{OTHERS[name]}):\n    import keras, {name}"
    variables = {**variables, "PYTHONPATH": PATH}
    return run_forked(program, os.environ | variables, imports, variables, seconds)


def run_cases(variables: dict[str, str], which: str, *files: str) -> None:
    """Run the cases that the marks `which` choose, in files named from tests/; fails with what pytest prints."""
    paths = [str(ROOT / "tests" / file) for file in files]
    done = run_with_keras(["-m", "pytest", "-q", "-m", which, "-p", "no:cacheprovider", *paths], variables)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    from whichdevice.models.loading import Model

    first = Request(**job["request"])
    started: dict[str, Any] = {}

    def backend_for(request: Request) -> Any:
        """The backend of the run before where it serves."""
        kind = request.precision
        if kind not in started:
            started.clear()
            started[kind] = backend_class(request.backend)(request, threads=2)
            started[kind].start()
            started[kind].initialise()
        started[kind].request = request
        return started[kind]

    def result(request: Request, fault: str | None, by_keras: bool = False, is_small: bool = False) -> dict:
        backend = backend_for(request)
        workload = Model.read(request.module).asked(request)
        if is_small:
            workload = small(request.module, workload.options)
        if fault:
            from backends.planted_faults import plant

            plant(fault, workload)
        if "seeds" in job:
            return learned(backend, workload, job)
        dropout = request.module == "mnist_cnn" and fault in (None, "no_dropout")
        return stepped(backend, workload, request, job["steps"], dropout, by_keras)

    results = {}
    for name, asked in job.get("runs", {}).items():
        changes = {**asked, "module": asked["workload"]}
        how = {key: changes.pop(key) for key in ("by_keras", "is_small") if key in changes}
        fault = changes.pop("fault", None)
        results[name] = result(first.model_copy(update=changes), fault, **how)
    Path(sys.argv[2]).write_text(json.dumps(results or result(first, job["fault"])))


def learned(backend, workload, job: dict) -> dict:
    """Final accuracies over seeds, with one compiled loop for all of them."""
    import keras

    from whichdevice.models.datasets.store import load_dataset

    train, validation = workload.splits(load_dataset(Path(job["dataset"])).arrays)
    steps = workload.steps_per_epoch(train.examples)
    falling = keras.optimizers.schedules.PolynomialDecay(FIRST_RATE, steps * job["epochs"], 1e-5)
    workload.optimizer = lambda: keras.optimizers.Adam(falling)  # halves the spread between seeds
    with backend.scope():
        model = workload.model()
    loop = backend.training_loop(workload, model, train, validation)
    found = []
    for seed in range(1, job["seeds"] + 1):
        loop.reset()
        loop.publish()
        keras.utils.set_random_seed(seed)
        fresh = workload.model()
        give_initial(fresh, Path(job["initial"]) / f"{seed}.npz")
        for own, other in zip(model.variables, fresh.variables, strict=True):  # states of dropout's generators, too
            own.assign(other.value)
        loop.adopt()
        order = workload.order(train.examples, seed)
        for _ in range(job["epochs"]):
            loop.run(order.take(steps))
        loop.publish()
        found.append(100 * loop.evaluate().metric)
    return {"accuracies": found}


def give_initial(model, file: Path) -> None:
    """The first backend's own weights; every later one gets the same, if its own are drawn as widely."""
    if file.exists():
        with np.load(file) as saved:
            given = [saved[name] for name in saved.files]
        for own, other in zip(model.get_weights(), given, strict=True):
            apart = abs(own.std() - other.std())
            assert apart <= 5 * other.std() / np.sqrt(own.size), f"spread of initial weights {own.shape}: {apart}"
        model.set_weights(given)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, *model.get_weights())


def stepped(backend, workload, request, steps: int, dropout: bool, by_keras: bool) -> dict:
    """Losses of single steps without dropout; if asked, the first one with it, too."""
    with backend.scope():
        model = without_dropout(workload.model())
    give_weights(model)
    train, validation = workload.splits(arrays_for(request.module))
    order = workload.order(train.examples, request.seed)
    loop = (ByKeras if by_keras else backend.training_loop)(workload, model, train, validation)
    losses = [loop.run(order.take(1)).loss for _ in range(steps)]
    loop.publish()
    return {
        "losses": losses,
        "evaluated": list(loop.evaluate()[:2]),
        "weights": [float(np.abs(weight).sum()) for weight in model.get_weights()],
        "modules": sorted(name for name in sys.modules if "." not in name),
        "types": backend.types().model_dump(),
        "flags": dict(backend.flags()),
        "dropped": first_loss_with_dropout(backend, workload, request) if dropout else None,
    }


class ByKeras:
    """The loop that Keras itself runs: `train_on_batch` of the compiled model."""

    def __init__(self, workload, model, train, validation) -> None:
        import keras

        self.workload, self.model, self.train, self.validation = workload, model, train, validation
        metrics = [workload.quality] if workload.metric else []
        jitted = keras.backend.backend() == "jax"  # whose operations compile one by one else
        model.compile(workload.optimizer(), workload.loss, metrics=metrics, jit_compile=jitted)

    def run(self, batches):
        from whichdevice.measure.backends.base import Means

        self.model.reset_metrics()  # else means so far
        logs = self.model.train_on_batch(*self._batch(self.train, batches[0]), return_dict=True)
        return Means(float(logs["loss"]), None)

    def evaluate(self):
        index = np.arange(self.validation.examples, dtype=np.int32)
        return self.model.evaluate(*self._batch(self.validation, index), batch_size=len(index), verbose=0)

    def publish(self) -> None:
        """It trains the model itself."""

    def _batch(self, split, index):
        from keras import ops

        arrays = {name: ops.convert_to_tensor(np.asarray(array)) for name, array in split.arrays.items()}
        return [ops.convert_to_numpy(part) for part in self.workload.batch(arrays, ops.convert_to_tensor(index))]


def first_loss_with_dropout(backend, workload, request) -> float:
    """The first step's loss of the whole model, from the same weights on the same batch."""
    with backend.scope():
        model = workload.model()
    give_weights(model)
    train, validation = workload.splits(arrays_for(request.module))
    loop = backend.training_loop(workload, model, train, validation)
    return loop.run(workload.order(train.examples, request.seed).take(1)).loss


def small(name: str, options):
    """A built-in workload with a network of its kinds of layers that compiles and trains in a tenth of the time."""
    import keras
    from keras import layers

    from whichdevice.models.image_classifier import softmax_classes
    from whichdevice.models.loading import Model

    class Small(Model.read(name).kind):
        def model(self):
            if name == "weather_gru":
                last = layers.Dense(3, activation="sigmoid", dtype="float32")
                return keras.Sequential([keras.Input((None, 20)), layers.GRU(16, return_sequences=True), last])
            first = [layers.BatchNormalization(), layers.MaxPooling2D(2)] * (name == "fashion_cnn")
            inner = [layers.Conv2D(4, 3, 2, activation="relu"), layers.Dropout(0.8), layers.Flatten()]
            return keras.Sequential([keras.Input((28, 28, 1)), *first, *inner, softmax_classes()])

    return Small(options)


def without_dropout(model):
    """The same layers without the random ones."""
    import keras

    kept = [layer for layer in model.layers if not isinstance(layer, keras.layers.Dropout)]
    return keras.Sequential([keras.Input(model.inputs[0].shape[1:], dtype=model.inputs[0].dtype), *kept])


def give_weights(model) -> None:
    """Kernels from NumPy, of Glorot's spread; vectors keep what Keras gave them (zeros and ones).

    Large matrices are smaller: from Glorot's spread RMSprop at .01 blows rounding errors of 1e-7 in a recurrent net up
    to 1e-4 within ten steps.
    """
    random = np.random.default_rng(7)
    values = []
    for weight in model.weights:
        if len(weight.shape) < 2:
            values.append(np.asarray(weight.numpy() if hasattr(weight, "numpy") else weight))
        else:
            large = len(weight.shape) == 2 and weight.shape[1] >= 512
            spread = np.sqrt((0.2 if large else 2) / (np.prod(weight.shape[:-1]) + weight.shape[-1]))
            values.append(random.standard_normal(weight.shape).astype(np.float32) * spread)
    model.set_weights(values)


def arrays_for(module: str) -> dict[str, np.ndarray]:
    """Small random data of the right form."""
    random = np.random.default_rng(0)
    if module == "shakespeare_lstm":
        return {
            "train_text": random.integers(32, 120, 4000, np.uint8),
            "test_text": random.integers(32, 120, 400, np.uint8),
        }
    if module == "weather_gru":
        times = np.datetime64("2000-01-01T00", "s") + np.arange(1500) * np.timedelta64(3600, "s")
        return {"times": times.astype(np.int64), "signals": random.standard_normal((1500, 20)).astype(np.float32)}
    patterns = random.integers(0, 200, (10, 28, 28))  # a class has a pattern: from noise alone gradients are rounding
    train, test = random.integers(0, 10, 640), random.integers(0, 10, 23)
    images = [
        (patterns[labels] + random.integers(0, 56, (len(labels), 28, 28))).astype(np.uint8) for labels in (train, test)
    ]
    return {
        "train_images": images[0],
        "train_labels": train.astype(np.uint8),
        "test_images": images[1],
        "test_labels": test.astype(np.uint8),
    }


if __name__ == "__main__":
    main()
