"""A training loop of PyTorch over small random data; imported where Keras runs on that backend."""

from types import SimpleNamespace

import keras
from backends.scenario import arrays_for, request_for, without_dropout

from whichdevice.measure.backends import backend_class
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

BATCH, STEPS = 16, 3
LENGTHS = {"shakespeare_lstm": 12, "weather_gru": 60}
WORKLOADS = ["mnist_cnn", "fashion_cnn"]  # dropout, batch normalisation
LONG = ["mnist_official", "shakespeare_lstm", "weather_gru"]


def training(name: str, dropout: bool = True, **changes) -> SimpleNamespace:
    """A loop over small random data, and what it is made of."""
    request = request_for(name, backend="torch", batch_size=BATCH, **changes)
    workload = Model.read(name).workload(Options(BATCH, sequence_length=LENGTHS.get(name)))
    keras.utils.set_random_seed(1)
    model = workload.model() if dropout else without_dropout(workload.model())
    train, validation = workload.splits(arrays_for(name))
    loop = backend_class("torch")(request, 2).training_loop(workload, model, train, validation)
    batches = workload.order(train.examples, 1).take(STEPS)
    return SimpleNamespace(loop=loop, model=model, workload=workload, batches=batches)


def losses(this: SimpleNamespace) -> list[float]:
    """Of each step from the initial state; PyTorch's random generator belongs to all loops of a process."""
    this.loop.reset()
    return [this.loop.run(this.batches[step : step + 1]).loss for step in range(STEPS)]
