"""`tpu run` from nothing to records, and no machine afterwards."""

import subprocess
from pathlib import Path

import pytest
import synthetic
import yaml
from cloud.stage import CONFIG, Cloud

from whichdevice.config.model import Study
from whichdevice.records.store import write_record


def logs() -> str:
    """Everything that `tpu run` wrote down."""
    return "".join(path.read_text(encoding="utf-8") for path in Path("results/rented/logs/tpu").glob("*.log"))


def test_a_study_is_measured_and_its_records_come_home(cloud: Cloud) -> None:
    done = cloud.tpu("run", "--yes", "--", "--forcerun", "measure")
    assert done.code == 0, done.text
    assert cloud.records() == cloud.every
    assert "4 records brought back" in done.out
    assert "measuring --cores 1 tpu --configfile tpu-study.yaml --forcerun measure" in done.out
    cloud.nothing_left()


def test_its_log_is_kept_and_names_neither_project_nor_address(cloud: Cloud) -> None:
    cloud.machine.on_run = "echo on rent-a-tpu at 10.128.0.7"
    done = cloud.tpu("run", "--yes")
    assert "on rent-a-tpu at 10.128.0.7" in done.out
    assert "on PROJECT at ADDRESS" in logs()
    assert "rent-a-tpu" not in logs()


def test_the_machine_gets_the_tracked_files_alone_and_the_config_without_the_project(cloud: Cloud) -> None:
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b.c commit -qm first"):
        subprocess.run(f"git {command}", shell=True, check=True)
    Path("credentials.json").write_text("secret")
    cloud.machine.on_run = (
        "find . -type f ! -path './.git/*'; git rev-parse HEAD; git status --short; cat tpu-study.yaml"
    )
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert "credentials.json" not in done.out
    commit = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert commit in done.out
    shipped = done.out.rpartition("config")[0]
    assert "tpu_vm" not in done.out.partition(commit)[2], shipped


def test_what_is_here_goes_along_and_is_not_measured_again(cloud: Cloud) -> None:
    study = Study.model_validate(CONFIG)
    path = Path(cloud.runs[0].record(study))
    write_record(synthetic.record_of_this_code(study, cloud.runs[0]), path)
    before = path.read_bytes()
    cloud.machine.on_run = "find results -name record.json; cp -Rn prepared/. results/rented/runs"
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert "3 TPU runs of study rented, 1 are here" in done.out
    assert str(path) in done.out
    assert "3 records brought back to results/rented/runs; 1 were here already." in done.out
    assert path.read_bytes() == before


def test_a_record_of_other_settings_goes_along_and_what_the_machine_makes_of_it_replaces_it(cloud: Cloud) -> None:
    study = Study.model_validate({**CONFIG, "measure": {"repeats": 2, "seconds": 7.0}})
    path = Path(cloud.runs[0].record(study))
    write_record(synthetic.record_of_this_code(study, cloud.runs[0]), path)
    before = path.read_bytes()
    cloud.machine.on_run = "cp -R prepared/. results/rented/runs"
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert "4 TPU runs of study rented, 0 are here, 1 of other settings, code or data are measured again." in done.out
    assert "4 records brought back to results/rented/runs; 0 were here already." in done.out
    assert path.read_bytes() != before


def test_a_record_that_changed_here_meanwhile_stays_and_the_other_lies_beside_it(cloud: Cloud) -> None:
    study = Study.model_validate(CONFIG)
    path = Path(cloud.runs[0].record(study))
    mine = synthetic.record_of(study, cloud.runs[0]).model_copy(update={"reason": "mine"})

    cloud.api.on_test["measure-here"] = lambda: write_record(mine, path)
    cloud.machine.on_run = "curl -s -o /dev/null -X POST https://tpu.googleapis.com/test/measure-here"
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert '"mine"' in path.read_text(encoding="utf-8")
    assert "1 records differ from those that are here" in done.out
    [aside] = Path("results/rented/brought").rglob("record.json")
    assert '"mine"' not in aside.read_text(encoding="utf-8")


