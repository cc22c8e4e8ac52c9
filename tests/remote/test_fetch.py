"""A published study is fetched to be shown: its records are merged, nothing is measured, and no code of it is run."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import synthetic
import yaml

from whichdevice.apps.commands.fetch import fetch
from whichdevice.base.errors import StudyError
from whichdevice.study.config.load import read_study
from whichdevice.study.planning.study_plan import plan_study
from whichdevice.study.records.store import merged_records, read_record, write_record
from whichdevice.study.remote.merge import merge_folder
from whichdevice.study.remote.publish import publish
from whichdevice.study.remote.transfer import Place, open_place

ROOT = Path("results/small")
EVIL = """
from pathlib import Path
from whichdevice.models.workloads.matmul import Matmul

Path("ran").touch()


class Evil(Matmul):
    pass
"""


@pytest.fixture
def theirs(working_folder: Path, place: Place) -> Place:
    """Of a published study of a CPU and a GPU."""
    root = Path("theirs/small")
    synthetic.write_study(synthetic.small_study(), root)
    (root / "compiled/v2-2x2").mkdir(parents=True)
    (root / "compiled/v2-2x2/mnist_cnn-float32-b256.json").write_text("{}")
    publish(root, place)
    return place.below("small")


@pytest.fixture
def address(working_folder: Path) -> str:
    """The same in a folder, whose config others can change; beside it and here is `evil.py`."""
    synthetic.write_study(synthetic.small_study(), Path("theirs/small"))
    publish(Path("theirs/small"), open_place("bucket"))
    for file in ("evil.py", "bucket/small/runs/evil.py"):
        Path(file).write_text(EVIL)
    return "bucket/small"


def change(address: str, **keys: Any) -> None:
    path = Path(address) / "config.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | keys))


def plan() -> Any:
    return plan_study(yaml.safe_load((ROOT / "config.yaml").read_text()))


def test_records_artefacts_compiled_records_and_config_come_and_nothing_is_measured(theirs: Place) -> None:
    *_, last = fetch(theirs.address, [])
    assert last == "its report: whichdevice study report --configfile results/small/config.yaml"
    planned = plan()
    assert planned.wanted() == [] and planned.datasets() == []
    records = merged_records(ROOT)
    assert {run.cell.device for run in records} == {"cpu", "gpu"} and len(records) == 8
    for run, path in records.items():
        original = Path("theirs/small/runs") / run.path
        assert {file.relative_to(path.parent): file.read_bytes() for file in path.parent.rglob("*.np*")} == {
            file.relative_to(original): file.read_bytes() for file in original.rglob("*.np*")
        }
        assert read_record(path) == read_record(original / "record.json")
    assert sorted(planned.other_records()) == sorted(path.as_posix() for path in records.values())
    assert (ROOT / "compiled/v2-2x2/mnist_cnn-float32-b256.json").is_file()
    assert read_study(ROOT / "config.yaml") == synthetic.small_study()
    assert "nothing new" in fetch(theirs.address, [])[0]


def test_a_later_fetch_follows_what_is_published(address: str) -> None:
    fetch(address, [])
    first, second = sorted(Path(address).rglob("record.json"))[:2]
    write_record(read_record(first).model_copy(update={"reason": "again"}), first)
    second.unlink()
    fetch(address, [])
    found = merged_records(ROOT).values()
    assert len(found) == 7 and sum(read_record(path).reason == "again" for path in found) == 1


def test_what_the_study_had_merged_itself_is_shown_too(working_folder: Path) -> None:
    study, root = synthetic.small_study(), Path("theirs/small")
    synthetic.write_study(study, root, devices=["cpu"])
    synthetic.write_study(study, Path("other"), devices=["gpu"])
    merge_folder(root, "other", {"gpu": "a100"}, study)
    publish(root, open_place("bucket"))
    fetch("bucket/small", [])
    assert {run.cell.device for run in merged_records(ROOT)} == {"cpu", "a100"}


def test_own_records_and_those_of_another_address_are_in_the_way_and_stay(address: str) -> None:
    fetch(address, [])
    shutil.copytree("bucket", "copy")
    with pytest.raises(StudyError, match="results/small holds other records; move it away"):
        fetch("copy/small", [])
    shutil.rmtree("results")
    synthetic.write_study(synthetic.small_study(), ROOT)
    before = {path: path.read_bytes() for path in Path("results").rglob("*.json")}
    with pytest.raises(StudyError, match="results/small holds other records"):
        fetch(address, [])
    assert {path: path.read_bytes() for path in before} == before


def test_where_nothing_was_published_is_one_line(working_folder: Path) -> None:
    with pytest.raises(StudyError, match="fetch: no study was published at nowhere"):
        fetch("nowhere", [])


@pytest.mark.parametrize("text", ["", "[", "- 1", "study: ../evil", "studdy: x"])
def test_a_garbled_config_is_one_line(address: str, text: str) -> None:
    (Path(address) / "config.yaml").write_text(text)
    with pytest.raises(StudyError) as caught:
        fetch(address, [])
    assert "\n" not in str(caught.value)
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "keys",
    [
        {"workloads": {"mnist_cnn": {"module": "evil.py"}}},
        {"workloads": {"evil.py": {}}},
    ],
    ids=["as a module", "as a name"],
)
def test_a_python_file_that_their_config_names_is_not_run(address: str, keys: dict[str, Any]) -> None:
    change(address, **keys)
    with pytest.raises(StudyError, match=r"names the Python code 'evil\.py', which would be run; .* --allow evil\.py$"):
        fetch(address, [])
    assert not Path("ran").exists() and not Path("results").exists()


def test_a_python_file_that_was_looked_at_may_be_named(address: str) -> None:
    change(address, workloads={"own": {"module": "evil.py", "batch_size": [64]}})
    fetch(address, ["evil.py"])
    assert read_study(ROOT / "config.yaml").workloads["own"].module == "evil.py"


@pytest.mark.parametrize("key", ["storage", "against", "only", "retry"])
def test_their_config_names_no_place_and_narrows_nothing(address: str, key: str) -> None:
    change(address, **{key: None})
    with pytest.raises(StudyError, match=rf"'{key}' is no key of a published study"):
        fetch(address, [])


def test_other_files_there_do_not_come(address: str) -> None:
    for name in ("compiled/v2-2x2/.hidden.json", "logs/a.log", "report.html", "evil.py"):
        path = Path(address) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    fetch(address, [])
    assert {path.name for path in ROOT.rglob("*") if path.is_file() and path.suffix not in (".npy", ".npz")} == {
        "record.json",
        "config.yaml",
        "source.json",
    }
