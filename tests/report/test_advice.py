"""Advice says in words what the tables hold."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pandas as pd
import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Study, Workload
from whichdevice.report.advice import advice, uncompared
from whichdevice.tables.batch_sizes import crossover_table, saturation_table
from whichdevice.tables.summary import summary_table

JITTER = {1: 0.99, 2: 1.0, 3: 1.01}


def results(
    workloads: dict[str, Workload], throughput: Callable[[Run], float], *devices: str, noise: float = 1.0
) -> Any:
    """The tables of a study, as the report sees them; repeats differ by `noise` percent on all but the first device."""
    names = devices or ("cpu", "gpu")
    study = Study(
        study="advice",
        devices={name: Device(kind=name) for name in names},  # type: ignore[arg-type]
        workloads=workloads,
        measure=Measure(repeats=3),
    )
    jitter = {
        name: {repeat: by**noise for repeat, by in JITTER.items()} if name != names[0] else dict.fromkeys(JITTER, 1.0)
        for name in names
    }
    runs = synthetic.runs_table(study, lambda run: throughput(run) * jitter[run.cell.device][run.repeat])
    return SimpleNamespace(
        runs=runs, measured=summary_table(runs), crossover=crossover_table(runs, study),
        saturation=saturation_table(runs), kind=lambda name: name,
    )  # fmt: skip


def faster(ratios: dict[int, float]) -> Callable[[Run], float]:
    """100 examples a second on the cpu, `ratios` times as many on others, by batch size."""
    return lambda run: 100 * (1 if run.cell.device == "cpu" else ratios[run.cell.batch_size])


def sentence(ratios: dict[int, float], noise: float = 1.0, **workload: Any) -> str:
    """What is said of the two devices; repeats differ by `noise` percent."""
    settings = Workload(batch_size=list(ratios), **workload)
    (found,) = advice(results({"mnist_cnn": settings}, faster(ratios), noise=noise))
    return str(found["devices"][0])


def test_a_crossover_in_words() -> None:
    text = sentence({64: 0.25, 256: 0.5, 1024: 2.0})
    assert re.match(r"gpu is faster from about batch 512 \[\d+ – \d+\]; below, cpu \(tensorflow, float32; ", text)
    assert "measured b64…b1024, 3 sizes, the change between b256 and b1024; n = 3; one machine, one session)." in text


def test_a_falling_ratio_names_the_cpu_above() -> None:
    assert sentence({64: 2.0, 256: 0.5}).startswith("cpu is faster from about batch 128")


def test_every_other_verdict_in_words() -> None:
    assert sentence({64: 2.0, 256: 3.0}).startswith("gpu is faster than cpu at every measured batch: gpu / cpu = 2 [")
    assert sentence({64: 0.5, 256: 0.6}).startswith("cpu is faster than gpu at every measured batch: gpu / cpu = 0.5 [")
    assert sentence({64: 1.0, 256: 1.0}).startswith("gpu or cpu: same within 5 %: gpu / cpu = 1 [")
    middle = sentence({64: 3.0, 256: 1.0, 512: 3.0})
    assert middle.startswith("gpu is faster than cpu at batch 64, 512; same within 5 % at 256 (")
    unsure = sentence({64: 0.99, 256: 3.0}, noise=4)
    assert re.match(r"gpu is faster than cpu at batch 256; undecided \(about n = \d+ would decide\) at 64 \(", unsure)
    assert sentence({64: 3.0}).startswith("gpu is faster, gpu / cpu = 3 [") and "no crossover can be" in sentence(
        {64: 3.0}
    )


def test_several_changes_are_told_as_such() -> None:
    workload = {"mnist_cnn": Workload(batch_size=[16, 64, 256])}
    (found,) = advice(results(workload, faster({16: 0.5, 64: 2.0, 256: 0.5})))
    assert len(found["devices"]) == 2
    assert all("one of several changes" in text for text in found["devices"])


def test_own_best_settings_take_the_place_of_like_ones() -> None:
    text = sentence({64: 2.0, 256: 3.0}, backend=["tensorflow", "jax"])
    assert "each with its fastest backend and loop" in text


def test_one_device_has_nothing_to_compare_and_still_a_best_batch() -> None:
    workloads = {"mnist_cnn": Workload(batch_size=[64, 256]), "fashion_cnn": Workload(batch_size=[64])}
    study = results(workloads, lambda run: {64: 97.0, 256: 100.0}[run.cell.batch_size], "cpu")
    assert uncompared(study) == [
        "Measured on cpu, one device only, so there is nothing to compare: mnist_cnn, fashion_cnn."
    ]
    (found,) = advice(study)
    assert found["devices"] == []
    assert found["sizes"] == [
        "cpu: fastest at batch 256, 100 images/s, 1.03 times the smallest [1.03 – 1.03]; "
        "within 5 % of it from batch 64 (97 % [97 – 97])."
    ]


def test_a_pair_that_measured_a_smaller_share_alone_is_told_too() -> None:
    workloads = {"mnist_cnn": Workload(batch_size=[64, 256], fraction=[0.1, 1.0])}

    def speed(run: Run) -> float:
        return float("nan") if run.cell.device == "tpu" and run.cell.fraction == 1 else 100.0

    study = results(workloads, speed, "cpu", "gpu", "tpu")
    (found,) = advice(study)
    assert sum("10 % of data" in text for text in found["devices"]) == 2
    assert sum("10 % of data" in text for text in found["sizes"]) == 1


def test_each_sequence_length_has_its_own_best_batch() -> None:
    workloads = {"shakespeare_lstm": Workload(batch_size=[64, 256], sequence_length=[50, 100])}

    def speed(run: Run) -> float:
        return 100.0 if (run.cell.batch_size, run.cell.sequence_length) in ((64, 50), (256, 100)) else 50.0

    study = results(workloads, speed, "cpu")
    (found,) = advice(study)
    first, second = found["sizes"]
    assert first.startswith("cpu, length 50: fastest at batch 64")
    assert second.startswith("cpu, length 100: fastest at batch 256")


def test_models_of_one_name_are_each_told_with_their_weights() -> None:
    """As merged from machines whose model files differ."""
    study = results({"mnist_cnn": Workload(batch_size=[64, 256])}, faster({64: 2.0, 256: 3.0}))
    runs = study.runs.assign(repeat=study.runs["repeat"] + 3, parameters=1000, fraction=0.5)
    runs = pd.concat([study.runs, runs.assign(throughput=runs["throughput"] * 2)], ignore_index=True)
    config = Study(study="advice", devices={name: Device(kind=name) for name in ("cpu", "gpu")})  # type: ignore[arg-type]
    study.runs, study.crossover, study.saturation = runs, crossover_table(runs, config), saturation_table(runs)
    (found,) = advice(study)
    for sentences in (found["devices"], found["sizes"]):
        assert sum("1,000 weights" in text for text in sentences) == len(sentences) / 2
