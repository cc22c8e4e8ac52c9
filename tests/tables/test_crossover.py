"""Which of two devices is faster at which batch size, in every case that can come up."""

from collections.abc import Callable

import pandas as pd
import pytest
import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Study, Workload
from whichdevice.tables.crossover import COLUMNS, crossover_table

JITTER = {1: 0.99, 2: 1.0, 3: 1.01}


def study_of(sizes: list[int], repeats: int = 3, devices: dict[str, Device] | None = None, **workload: object) -> Study:
    """A cpu and a gpu with one workload at these batch sizes."""
    settings = Workload(module="mnist_cnn", batch_size=sizes, **workload)  # type: ignore[arg-type]
    return synthetic.small_study(
        devices=devices or {"gpu": Device(kind="gpu"), "cpu": Device(kind="cpu")},
        workloads={"own": settings},
        measure=Measure(repeats=repeats),
    )


def found(study: Study, ratio: Callable[[Run], float | None], jitter: dict[int, float] = JITTER) -> pd.DataFrame:
    """The table where every cpu run gives 100 examples a second and every other one `ratio` times as many."""

    def throughput(run: Run) -> float | None:
        factor = 1.0 if run.cell.device == "cpu" else ratio(run)
        return None if factor is None else 100 * factor * (jitter[run.repeat] if run.cell.device != "cpu" else 1)

    return crossover_table(synthetic.runs_table(study, throughput), study)


def by_size(ratios: dict[int, float]) -> Callable[[Run], float]:
    """The ratio at each batch size."""
    return lambda run: ratios[run.cell.batch_size]


def test_a_crossover_lies_between_the_sizes_where_the_faster_device_changes() -> None:
    row = found(study_of([64, 256, 1024]), by_size({64: 0.25, 256: 0.5, 1024: 2.0})).iloc[0]
    assert (row["first"], row["second"], row["verdict"]) == ("cpu", "gpu", "crossover")
    assert row["crossover"] == pytest.approx(512, rel=1e-3)
    assert row["crossover_low"] < 512 < row["crossover_high"]
    assert (row["size_below"], row["size_above"]) == (256, 1024)
    assert (row["faster_below"], row["faster_above"], row["n"]) == ("cpu", "gpu", 3)
    assert (row["sizes"], row["evidence"]) == ("64 256 1024", "measured")


@pytest.mark.parametrize(
    ("ratios", "repeats", "verdict", "faster", "same_at", "undecided"),
    [
        ({64: 2.0, 1024: 9.0}, 3, "one faster", "gpu", None, None),
        ({64: 0.2, 1024: 0.9}, 3, "one faster", "cpu", None, None),
        ({64: 1.0, 1024: 1.0}, 3, "same within 5 %", None, "64 1024", None),
        ({64: 0.5, 1024: 2.0}, 1, "undecided", None, None, "64 1024"),
        ({64: 1.0, 256: 1.4, 1024: 2.0}, 3, "partly undecided", "gpu", "64", None),
        ({64: 0.5, 256: 1.04, 1024: 0.5}, 3, "partly undecided", "cpu", None, "256"),
        ({64: 3.0}, 3, "one size", "gpu", None, None),
        ({64: 1.0}, 3, "one size", None, "64", None),
    ],
)
def test_without_a_crossover_the_row_says_why(
    ratios: dict[int, float],
    repeats: int,
    verdict: str,
    faster: str | None,
    same_at: str | None,
    undecided: str | None,
) -> None:
    jitter = {1: 0.97, 2: 1.0, 3: 1.03} if undecided else JITTER
    rows = found(study_of(list(ratios), repeats), by_size(ratios), jitter)
    row = rows.iloc[0].where(rows.iloc[0].notna(), None)
    assert len(rows) == 1
    assert (row["verdict"], row["faster"], row["same_at"], row["undecided"]) == (verdict, faster, same_at, undecided)
    assert rows[["crossover", "size_below", "size_above"]].isna().all(axis=None)
    assert row["smallest_ratio"] == pytest.approx(ratios[64], rel=0.031 if repeats == 1 else 1e-3)


def test_partly_undecided_says_where_it_is_sure_and_how_many_repeats_would_decide_the_rest() -> None:
    jitter = {1: 0.97, 2: 1.0, 3: 1.03}
    row = found(study_of([64, 256, 1024]), by_size({64: 1.04, 256: 3.0, 1024: 4.0}), jitter).iloc[0]
    assert (row["faster_at"], row["undecided"]) == ("256 1024", "64")
    assert 5 <= row["n_to_decide"] <= 100
    assert row[["crossover_low", "crossover_high"]].isna().all()