def test_a_python_is_installed_where_the_image_has_none_that_fits(cloud: Cloud) -> None:
    cloud.machine.programs |= {"python3.11": "exit 127", "python3.12": "exit 127", "sudo": 'echo sudo "$@"'}
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert "install python3.11 python3.11-venv" in done.out
    assert "installed tpu python3.11" in done.out


def test_a_machine_that_may_not_delete_itself_is_told(cloud: Cloud) -> None:
    cloud.api.permissions = []
    done = cloud.tpu("run", "--yes")
    assert "WARNING: the machine's service account may not delete it" in done.out
    assert "roles/tpu.admin" in done.out


def test_what_a_model_file_s_own_data_lack_on_the_machine_is_said_before_anybody_pays(cloud: Cloud) -> None:
    Path("own").mkdir()
    text = "def data(options): ...\ndef model(options): ...\n"
    Path("own/mine.py").write_text(text)
    Path("own/tracked.npy").touch()
    subprocess.run("git init -q && git add -A", shell=True, check=True)
    Path("own/images.npy").touch()
    Path("own/more").mkdir()
    Path("own/served.py").write_text(text)
    cloud.write({"workloads": {"mine": {"module": "own/mine.py", "batch_size": [8]}}})
    done = cloud.tpu("run", "--dry-run")
    assert "own/mine.py has data(): images.npy and 2 more beside it will not be on the machine." in done.out
    for path in ("own/images.npy", "own/served.py"):
        Path(path).unlink()
    Path("own/more").rmdir()
    assert "has data()" not in cloud.tpu("run", "--dry-run").out


WRONG = {
    "accelerator_type: v2-9": "no single machine",
    "accelerator_type: v2-32": "no single machine, and a study measures on one: take v2-8",
    "accelerator_type: v9-8": "v9-8 is not known",
    "accelerator_type: v5litepod-4": "devices.tpu has 8 replicas and a v5litepod-4 4",
    "accelerator_type: v3-8": "devices.tpu.hardware is TPU v2, and a v3-8 is a TPU v3",
    "zone: us-central1": "it needs a zone, such as us-central1-b",
    "project: My Project": "it needs the project's ID",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_config_stops_before_anything_is_made(cloud: Cloud, text: str) -> None:
    cloud.write(**yaml.safe_load(text))
    done = cloud.tpu("run", "--yes")
    assert done.code == 2
    assert WRONG[text] in done.err and len(done.err.splitlines()) == 1
    assert not cloud.api.calls


def test_a_study_that_the_machine_could_not_run_stops_before_anything_is_made(cloud: Cloud, tmp_path: Path) -> None:
    elsewhere = tmp_path / "mine.py"
    elsewhere.write_text("")
    faults = {
        "lies outside": {"workloads": {"mine": {"module": str(elsewhere)}}},
        "set storage.bucket, or data.source: tfds": {
            "data": {"source": "files", "dir": str(tmp_path)},
            "workloads": {"mnist_official": {}},
        },
        "no runs on a TPU": {"devices": {"cpu": {"kind": "cpu"}}},
    }
    for told, config in faults.items():
        cloud.write(config)
        done = cloud.tpu("run", "--yes")
        assert done.code == 2 and told in done.err, done.text
    Path("Snakefile").unlink()
    assert "run this in the project's folder" in cloud.tpu("run", "--yes").err
    assert not cloud.api.calls


def test_a_dry_run_and_nobody_to_ask_make_nothing(cloud: Cloud) -> None:
    done = cloud.tpu("run", "--dry-run")
    assert done.code == 0
    assert "about 4.50 USD an hour (an estimate, on demand: 4 × 1.125 USD, config/prices.csv" in done.out
    refused = cloud.tpu("run")
    assert refused.code == 2 and "add --yes" in refused.err
    assert not cloud.api.calls
