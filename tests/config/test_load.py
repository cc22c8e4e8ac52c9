"""A right config loads whatever its form; a wrong one is one line that names the place and the mend."""

from pathlib import Path

import pytest
import yaml

from whichdevice.__main__ import main
from whichdevice.base.errors import StudyError
from whichdevice.study.config.load import check_yaml, load_study, read_study, resolved, write_study
from whichdevice.study.config.model import Study, Workload

WRONG = yaml.safe_load(Path(__file__).with_name("wrong_configs.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("text", "line"), WRONG, ids=[line for _, line in WRONG])
def test_a_fault_is_one_line_with_place_and_mend(text, line, working_folder, capsys) -> None:
    Path("my.yaml").write_text(text, encoding="utf-8")
    assert main(["config", "--check", "my.yaml"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith(line) and (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("nothing", [None, "", "null", "~"])
def test_a_key_without_value_counts_as_absent_or_as_none(nothing: str | None) -> None:
    study = load_study({"measure": nothing, "study": nothing, "data": {"dir": nothing}, "train": {"epochs": nothing}})
    assert (study.measure, study.study, study.data.dir) == (Study().measure, "quick", None)
    assert study.train.epochs is None, "empty asks for each recipe's epochs, not for the default"


def test_text_from_the_command_line_becomes_what_the_key_needs() -> None:
    call = load_study(
        {
            "study": "2024",
            "measure": {"seconds": "5", "repeats": "2", "retry_seconds": "0"},
            "devices": {"gpu": {"kind": "gpu", "resources": {"gpu": "1", "slurm_partition": "fast"}}},
            "workloads": {"mnist_cnn": {"batch_size": ["256", "512"], "fraction": "0.1", "epochs": "null"}},
        }
    )
    measure = call.measure
    assert (call.study, measure.seconds, measure.repeats, measure.retry_seconds) == ("2024", 5.0, 2, 0.0)
    assert call.devices["gpu"].resources == {"gpu": 1, "slurm_partition": "fast"}
    assert call.workloads["mnist_cnn"] == Workload(batch_size=[256, 512], fraction=[0.1])


def test_text_keeps_its_form_where_it_may_be_meant() -> None:
    accounts = {"slurm_account": "00123", "slurm_partition": "1e3", "version": "1.10", "flag": "true", "gpu": "12"}
    (device,) = load_study({"devices": {"gpu": {"kind": "gpu", "resources": accounts}}}).devices.values()
    assert device.resources == accounts | {"gpu": 12}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        *((text, text) for text in ("00123", "1_000", "+5", "1.", "nan", "infinity", "relu")),
        *(("12", 12), ("-3", -3), ("0.10", 0.1), (".5", 0.5), ("1e-3", 0.001), ("True", True), ("false", False)),
    ],
)
def test_an_option_is_a_number_where_it_is_written_as_one(written: str, read: object) -> None:
    (workload,) = load_study({"workloads": {"mnist_cnn": {"options": {"x": written}}}}).workloads.values()
    assert workload.options == {"x": read}
    assert type(workload.options["x"]) is type(read)


def test_home_is_expanded_but_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    data = load_study({"data": {"dir": "~/dätä"}}).data
    assert data.folder == tmp_path / "dätä"
    assert data.dir == "~/dätä"


def test_a_study_survives_its_file(working_folder: Path) -> None:
    call = load_study({"study": "try", "data": {"dir": "Ärchive"}, "only": {"device": "cpu"}, "retry": "failed"})
    path = Path("results/try/config.yaml")
    write_study(resolved(call), path)
    assert read_study(path) == resolved(call)
    assert "only" not in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["config.yaml"]


def test_a_damaged_study_file_is_named(working_folder: Path) -> None:
    path = Path("config.yaml")
    path.write_text("study: quick\nseed: -1\n", encoding="utf-8")
    with pytest.raises(StudyError, match=r"^config\.yaml: seed is -1; it must be greater than or equal to 0$"):
        read_study(path)


def test_a_missing_config_gets_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "full.yaml").write_text("study: full\n")
    with pytest.raises(StudyError, match=r"ful\.yaml: cannot be read: No such file.*did you mean .*full\.yaml\?"):
        check_yaml(tmp_path / "ful.yaml")
