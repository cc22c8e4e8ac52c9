"""A right config loads whatever its form; a wrong one is one line that names the place and the mend."""

from pathlib import Path

import pytest

from whichdevice.apps.commands.config import check
from whichdevice.base.errors import StudyError
from whichdevice.models.address import built_in_names
from whichdevice.study.config.load import check_yaml, load_study, read_study, resolved, write_study
from whichdevice.study.config.model import Study, Workload

BUILT_IN = ", ".join(built_in_names())
NAME_RULE = "a name has letters, digits, _ and . only, starts with a letter or digit and ends within 64 characters"

FAULTS = {
    "measure: {secnds: 3}": "measure.secnds is not a key; did you mean measure.seconds?",
    "mesure: {seconds: 3}": "mesure is not a key; did you mean measure?",
    "workloads: {mnist_cnn: {batchsize: 3}}": "workloads.mnist_cnn.batchsize is not a key; "
    "did you mean workloads.mnist_cnn.batch_size?",
    "train: {xyz: 3}": "train.xyz is not a key; keys here are epochs, seconds, repeats",
    "workloads: {mnist_cn: {}}": "workloads.mnist_cn is no built-in workload; did you mean mnist_cnn? "
    "(own ones need `module: path/to/file.py`)",
    "workloads: {mine: {module: qqq}}": f"workloads.mine.module: qqq is no built-in workload; there are {BUILT_IN} "
    "(own ones need `module: path/to/file.py`)",
    "workloads: {mine: {module: a/b.py}}": "workloads.mine.module: no file a/b.py; paths start where Snakemake runs",
    "run_on: cpus": "run_on: cpus is no device here; did you mean cpu?",
    "run_on: [cpu, gpuu]": "run_on: gpuu is no device here; did you mean gpu?",
    "run_on: [cpu, cpu]": "run_on lists cpu twice; once is enough",
    "run_on: []": "run_on is empty; give at least one value, or leave the key out",
    "only: {device: [cpuu]}": "only.device: cpuu does not occur in this study; did you mean cpu?",
    "only: {workload: mnist_cn}": "only.workload: mnist_cn does not occur in this study; did you mean mnist_cnn?",
    "only: {batch_size: 77}": "only.batch_size: 77 does not occur in this study; there are 8, 32, 128, 512, 1024, 2048",
    "only: {workload: matmul, batch_size: 512}": "only selects nothing: no run has workload matmul, "
    "batch_size 512 together",
    "only: {repeat: 4}": "only.repeat: 4 does not occur in this study; there are 1, 2, 3",
    "workloads: {mnist_cnn: {batch_size: -256}}": "workloads.mnist_cnn.batch_size is -256; it must be greater than 0",
    "workloads: {mnist_cnn: {batch_size: [256, 0]}}": "workloads.mnist_cnn.batch_size is 0; it must be greater than 0",
    "workloads: {mnist_cnn: {batch_size: [8, 8]}}": "workloads.mnist_cnn.batch_size lists 8 twice; once is enough",
    "workloads: {mnist_cnn: {batch_size: []}}": "workloads.mnist_cnn.batch_size is empty; "
    "give at least one value, or leave the key out",
    "workloads: {mnist_cnn: {fraction: 1.5}}": "workloads.mnist_cnn.fraction is 1.5; "
    "it must be less than or equal to 1",
    "workloads: {mnist_cnn: {backend: tensorfow}}": "workloads.mnist_cnn.backend is 'tensorfow'; "
    "it must be 'tensorflow', 'jax' or 'torch'",
    "data: {source: tdfs}": "data.source is 'tdfs'; it must be 'auto', 'tfds', 'files' or 'standin'",
    "seed: abc": "seed is 'abc'; it must be a valid integer",
    "seed: 1.5": "seed is 1.5; it must be a valid integer",
    "seed: true": "seed is true; it must be a valid integer",
    "measure: 3": "measure is 3; it needs keys with values",
    "measure: {seconds: .inf}": "measure.seconds is inf; it must be a finite number",
    "measure: {retry_disturbed: perhaps}": "measure.retry_disturbed is 'perhaps'; it must be a valid boolean",
    "workloads: [matmul]": "workloads is ['matmul']; it needs keys with values",
    "workloads: {}": "workloads is empty; give at least one value, or leave the key out",
    "devices: {gpu: {}}": "devices.gpu.kind is missing",
    "study: 1.10": "study names 1.1, which was read as a number: begin the name with a letter",
    "study: 007": "study names 7, which was read as a number: begin the name with a letter",
    "devices: {1080: {kind: gpu}}": "devices names 1080, which was read as a number: begin the name with a letter",
    "only: {workload: 7}": "only.workload names 7, which was read as a number: begin the name with a letter",
    "study: a/b": f"study: 'a/b' is no name here; {NAME_RULE}",
    "workloads: {my-net: {}}": f"workloads.my-net: 'my-net' is no name here; {NAME_RULE}",
    "devices: {a: {kind: gpu, resources: {mem: 32GB}}}": "devices.a.resources: mem is not for a device: write mem_mb",
    "devices: {a: {kind: gpu, resources: {disk_mib: 9}}}": "devices.a.resources: disk_mib is not for a device: "
    "write disk_mb",
    "devices: {a: {kind: gpu, resources: {mem_mb: 32GB}}}": "devices.a.resources: mem_mb is '32GB'; it needs a number "
    "of megabytes",
    "devices: {a: {kind: gpu, resources: {slurm_extra: --x}}}": "devices.a.resources: slurm_extra is not for a device: "
    "add it to set-resources of profiles/slurm/config.yaml, beside --exclusive",
    "retry: faild": "retry is 'faild'; it must be 'failed'",
    "1: 2": "1 is not a key; keys here are study, seed, run_on, devices, prices, data, measure, train, "
    "forecast, workloads, storage, records, rename, only, retry",
    "measure: {seconds: -1, secs: 3}": (
        "measure.seconds is -1; it must be greater than 0; measure.secs is not a key; did you mean measure.seconds?"
    ),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_one_line_with_place_and_mend(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError) as caught:
        check(Path("my.yaml"))
    assert str(caught.value) == f"my.yaml: {FAULTS[text]}"


@pytest.mark.parametrize("nothing", [None, "", "null", "~"])
def test_a_key_without_value_counts_as_absent_or_as_none(nothing: str | None) -> None:
    study = load_study({"measure": nothing, "study": nothing, "data": {"dir": nothing}, "train": {"epochs": nothing}})
    assert (study.measure, study.study, study.data.dir) == (Study().measure, "quick", None)
    assert study.train.epochs is None, "empty asks for each recipe's epochs, not for the default"


def test_text_from_the_command_line_becomes_what_the_key_needs() -> None:
    call = load_study(
        {
            "study": "2024",
            "measure": {"seconds": "5", "repeats": "2", "retry_disturbed": "False"},
            "devices": {"gpu": {"kind": "gpu", "resources": {"gpu": "1", "slurm_partition": "fast"}}},
            "workloads": {"mnist_cnn": {"batch_size": ["256", "512"], "fraction": "0.1", "epochs": "null"}},
        }
    )
    measure = call.measure
    assert (call.study, measure.seconds, measure.repeats, measure.retry_disturbed) == ("2024", 5.0, 2, False)
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