def test_all_sizes_and_workloads_are_one_family() -> None:
    """A ratio that alone is sure is not so any more beside nine others, of its own workload or of other ones."""
    jitter = {1: 0.985, 2: 1.0, 3: 1.015}
    assert found(study_of([64]), by_size({64: 1.06}), jitter)["faster"].tolist() == ["gpu"]
    many = {64: 1.06} | {64 + size: 1.02 for size in range(1, 10)}
    assert "64" in found(study_of(list(many)), by_size(many), jitter)["undecided"].iloc[0].split()
    study = study_of([64])
    others = {f"other{place}": study.workloads["own"] for place in range(9)}
    study = study.model_copy(update={"workloads": {**study.workloads, **others}})
    beside = found(study, lambda run: 1.06 if run.cell.workload == "own" else 1.02, jitter).set_index("workload")
    assert beside.loc["own", "undecided"] == "64"


def test_every_ratio_says_on_how_many_machines_and_in_how_many_sittings() -> None:
    study = study_of([64, 256])
    runs = synthetic.runs_table(study, lambda run: 100.0 * run.repeat)
    assert set(crossover_table(runs, study)["setting"]) == {"one machine, one sitting"}
    elsewhere = runs.assign(cpu=runs["cpu"].where(runs["device"] == "cpu", "another processor"))
    assert set(crossover_table(elsewhere, study)["setting"]) == {"2 machines, 2 sittings"}


def test_several_crossovers_are_a_row_each() -> None:
    rows = found(study_of([16, 64, 256]), by_size({16: 0.5, 64: 2.0, 256: 0.5}))
    assert rows["verdict"].tolist() == ["several crossovers"] * 2
    assert rows["faster_above"].tolist() == ["gpu", "cpu"]
    assert rows["crossover"].tolist() == pytest.approx([32, 128], rel=1e-3)


def test_only_sizes_that_both_devices_ran_count() -> None:
    rows = found(study_of([64, 256, 1024]), lambda run: None if run.cell.batch_size == 1024 else 2.0)
    assert rows["sizes"].tolist() == ["64 256"]


def test_a_lost_repeat_is_a_lost_pair() -> None:
    rows = found(study_of([64, 256]), lambda run: None if run.repeat == 2 and run.cell.batch_size == 64 else 2.0)
    assert (rows["n"].tolist(), rows["verdict"].tolist()) == ([2], ["one faster"])


def test_matrix_products_cross_in_tflops_over_n() -> None:
    study = study_of([512, 2048])
    study.workloads["own"].module = "matmul"
    row = found(study, by_size({512: 0.5, 2048: 2.0})).iloc[0]
    assert (row["quantity"], row["crossover"]) == ("tflops", pytest.approx(1024, rel=1e-3))


def test_like_settings_are_compared_and_each_devices_own_best_ones() -> None:
    """The cpu is best with TensorFlow, the gpu with JAX: like for like each is half as fast as it could be."""
    speed = {("cpu", "jax"): 0.5, ("gpu", "tensorflow"): 0.5}
    study = study_of([64, 256], backend=["tensorflow", "jax"])

    def throughput(run: Run) -> float:
        ratio = {64: 0.6, 256: 3.0}[run.cell.batch_size] if run.cell.device == "gpu" else 1.0
        return 100 * ratio * speed.get((run.cell.device, run.cell.backend), 1.0) * JITTER[run.repeat]

    rows = crossover_table(synthetic.runs_table(study, throughput), study)
    assert rows["comparison"].tolist() == ["same settings", "same settings", "own best"]
    assert rows["backend"].fillna("").tolist() == ["tensorflow", "jax", ""]
    assert rows["smallest_ratio"].tolist() == pytest.approx([0.3, 1.2, 0.6])
    assert (rows["first_means"][2], rows["second_means"][2]) == ("tensorflow epoch", "jax epoch")


def test_devices_without_a_common_backend_are_compared_by_their_own_best() -> None:
    study = study_of([64, 256], backend=["tensorflow", "jax"])
    own = {"cpu": "tensorflow", "gpu": "jax"}
    runs = synthetic.runs_table(
        study, lambda run: 100.0 * run.repeat if own[run.cell.device] == run.cell.backend else None
    )
    assert crossover_table(runs, study)["comparison"].tolist() == ["own best"]


def test_virtual_replicas_and_modelled_numbers_take_no_part() -> None:
    study = study_of([64, 256], devices={"cpu": Device(kind="cpu"), "cpu8": Device(kind="cpu", replicas=8)})
    assert found(study, lambda run: 2.0).empty
    study = study_of([64, 256])
    runs = synthetic.runs_table(study, lambda run: 100.0)
    assert crossover_table(runs.assign(evidence="modelled"), study).empty


def test_every_pair_of_three_devices_stands_cpu_first() -> None:
    devices = {"tpu": Device(kind="tpu", replicas=8), "gpu": Device(kind="gpu"), "cpu": Device(kind="cpu")}
    rows = found(study_of([64, 256], devices=devices), lambda run: 2.0)
    assert list(zip(rows["first"], rows["second"], strict=True)) == [("cpu", "tpu"), ("cpu", "gpu"), ("tpu", "gpu")]
    assert list(rows.columns) == list(COLUMNS)
