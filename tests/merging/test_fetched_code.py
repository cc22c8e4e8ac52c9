"""No Python file is run because a study from elsewhere names it, and none that lies below results/."""

import zipfile
from pathlib import Path

import pytest
import synthetic
import yaml

from whichdevice.errors import StudyError
from whichdevice.merging.published import published_study
from whichdevice.planning.study_plan import plan_study
from whichdevice.storage.place import open_place
from whichdevice.storage.publish import publish
from whichdevice.workloads import workload_class

EVIL = """
from pathlib import Path
from whichdevice.workloads.matmul import Matmul

Path("ran").touch()


class Evil(Matmul):
    pass
"""


@pytest.fixture
def address(working_folder) -> str:
    """Of a published study, whose config others can change; beside it lies `evil.py`, which also is here."""
    synthetic.write_study(synthetic.small_study(), Path("theirs/small"))
    publish(Path("theirs/small"), open_place("bucket"))
    for place in ("evil.py", "bucket/small/runs/evil.py"):
        Path(place).write_text(EVIL)
    return "bucket/small"


def change(address: str, **keys) -> None:
    path = Path(address) / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | keys))


NAMED = {
    "as a module": {"workloads": {"mnist_cnn": {"module": "evil.py"}}},
    "as a name": {"workloads": {"evil.py": {}}},
    "as a served model": {"workloads": {"served": {"module": "serve", "model": "evil.py"}}},
    "to check itself": {"self_check": {"workload": "evil.py"}},
}


@pytest.mark.parametrize("keys", NAMED.values(), ids=NAMED.keys())
def test_a_file_that_only_their_config_names_is_not_run(address, keys):
    change(address, **keys)
    with pytest.raises(StudyError, match=r"'evil.py' is a Python file, .* your own config names") as caught:
        plan_study({"results_from": address})
    assert "\n" not in str(caught.value)
    assert not Path("ran").exists() and not Path("results").exists()


def test_a_file_that_was_named_later_is_not_run_either(address):
    published_study(address)
    Path("results/small/config.yaml").write_bytes((Path(address) / "config.yaml").read_bytes())
    change(address, **NAMED["as a module"])
    with pytest.raises(StudyError, match="is a Python file"):
        published_study(address)
    Path("results/small/config.yaml").write_bytes((Path(address) / "config.yaml").read_bytes())
    with pytest.raises(StudyError, match="is a Python file"):
        plan_study({"results_from": address}, refresh=False)
    assert not Path("ran").exists()


def test_one_that_the_own_config_names_too_is(address):
    change(address, workloads={"own": {"module": "evil.py", "batch_size": [64]}})
    plan = plan_study({"results_from": address, "workloads": {"mine": {"module": "evil.py"}}})
    assert plan.study.workloads["own"].module == "evil.py"


@pytest.mark.parametrize("module", ["results/small/runs/evil.py", "./results/../results/evil.py", "linked.py"])
def test_a_file_below_results_is_never_run(working_folder, module):
    for place in ("results/small/runs/evil.py", "results/evil.py"):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
        Path(place).write_text(EVIL)
    Path("linked.py").symlink_to("results/evil.py")
    with pytest.raises(StudyError, match=r"lies below results/, .* never run"):
        workload_class(module)
    with pytest.raises(StudyError, match="lies below results/"):
        plan_study({"workloads": {"own": {"module": module}}})
    assert not Path("ran").exists()


@pytest.mark.parametrize("key", ["storage", "merge", "against", "results_from", "only", "retry"])
def test_their_config_names_no_place_and_narrows_nothing(address, key):
    change(address, **{key: None})
    with pytest.raises(StudyError, match=rf"'{key}' is no key of a published study"):
        published_study(address)


def test_a_record_leaves_the_results_under_no_name(working_folder):
    synthetic.write_study(synthetic.small_study(), Path("small"))
    record = sorted(Path("small/runs").rglob("record.json"))[0]
    run = record.relative_to("small/runs").as_posix()
    with zipfile.ZipFile("small.zip", "w") as archive:
        archive.write("small/config.yaml", "config.yaml")
        for name in (f"runs/{run}", f"runs/../../../out/{run}", f"merged/../../../away/{run}"):
            archive.writestr(name, record.read_bytes())
    published_study("small.zip")
    found = {path.relative_to(working_folder.parent).parts[1] for path in working_folder.parent.rglob(run)}
    assert found == {"small", "results"}


def test_a_record_of_many_megabytes_is_not_fetched(address, monkeypatch):
    monkeypatch.setattr("whichdevice.merging.published.MOST_RECORD_BYTES", 100)
    with pytest.raises(StudyError, match="is no record"):
        published_study(address)
    assert not list(Path("results").rglob("record.json"))
