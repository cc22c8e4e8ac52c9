"""Crossings between devices are where the line between measured sizes passes 1."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import synthetic

from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Study, Workload
from whichdevice.study.tables import batch_sizes
from whichdevice.study.tables.batch_sizes import crossover_table
from whichdevice.study.tables.decision_rule import FASTER, SLOWER, decided, paired


def logs_of(ratios: dict[int, list[float]]) -> pd.DataFrame:
    """Ratios of repeats by size, as logarithms."""
    return pd.DataFrame({size: np.log(values) for size, values in ratios.items()})


def crossings(logs: pd.DataFrame) -> list[batch_sizes.Crossing]:
    """The crossings between sizes that the decision rule decides, all sizes one family."""
    long = logs.melt(var_name="size", value_name="log")
    verdicts = decided(paired(long["log"], long["size"]))["verdict"]
    return batch_sizes.crossings(logs, [{FASTER: 1, SLOWER: -1}.get(verdicts[size], 0) for size in logs])


def test_ratios_cross_where_the_line_between_their_sizes_does() -> None:
    (crossing,) = crossings(logs_of({64: [0.5, 0.5], 256: [2.0, 2.0]}))
    assert crossing == (pytest.approx(128), 64, 256, 1)
    (skewed,) = crossings(logs_of({64: [0.5] * 3, 256: [8.0] * 3}))
    assert skewed.size == pytest.approx(64 * 4**0.25)  # a quarter of the way on both logarithmic axes


def test_a_crossing_lies_between_the_surely_decided_sizes() -> None:
    (crossing,) = crossings(logs_of({16: [0.5, 0.52, 0.51], 64: [0.9, 1.2, 1.0], 256: [2.0, 2.1, np.nan]}))
    assert (crossing.below, crossing.above) == (16, 256)


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


def test_every_ratio_says_on_how_many_machines_and_in_how_many_sessions() -> None:
    study = study_of([64, 256])
    runs = synthetic.runs_table(study, lambda run: 100.0 * run.repeat)
    assert set(crossover_table(runs, study)["setting"]) == {"one machine, one session"}
    elsewhere = runs.assign(cpu=runs["cpu"].where(runs["device"] == "cpu", "another processor"))
    assert set(crossover_table(elsewhere, study)["setting"]) == {"2 machines, 2 sessions"}


def test_devices_without_a_common_backend_are_compared_by_their_own_best() -> None:
    study = study_of([64, 256], backend=["tensorflow", "jax"])
    own = {"cpu": "tensorflow", "gpu": "jax"}
    runs = synthetic.runs_table(
        study, lambda run: 100.0 * run.repeat if own[run.cell.device] == run.cell.backend else None
    )
    assert crossover_table(runs, study)["comparison"].tolist() == ["own best"]
