"""A record as MLPerf log lines: the public parser reads them, and they say what the record says."""

import json
from pathlib import Path

import pytest
import synthetic

from whichdevice.records.mlperf import TOKEN, mlperf_lines
from whichdevice.records.schema import Record


def record_of(repeat: int = 1) -> Record:
    """A run that learned three epochs, if it is the first repeat."""
    study = synthetic.small_study()
    return synthetic.record_of(study, synthetic.configured_runs(study)[4 * (repeat - 1)])


def events(record: Record) -> list[dict]:
    """The lines read back."""
    return [json.loads(line.removeprefix(TOKEN)) for line in mlperf_lines(record)]


def test_each_line_holds_what_the_format_asks_for() -> None:
    for event in events(record_of()):
        assert list(event) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
        assert event["event_type"] in {"INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"}
        assert isinstance(event["time_ms"], int)
        assert event["namespace"].startswith("cpu/mnist_cnn/")


def test_learning_is_a_run_of_epochs_with_their_accuracies_in_order_of_time() -> None:
    record = record_of()
    found = events(record)
    times = [event["time_ms"] for event in found]
    assert times == sorted(times)
    accuracies = [event["value"] for event in found if event["key"] == "eval_accuracy"]
    assert accuracies == [epoch.validation_metric for epoch in record.epochs]
    start, stop = (next(event for event in found if event["key"] == key) for key in ("run_start", "run_stop"))
    took = sum(epoch.seconds + (epoch.validation_seconds or 0) for epoch in record.epochs)
    assert stop["time_ms"] - start["time_ms"] == pytest.approx(1000 * took, abs=2)
    assert stop["metadata"] == {"status": "success"}
    (speed,) = [event["value"] for event in found if event["key"] == "tracked_stats"]
    assert speed["throughput"] == record.steady.throughput


@pytest.mark.parametrize("name", ["sequence_length", "served_length"])
def test_the_length_of_sequences_is_told_also_of_a_service(name: str) -> None:
    record = record_of()
    record.asked = record.asked.model_copy(update={name: 50})
    assert [event["value"] for event in events(record) if event["key"] == "max_sequence_length"] == [50]


def test_a_run_that_only_timed_has_no_mlperf_run_and_a_failed_one_is_aborted() -> None:
    keys = {event["key"] for event in events(record_of(repeat=2))}
    assert "tracked_stats" in keys and not {"run_start", "run_stop"} & keys
    study = synthetic.small_study()
    failed = synthetic.failed_record(study, synthetic.configured_runs(study)[0], reason="killed by signal 9")
    found = events(failed)
    assert found[-1]["metadata"] == {"status": "aborted", "why": "killed by signal 9"}
    assert found[-1]["key"] == "init_stop" and "run_start" not in {event["key"] for event in found}


def test_a_run_that_timed_out_while_it_learned_keeps_its_epochs_and_is_aborted() -> None:
    record = record_of()
    record.status, record.reason = "timed_out", "after 900 s"
    found = events(record)
    assert [event["key"] for event in found].count("epoch_stop") == len(record.epochs)
    assert found[-1]["key"] == "run_stop"
    assert found[-1]["metadata"] == {"status": "aborted", "why": "after 900 s"}
    times = [event["time_ms"] for event in found]
    assert times == sorted(times)


@pytest.mark.parametrize(("metric", "name"), [("balanced_accuracy", "balanced_accuracy"), (None, "loss")])
def test_a_quality_says_which_one_it_is(metric: str | None, name: str) -> None:
    record = record_of()
    assert record.workload is not None
    record.workload.metric = metric
    for epoch in record.epochs if metric is None else ():
        epoch.validation_metric = None
    found = [event for event in events(record) if event["key"] == "eval_accuracy"]
    expected = [each.validation_loss if metric is None else each.validation_metric for each in record.epochs]
    assert [event["value"] for event in found] == expected
    assert {event["metadata"]["metric"] for event in found} == {name}


def test_the_public_parser_reads_every_line(tmp_path: Path) -> None:
    parser = pytest.importorskip("mlperf_logging.compliance_checker.mlp_parser", reason="needs mlperf-logging")
    constants = pytest.importorskip("mlperf_logging.mllog.constants")
    known: set[str] = {value for value in vars(constants).values() if isinstance(value, str)}
    lines = list(mlperf_lines(record_of()))
    (tmp_path / "run.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found, faults = parser.parse_file(str(tmp_path / "run.log"), ruleset="4.1.0")
    assert (len(found), faults) == (len(lines), [])
    assert {line.key for line in found} <= known | {"tracked_stats"}
