"""The audit of published numbers: verdicts and reasons follow from numbers, never from a word about a source."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.config.hardware import hardware_rows
from whichdevice.config.model import Device, Measure, Workload
from whichdevice.tables import forecasts
from whichdevice.tables.audit import IMPOSSIBLE, NO_SPEED, POSSIBLE, UNKNOWN, audit_table
from whichdevice.tables.base import table
from whichdevice.tables.make import TABLES
from whichdevice.tables.published import DISPUTED, published_table, read_published
from whichdevice.tables.runs import configured_runs
from whichdevice.tables.summary import summary_table

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"


def claim(**changes: str) -> dict[str, str]:
    """A step of 1024 examples on a TPU v2-8 in 100 ms."""
    return {
        "source": "Someone", "date": "2020", "device": "TPU v2-8", "device_class": "tpu", "workload": "mnist_cnn",
        "batch_size": "1024", "metric": "step_time", "value": "100", "unit": "ms", "caveat": "", "epochs": "10",
        "steps_per_epoch": "", "sequence_length": "", "status": "as published", "hardware": "TPU v2", "chips": "4",
        "suspect_factor": "", "suspect": "", "validation": "no",
    } | changes  # fmt: skip


def summary() -> pd.DataFrame:
    """One workload measured on a CPU and a GPU."""
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")},
        workloads={"mnist_cnn": Workload(batch_size=[1024])}, measure=Measure(repeats=3),
    )  # fmt: skip
    rows = [synthetic.runs_row(synthetic.record_of(study, run, source="files")) for run in configured_runs(study)]
    return summary_table(table(rows, TABLES["runs"]))


def audited(*claims: dict[str, str], steps: pd.DataFrame | None = None) -> pd.DataFrame:
    """The audit of these claims."""
    measured = summary()
    beside = published_table(claims, measured)
    modelled = table([] if steps is None else steps, forecasts.COLUMNS)
    return audit_table(claims, beside, measured, modelled, hardware_rows())


def test_a_speed_beyond_the_sheet_is_impossible_whatever_is_said_of_it() -> None:
    fast, slow = audited(
        claim(unit="TFLOP/s", value="185"), claim(unit="TFLOP/s", value="183", status=DISPUTED)
    ).itertuples()
    assert (fast.possible, slow.possible) == (IMPOSSIBLE, POSSIBLE)
    assert fast.of_sheet == pytest.approx(185 / 184)
    assert "185 TFLOP/s is 1.01 times the peak of 4 × TPU v2 (184 TFLOP/s by its sheet)" in fast.why


def test_a_time_becomes_a_rate_by_analytic_operations() -> None:
    flops = summary()["flops_per_step"].iloc[0]
    row = audited(claim()).iloc[0]
    assert row["claimed_tflops"] == pytest.approx(flops / 0.1 / 1e12)
    assert (row["possible"], row["of_sheet"] < 0.1) == (POSSIBLE, True)
    assert "not arithmetic took the time" in row["why"]
    assert audited(claim(value="0.1")).iloc[0]["possible"] == IMPOSSIBLE


@pytest.mark.parametrize(
    ("changes", "verdict", "why"),
    [
        ({"hardware": ""}, UNKNOWN, "does not name the device"),
        ({"workload": "fashion_cnn"}, UNKNOWN, "operations are not known here"),
        ({"value": ""}, UNKNOWN, "no number was published"),
        ({"metric": "validation_accuracy", "unit": "fraction", "value": "0.98"}, NO_SPEED, "a quality"),
        ({"metric": "tpu_init_time", "unit": "s", "value": "10"}, NO_SPEED, "a wait"),
    ],
)
def test_what_no_peak_can_judge_is_not_judged(changes: dict[str, str], verdict: str, why: str) -> None:
    row = audited(claim(**changes)).iloc[0]
    assert row["possible"] == verdict
    assert why in row["why"]


def test_a_suspected_factor_is_named_only_where_it_mends_something() -> None:
    told = {"unit": "TFLOP/s", "suspect_factor": "8", "suspect": "a factor of 8 was copied"}
    assert (
        "if a factor of 8 was copied, it was 46.2 TFLOP/s, 25 % of that peak"
        in audited(claim(value="370", **told)).iloc[0]["why"]
    )
    assert "still beyond that peak" in audited(claim(value="3700", **told)).iloc[0]["why"]
    assert "factor" not in audited(claim(value="37", **told)).iloc[0]["why"]


def test_a_sources_own_numbers_are_set_against_each_other() -> None:
    epoch = claim(metric="epoch_time", unit="s", value="6")
    first = claim(metric="first_epoch_time", unit="s", value="18")
    whole = claim(metric="wall_time", unit="s", value="75")
    sample = claim(unit="us/sample", value="97")
    other = claim(metric="epoch_time", unit="s", value="60", source="Another")
    why = audited(epoch, first, whole, sample, other)["why"].tolist()
    assert "3 times a later one" in why[1]
    assert (
        "7.5 s an epoch in the mean, which holds the first one with its compilation, 6 s by its own epoch time"
        in why[2]
    )
    assert "an epoch of 5.76 s by this, 6 s by its own epoch time" in why[3]
    assert "an epoch would take 0.00563 s: wrong unit" in why[3]
    right = claim(unit="us/sample", value=str(6 / 58 * 1e6))  # a time of a step, though its unit says otherwise
    assert "wrong unit" not in audited(epoch, right).iloc[1]["why"]


def test_the_same_kind_of_device_is_shown_where_it_was_measured() -> None:
    row = audited(claim(device_class="gpu", hardware=""), claim(batch_size="64")).iloc[0]
    assert (row["kind"], row["n"], pd.isna(row["here"])) == ("gpu", 3, True)
    assert row["measured_low"] < row["measured"] < row["measured_high"]


def test_what_was_not_measured_says_why() -> None:
    rows = audited(claim(batch_size="64"), claim(workload="weather_gru"), claim(value=""))
    assert rows["here"].tolist()[:2] == [
        "not measured here: no run with batch size 64", "not measured here: no run of weather_gru",
    ]  # fmt: skip
    assert rows["measured"].isna().tolist() == [True, True, False]


def test_a_forecast_is_beside_the_step_that_it_is_of() -> None:
    step = {
        "device": "TPU v2", "devices": 8, "module": "mnist_cnn", "batch_size": 1024, "step_time": 0.0015,
        "step_time_low": 0.001, "step_time_high": 0.002,
    }  # fmt: skip
    row = audited(claim(), steps=pd.DataFrame([step])).iloc[0]
    assert (row["forecast_low"], row["forecast"], row["forecast_high"]) == (0.001, 0.0015, 0.002)
    assert "100 ms a step, of which the device needs about 1.5 ms (1 to 2; forecast)" in row["why"]
    assert pd.isna(audited(claim(device="TPU v3-8"), steps=pd.DataFrame([step])).iloc[0]["forecast"])


@pytest.mark.slow
def test_of_the_real_claims_just_the_disputed_ones_are_impossible(tmp_path: Path) -> None:
    config, paths = synthetic.write_study(synthetic.full_study(repeats=2), tmp_path, artefacts=False)
    found = synthetic.Results(config, paths).audit
    claims = read_published(PUBLISHED)
    assert len(found) == len(claims)
    disputed = [entry["status"] == DISPUTED for entry in claims]
    assert (found["possible"] == IMPOSSIBLE).tolist() == disputed
    assert sorted(found.loc[found["possible"] == IMPOSSIBLE, "value"]) == [0.47, 0.53, 15.7]
    assert found["why"].notna().all()
    assert (found["measured"].notna() ^ found["here"].notna()).all()


def test_a_claim_stands_beside_the_published_format_and_loop_though_another_is_faster() -> None:
    study = synthetic.small_study(
        devices={"gpu": Device(kind="gpu")},
        workloads={
            "mnist_cnn": Workload(
                batch_size=[1024],
                precision=["float32", "mixed_bfloat16"],
                loop=["epoch", "fit"],
                backend=["tensorflow"],
            )
        },
    )
    rows = [synthetic.runs_row(synthetic.record_of(study, run, source="files")) for run in configured_runs(study)]
    measured = summary_table(table(rows, TABLES["runs"]))
    for claimed, precision in ((claim(), "float32"), (claim(precision="mixed_bfloat16"), "mixed_bfloat16")):
        beside = published_table([claimed], measured)
        row = audit_table([claimed], beside, measured, table([], forecasts.COLUMNS), hardware_rows()).iloc[0]
        assert (row["precision"], row["loop"], pd.isna(row["note"])) == (precision, "fit", True)
        assert row["measured"] > beside.loc[beside["precision"] == precision, "measured"].min()
