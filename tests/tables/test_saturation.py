"""What larger batches bring, and from where on they bring little."""

import pandas as pd
import synthetic

from whichdevice.config.model import Device, Measure, Workload
from whichdevice.tables.batch_sizes import saturation_table

JITTER = {1: 0.99, 2: 1.0, 3: 1.01}


def found(speeds: dict[int, float], device: Device | None = None) -> pd.DataFrame:
    """The table of one device with these throughputs by batch size."""
    return saturation_table(runs_of(speeds, device))


def runs_of(speeds: dict[int, float], device: Device | None = None) -> pd.DataFrame:
    """Table `runs` of three repeats."""
    study = synthetic.small_study(
        devices={"gpu": device or Device(kind="gpu")},
        workloads={"mnist_cnn": Workload(batch_size=list(speeds))},
        measure=Measure(repeats=3),
    )
    return synthetic.runs_table(study, lambda run: speeds[run.cell.batch_size] * JITTER[run.repeat])


def test_a_size_with_one_good_run_of_three_is_left_out_and_named() -> None:
    runs = runs_of({32: 100.0, 128: 200.0, 512: 400.0})
    failed = (runs["batch_size"] == 512) & (runs["repeat"] > 1)
    row = saturation_table(runs.assign(status=runs["status"].mask(failed, "out_of_memory"))).iloc[0]
    assert (row["best_size"], row["sizes"], row["left_out"], row["n"]) == (128, "32 128", "512", 3)
    assert not row["still_rising"]


def test_models_of_one_name_have_a_row_each() -> None:
    runs = runs_of({32: 100.0, 64: 200.0})
    other = runs.assign(
        repeat=runs["repeat"] + 3, parameters=1000, throughput=runs["throughput"] / (runs["batch_size"])
    )
    found = saturation_table(pd.concat([runs, other], ignore_index=True))
    assert found["best_size"].tolist() == [64, 32]
    assert found["model"].nunique() == 2


def test_a_size_with_two_good_runs_of_three_is_judged() -> None:
    runs = runs_of({32: 100.0, 128: 200.0, 512: 400.0})
    failed = (runs["batch_size"] == 512) & (runs["repeat"] > 2)
    row = saturation_table(runs.assign(status=runs["status"].mask(failed, "failed"))).iloc[0]
    assert (row["best_size"], row["n_best"], pd.isna(row["left_out"])) == (512, 2, True)


def test_one_size_says_nothing_and_virtual_replicas_say_nothing() -> None:
    assert found({32: 100.0}).empty
    assert found({32: 100.0, 64: 120.0}, Device(kind="cpu", replicas=8)).empty
