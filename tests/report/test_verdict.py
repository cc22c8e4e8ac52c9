"""The first screen: the answers of the study, what limits them, and measured devices by the decision rule."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import synthetic
from report_page import page_of
from synthetic_forecasts import compiled_for

from whichdevice.decide import words
from whichdevice.decide.words import study_text
from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Workload
from whichdevice.study.planning.progress import answer_lines
from whichdevice.study.report.chart import chart
from whichdevice.study.report.verdict import compared, facts, first_screen


def results(folder: Path, speeds: Callable[[Run], float], measured: list[str] | None = None, **study: Any) -> Any:
    """A study of two devices whose throughputs are given, but for a per mille."""

    def change(run: Run, record: Record) -> Record:
        speed = speeds(run) * (1 + 0.001 * ((run.repeat + len(run.cell.device)) % 3))
        return synthetic.slowed(record, (record.steady.throughput or speed) / speed)

    made = synthetic.small_study(**({"measure": Measure(repeats=4)} | study))
    programs = compiled_for(folder / "compiled", ["T4", "H100 SXM"])
    return synthetic.results(made, folder, programs, devices=measured, change=change)


def by_device(ratios: dict[str, float]) -> Callable[[Run], float]:
    return lambda run: 100 * ratios[run.cell.device] + run.cell.batch_size / 1000


def test_measured_devices_are_compared_by_the_decision_rule(tmp_path: Path) -> None:
    [[work, device, against]] = compared(results(tmp_path, by_device({"cpu": 1, "gpu": 5})))
    assert (work, device) == ("mnist_cnn · float32", "gpu")
    assert re.fullmatch(r"4\.96 \[4\.9\d – \d\.\d+\] times as fast as cpu: faster, n = 4 \(at size 1024\)", against)


def test_devices_within_five_per_cent_are_the_same_and_one_device_has_nothing_to_compare(tmp_path: Path) -> None:
    [[_, _, against]] = compared(results(tmp_path / "same", by_device({"cpu": 1, "gpu": 1.01})))
    assert "same within 5 %" in against
    alone = results(tmp_path / "alone", by_device({"cpu": 1}), measured=["cpu"])
    assert compared(alone) == []
    first = next(facts(alone))
    assert first.text == "Not measured: gpu (no gpu on this host). To measure it, on a host that has one:"
    assert first.command == "whichdevice study gpu --configfile results/small/config.yaml" and first.warning


def test_what_limits_the_answer_comes_first(tmp_path: Path) -> None:
    study = results(tmp_path, by_device({"cpu": 1, "gpu": 5}))
    assert [fact.text for fact in facts(study) if fact.warning] == [
        "Data: mnist: generated stand-ins of the same shapes and sizes: times count, accuracies mean nothing."
    ]
    study.runs.loc[study.runs["repeat"] == 2, "versions"] = "tensorflow 9.9"
    [mixed] = [fact for fact in facts(study) if "mix repeats" in fact.text]
    assert mixed.text == "4 of 4 cells mix repeats measured with other library versions."
    assert mixed.command is not None and "--forcerun measure" in mixed.command
    study.runs["versions"] = study.runs["repeat"].map("snakemake 9.{}; tensorflow 2.21".format)
    assert not [fact for fact in facts(study) if "mix repeats" in fact.text]  # Snakemake runs in no measured process


def test_models_of_one_name_are_not_compared(tmp_path: Path) -> None:
    def change(run: Run, record: Record) -> Record:
        if run.cell.device == "gpu":
            record.workload = record.workload.model_copy(update={"parameters": 7})
        return record

    study = synthetic.results(synthetic.small_study(), tmp_path, change=change)
    assert any("mnist_cnn is several models, not compared" in fact.text for fact in facts(study))
    assert compared(study) == []


def test_runs_that_ran_out_of_time_while_they_learned_count_for_speed(tmp_path: Path) -> None:
    def change(run: Run, record: Record) -> Record:
        cut = {"status": "timed_out", "reason": "no end after 60 s (measure.timeout)", "epochs": record.epochs[:1]}
        return record.model_copy(update=cut)

    made = synthetic.small_study(devices={"cpu": Device(kind="cpu")}, measure=Measure(repeats=1))
    study = synthetic.results(made, tmp_path, change=change)
    assert not study.absent and study.summary["n_learned"].isna().all()
    screen = first_screen(study)
    assert screen["lead"][0] == "Use cpu for mnist_cnn." and len(screen["answers"]) == 1
    assert any("n = 1 processes" in fact.text for fact in screen["facts"])


def test_page_and_terminal_show_the_same_answer(tmp_path: Path) -> None:
    made = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads={"mnist_cnn": Workload(batch_size=[1024])}
    )
    compiled = compiled_for(tmp_path / "compiled", ["T4", "H100 SXM"], operations=2e14)
    page = page_of(made, tmp_path, compiled=compiled)
    lines = answer_lines(str(tmp_path), 120)
    study = synthetic.StudyResults(tmp_path / "config.yaml", tmp_path / "tables")
    assert lines == study_text(study.answers, 120) and lines[0] in page.text
    for line in words.lines(study.answers[0]):
        assert line in re.sub(r"\s+", " ", page.text)
    assert max(map(len, answer_lines(str(tmp_path), 80))) <= 80
    assert answer_lines(str(tmp_path / "nowhere")) == []


def test_a_chart_has_a_point_for_each_choice_and_none_for_one(tmp_path: Path) -> None:
    study = results(tmp_path, by_device({"cpu": 1}), measured=["cpu"])
    [answer] = study.answers
    drawn = chart(answer)
    choices = [option for option in answer.options if option.ruled_out is None]
    for picture in drawn.split("</svg>")[:2]:  # for a screen and for a phone
        assert picture.count("<circle") == len(choices) > 2 and picture.count('circle class="pick') == 1
    alone = synthetic.Results(tmp_path / "config.yaml", list(tmp_path.glob("runs/**/record.json")))
    assert chart(alone.answers[0]) == ""
