"""The studies that ship beside the quick default: a full one, and the publications' own recipes."""

from whichdevice.config.model import Measure, SelfCheck, Study, Train, Workload

FULL_HEADER = """\
The full study: what the quick one leaves out for time, about a quarter of an hour on two cores.
More batch sizes, bfloat16, shares of the data, two backends and both loops; two whole epochs of learning.
Run it: snakemake --cores 1 all --configfile config/full.yaml"""

FULL_NOTES = {
    "workloads.memory_stream": "bandwidth; an array far larger than the last cache",
    "workloads.mnist_official": "also training time against data-set size",
    "workloads.mnist_cnn_loops": "two backends, and each one's quickest loop against plain model.fit",
    "workloads.fashion_cnn": "a tenth of the data",
    "workloads.shakespeare_lstm": "published: batch 1024, sequences of 100, 100 steps an epoch",
    "workloads.weather_gru": "published: batch 256, sequences of 1344 hours, 100 steps an epoch",
}

PUBLISHED_HEADER = """\
The published study: each publication's recipe, exactly as it was published.
It takes hours on a GPU or TPU and days on a CPU; a run that cannot fit this host's memory is refused and recorded.
See first what it will take:  python -m whichdevice plan --configfile config/published.yaml
Then run it:                  snakemake --cores 1 all --configfile config/published.yaml"""

PUBLISHED_NOTES = {
    "data.source": "auto, so that the study needs no network; results then say `standin`. "
    "Only tfds or files give accuracies to compare with the published ones.",
    "train.epochs": "empty: each workload's own",
    "workloads.matmul": "neomatrix369, 2018; batch_size is N, and a product counts 2·N³ operations",
    "workloads.memory_stream": "no publication's: the bandwidth that rooflines need; batch_size is MiB an array",
    "workloads.mnist_official": "RSE blog, 2020: 58 steps an epoch",
    "workloads.mnist_cnn": 'Kizrak, 2019, and the notebook "Why TPUs?", 2018',
    "workloads.mnist_cnn_loops": "no publication's: each backend's quickest loop against plain model.fit",
    "workloads.fashion_cnn_2018": "tensorflow/tpu notebook, 2018",
    "workloads.fashion_cnn_lee": "Lee, 2018: the origin of the published 102, 196 and 11164 s",
    "workloads.shakespeare_lstm": "tensorflow/tpu notebook, 2018, without validation; here 90 % of the text trains",
    "workloads.weather_gru_tpu": "neomatrix369, 2018: no validation data, so its callbacks never act",
    "workloads.weather_gru_tutorial": "Hvass-Labs tutorial 23: with validation data, callbacks act",
    "workloads.mnist_cnn_predict": "no publication's: latency and throughput of predictions",
}


def full() -> Study:
    """Return the default of the first version: all workloads in more cells, and learning by whole epochs."""
    return Study(
        study="full",
        train=Train(seconds=None),
        workloads={
            "matmul": Workload(batch_size=[512, 2048], precision=["float32", "bfloat16"]),
            "memory_stream": Workload(batch_size=[512]),
            "mnist_official": Workload(batch_size=[1024], fraction=[0.1, 0.25, 0.5]),
            "mnist_cnn": Workload(batch_size=[256, 512, 1024], export=True),
            "mnist_cnn_loops": Workload(
                module="mnist_cnn",
                batch_size=[256],
                backend=["tensorflow", "jax"],
                loop=["epoch", "fit"],
                fraction=[0.1],
                epochs=0,
            ),
            "fashion_cnn": Workload(batch_size=[512], fraction=[0.1]),
            "shakespeare_lstm": Workload(batch_size=[32], sequence_length=[50], steps_per_epoch=20, validation=False),
            "weather_gru": Workload(batch_size=[8], sequence_length=[168], steps_per_epoch=20),
        },
    )


def published() -> Study:
    """Every published recipe as one study."""
    return Study(
        study="published",
        measure=Measure(seconds=10, repeats=10, timeout=172800),
        train=Train(epochs=None, seconds=None, repeats=3),
        self_check=SelfCheck(workload="mnist_official", batch_size=1024),
        workloads={
            "matmul": Workload(batch_size=[1024, 2048, 4096, 8192, 16384], precision=["float32", "bfloat16"]),
            "memory_stream": Workload(batch_size=[512, 2048], precision=["float32", "bfloat16"]),
            "mnist_official": Workload(batch_size=[1024], epochs=10),
            "mnist_cnn": Workload(batch_size=[256, 512, 1024], epochs=10, export=True),
            "mnist_cnn_loops": Workload(
                module="mnist_cnn",
                batch_size=[1024],
                backend=["tensorflow", "jax"],
                precision=["float32", "mixed_bfloat16"],
                loop=["epoch", "fit"],
                epochs=0,
            ),
            "fashion_cnn_2018": Workload(module="fashion_cnn", batch_size=[1024], epochs=10, steps_per_epoch=100),
            "fashion_cnn_lee": Workload(module="fashion_cnn", batch_size=[512], epochs=20),
            "shakespeare_lstm": Workload(
                batch_size=[1024], sequence_length=[100], epochs=10, steps_per_epoch=100, validation=False
            ),
            "weather_gru_tpu": Workload(
                module="weather_gru",
                batch_size=[256],
                sequence_length=[1344],
                epochs=10,
                steps_per_epoch=10,
                validation=False,
            ),
            "weather_gru_tutorial": Workload(
                module="weather_gru", batch_size=[256], sequence_length=[1344], epochs=20, steps_per_epoch=100
            ),
            "mnist_cnn_predict": Workload(module="mnist_cnn", mode="predict", batch_size=[1, 8, 64, 1024]),
        },
    )
