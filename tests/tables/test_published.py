"""Each published figure stands beside the very same work, forecast or measured, or beside nothing."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import synthetic
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.base.files import WORKFLOW
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.answer import Forecast
from whichdevice.forecast.targets import find_target
from whichdevice.measure.record import Steady
from whichdevice.study.claims import (
    CLAIMED,
    PUBLISHED,
    STEADY,
    TODAY,
    Claim,
    claim_requests,
    experiments,
    read_published,
)  # fmt: skip
from whichdevice.study.config.model import Device, Measure, Study, Train, Workload
from whichdevice.study.programs import all_requests, program_requests
from whichdevice.study.tables.base import read_table, table
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.published import published_table
from whichdevice.study.tables.runs import configured_runs
from whichdevice.study.tables.summary import summary_table

SHEET = hardware_rows()
CLAIMS = read_published(PUBLISHED)
PAGE = WORKFLOW / "docs/results/tables/published.csv"
SETTINGS = ("batch_size", "sequence_length", "precision")
STEP = 0.02  # seconds of every step that is forecast below
BESIDE = beside(__file__)
EPOCH, RNN, PRODUCT, QUALITY = (BESIDE[name] for name in ("epoch", "rnn", "product", "quality"))


def forecasts() -> list[Forecast]:
    """A forecast of every published step, of the same time."""
    return [
        Forecast(
            **request.model_dump(include={"device", "devices", "module", "precision", "batch_size", "sequence_length"}),
            workload=request.workload, kind=find_target(request.device).kind, status="ok", step_time=STEP,
            step_time_low=STEP / 2, step_time_high=STEP * 2, device_time=STEP / 2, log_sd_shared=0.1, log_sd_own=0.1,
        )
        for request in claim_requests()
    ]  # fmt: skip


def rows_of(*claims: dict[str, Any], summary: pd.DataFrame | None = None) -> pd.DataFrame:
    measured = table([], TABLES["summary"]) if summary is None else summary
    return published_table([Claim(**claim) for claim in claims], measured, forecasts(), SHEET)


def differing(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with numbers on both sides whose settings are not the same."""
    ours = rows[rows["ours"].notna()]
    same = [ours[f"published_{name}"].astype("string").fillna("") == ours[name].astype("string").fillna("")
            for name in SETTINGS]  # fmt: skip
    return ours[~pd.concat(same, axis=1).all(axis=1)]


def test_both_sides_of_each_row_have_the_same_settings() -> None:
    measured = summary_of(batch_size=[512, 1024])
    rows = published_table(CLAIMS, measured, forecasts(), SHEET)
    assert (rows["evidence"] == "measured").any() and (rows["evidence"] == "forecast").sum() > 50
    for shown in (rows, read_table(PAGE, TABLES["published"])):
        assert differing(shown).empty
    other = rows.assign(batch_size=rows["batch_size"] + 1)
    assert len(differing(other)) == rows["ours"].notna().sum()


def test_each_measurement_on_a_tpu_or_k80_of_known_size_has_a_forecast_a_ratio_and_a_place_on_the_page() -> None:
    made = published_table(CLAIMS, table([], TABLES["summary"]), forecasts(), SHEET)
    for rows in (made, read_table(PAGE, TABLES["published"])):
        then = rows[rows["metric"].isin([*STEADY, "first_epoch_time", "throughput_cold"]) & rows["value"].notna()]
        same = then[then["published_device"].str.contains("TPU v2|K80") & then["published_batch_size"].notna()]
        assert len(same) == 16 and same["ratio"].notna().all()
        assert set(same["device"]) == {"4 × TPU v2", "K80 (one GK210)"}
        assert set(then[then["ratio"].isna()]["cause"]) <= {
            "no forecasts of CPUs", "no batch size published", "no batch size published, fed over a network",
            "no name of the GPU published", *then["cause"][then["standing"] == "disputed"],
        }  # fmt: skip


@pytest.mark.parametrize(("figure", "steps"), BESIDE["steps"])
def test_a_time_is_of_as_many_steps(figure: dict[str, Any], steps: int) -> None:
    rows = rows_of(figure)
    assert list(rows["device"]) == ["4 × TPU v2", *TODAY]
    for _, row in rows.iterrows():
        assert (row["ours"], row["ours_low"]) == (pytest.approx(steps * STEP), pytest.approx(steps * STEP / 2))
    assert rows["ratio"].iloc[0] == pytest.approx(steps * STEP / 3) and rows["ratio"].iloc[1:].isna().all()


def test_a_speed_is_of_a_product_on_every_core_without_the_host() -> None:
    row = rows_of(PRODUCT | {"precision": "bfloat16"}).iloc[0]
    assert row["ours"] == pytest.approx(8 * 2 * 4096**3 / 1e12 / (STEP / 2))
    assert row["ours_low"] < row["ours"] < row["ours_high"]
    assert (row["precision"], row["batch_size"]) == ("bfloat16", 4096)


