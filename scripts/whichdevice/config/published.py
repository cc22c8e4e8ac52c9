"""The publications' own recipes as a study, beside the quick default."""

from whichdevice.config.model import Measure, SelfCheck, Study, Train, Workload

HEADER = """\
The published study: each publication's recipe, exactly as it was published.
It takes hours on a GPU or TPU and days on a CPU; a run that cannot fit this host's memory is refused and recorded.
See first what it will take:  python -m whichdevice plan --configfile config/published.yaml
Then run it:                  snakemake --cores 1 all --configfile config/published.yaml"""

NOTES = {
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
    "workloads.weather_gru_tpu": "neomatrix369, 2018: no validation data, so none of its callbacks ever acts",
    "workloads.weather_gru_tutorial": "Hvass-Labs tutorial 23: with validation data, callbacks act",
    "workloads.mnist_cnn_predict": "no publication's: latency and throughput of predictions",
}


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
