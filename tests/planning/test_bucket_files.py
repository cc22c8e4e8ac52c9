"""What a bucket carries between machines that share no file system."""

import os
from pathlib import Path

import pytest

from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.planning.bucket_files import bind_study, bring, files_to_send, share_results


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Stored:
    """A file in a bucket."""

    def __init__(self, path: Path, content: str | None, fault: str = "") -> None:
        self.path, self.content, self.fault = path, content, fault

    def exists(self) -> bool:
        if self.fault:
            raise RuntimeError(self.fault)
        return self.content is not None

    def mtime(self) -> float:
        return 1000.0

    def retrieve_object(self) -> None:
        assert self.content is not None
        self.path.write_text(self.content, encoding="utf-8")


def test_the_storage_s_copies_are_the_results_themselves(here: Path) -> None:
    share_results(Path(".snakemake/storage/gcs/bucket/prefix/results"))
    share_results(Path(".snakemake/storage/gcs/bucket/prefix/results"))
    Path(".snakemake/storage/gcs/bucket/prefix/results/a").write_text("1", encoding="utf-8")
    assert Path("results/a").read_text(encoding="utf-8") == "1"


def test_copies_of_an_earlier_storage_are_not_hidden(here: Path) -> None:
    Path("copies/results").mkdir(parents=True)
    with pytest.raises(StudyError, match="copies/results is in the way"):
        share_results(Path("copies/results"))


def test_a_study_belongs_to_one_bucket(here: Path) -> None:
    study = Study()
    bind_study(study, "gs://one")
    bind_study(study, "gs://two")  # nothing measured yet
    record = Path(study.root) / "runs/cpu/matmul/jax-float32-b64/r1/record.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}", encoding="utf-8")
    bind_study(study, "gs://two")
    with pytest.raises(StudyError, match=r"holds those of gs://two; take another study name for gs://one"):
        bind_study(study, "gs://one")


def test_an_earlier_copy_is_replaced_and_a_later_one_stays(here: Path) -> None:
    for name, age in {"earlier": 999.0, "same": 1000.0, "later": 1001.0}.items():
        Path(name).write_text("mine", encoding="utf-8")
        os.utime(name, (age, age))
    files = {Path(name): Stored(Path(name), "theirs") for name in ("earlier", "same", "later")}
    bring(files, replace=False)
    assert Path("earlier").read_text(encoding="utf-8") == "mine"
    bring(files)
    assert {path.name: path.read_text(encoding="utf-8") for path in files} == {
        "earlier": "theirs",
        "same": "mine",
        "later": "mine",
    }
    assert Path("earlier").stat().st_mtime == 1000.0


def test_only_what_is_missing_is_fetched_and_as_old_as_it_was(here: Path) -> None:
    Path("have").write_text("mine", encoding="utf-8")
    files = {Path(name): Stored(Path(name), "theirs") for name in ("have", "deep/lack")}
    bring({**files, Path("nowhere"): Stored(Path("nowhere"), None)})
    assert Path("have").read_text(encoding="utf-8") == "mine"
    assert Path("deep/lack").read_text(encoding="utf-8") == "theirs"
    assert Path("deep/lack").stat().st_mtime == 1000.0
    assert not Path("nowhere").exists()


def test_a_bucket_that_cannot_be_read_is_one_line(here: Path) -> None:
    with pytest.raises(StudyError, match=r"^cannot read the bucket: 403 no access$"):
        bring({Path("a"): Stored(Path("a"), "1", fault="403\nno access")})


def test_own_workloads_and_sheets_are_sent_along(here: Path) -> None:
    (here / "config").mkdir()
    (here / "config/hardware.csv").touch()
    workloads = {
        "mine": {"module": "own/mine.py"},
        "matmul": {},
        "served": {"module": "serve", "model": "own/served.py"},
    }
    study = Study.model_validate({"workloads": workloads, "prices": "own/prices.csv"})
    sheets = ["config/hardware.csv", "own/prices.csv"]
    assert files_to_send(study, here) == ["results/quick/config.yaml", *sheets, "own/mine.py", "own/served.py"]