@pytest.mark.parametrize(("figure", "cause"), BESIDE["causes"])
def test_a_cause_follows_from_what_was_published(figure: dict[str, Any], cause: str | None) -> None:
    assert Claim(**figure).cause(SHEET) == cause


@pytest.mark.parametrize("figure", BESIDE["without a number of ours"])
def test_without_the_same_work_there_is_no_number(figure: dict[str, Any]) -> None:
    (row,) = rows_of(figure, summary=summary_of(source="standin")).to_dict("records")
    assert row["value"] == figure["value"] and row["ours"] != row["ours"]


def test_of_a_step_an_epoch_and_a_training_of_one_measurement_one_is_shown() -> None:
    step = EPOCH | {"metric": "step_time", "value": 0.03}
    assert [claim.metric for claim in experiments([Claim(**EPOCH), Claim(**step)])[0].claims] == ["step_time"]
    gpu = BESIDE["on a K80"]
    both = experiments([Claim(**EPOCH), Claim(**step), Claim(**gpu)])[0].claims  # the one that all devices have
    assert [claim.metric for claim in both] == ["epoch_time", "epoch_time"]
    shown = [claim for experiment in experiments(CLAIMS) for claim in experiment.claims if claim.is_timed]
    assert len(shown) == 26 and len({claim.source for claim in shown}) == 7


def test_a_study_forecasts_what_was_published_of_its_workloads_apart_from_its_own() -> None:
    study = Study(workloads={"mnist_cnn": Workload(batch_size=[1024])})
    own, everything = program_requests(study), all_requests(study)
    claimed = everything[len(own) :]
    assert {request.module for request in claimed} == {"mnist_cnn"}
    assert {request.batch_size for request in claimed} == {256, 512, 1024}
    assert {request.device for request in claimed} == {"TPU v2", *TODAY}
    assert all(request.workload.startswith(CLAIMED) for request in claimed)
    assert all_requests(Study(forecast={"devices": []})) == []  # type: ignore[arg-type]


def summary_of(*epochs: int, source: str = "files", **workload: object) -> pd.DataFrame:
    """The summary of CPU cells with a step time of 25.6 ms, whose repeats learned for so many epochs."""
    epochs = epochs or (3,)
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")},
        workloads={"own_name": Workload(**{"module": "mnist_cnn", "batch_size": [256]} | workload)},  # type: ignore[arg-type]
        measure=Measure(repeats=len(epochs)),
        train=Train(epochs=max(epochs), repeats=len(epochs)),
    )
    rows = []
    for run in configured_runs(study):
        record = synthetic.record_of(study, run, source=source)
        record.steady = Steady(steps=10, seconds=0.256, throughput=run.cell.batch_size * 10 / 0.256)
        record.epochs = record.epochs[: epochs[run.repeat - 1]]
        rows.append(synthetic.runs_row(record))
    return summary_table(table(rows, TABLES["runs"]))


def test_what_was_measured_at_the_same_settings_is_beside_todays_devices() -> None:
    rows = rows_of(EPOCH, summary=summary_of(batch_size=[256, 512]))
    (row,) = rows[rows["evidence"] == "measured"].to_dict("records")
    assert (row["device"], row["batch_size"], row["ours"]) == ("cpu", 512, pytest.approx(118 * 0.0256))
    assert "measured" not in set(rows_of(EPOCH, summary=summary_of(batch_size=[256]))["evidence"])
    other = summary_of(batch_size=[512], precision=["mixed_bfloat16"])
    assert "measured" not in set(rows_of(EPOCH, summary=other)["evidence"])
    for given in ({}, {"sequence_length": [1344]}):  # the recipe's length is one, too
        rows = rows_of(RNN, summary=summary_of(module="weather_gru", **given))
        assert "measured" in set(rows["evidence"]) and differing(rows).empty
    short = summary_of(module="weather_gru", sequence_length=[168])
    assert "measured" not in set(rows_of(RNN, summary=short)["evidence"])


@pytest.mark.parametrize(
    ("epochs", "workload", "known"),
    [((3,), {}, True), ((2,), {}, False), ((2, 3), {}, False), ((3,), {"fraction": [0.1]}, False)],
)
def test_a_quality_counts_after_as_many_epochs_on_all_of_the_data(epochs, workload, known) -> None:
    row = rows_of(QUALITY, summary=summary_of(*epochs, **workload)).iloc[0]
    assert pd.notna(row["ours"]) is known


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"validation": "maybe"}, "row 1: validation is 'maybe'; write yes, no or nothing"),
        ({"value": "fast"}, "row 1: value is 'fast', which is no number"),
        ({"value": "inf"}, "row 1: value is 'inf', which is no number"),
    ],
)
def test_a_figure_that_is_wrong_is_refused(tmp_path: Path, change: dict[str, str], words: str) -> None:
    pd.DataFrame([EPOCH | change]).to_csv(tmp_path / "published.csv", index=False)
    with pytest.raises(StudyError, match=words):
        read_published(tmp_path / "published.csv")
