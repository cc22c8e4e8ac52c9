"""A stranger's record is taken for nothing until every name in it has been checked."""

import pytest
import synthetic

from whichdevice.errors import StudyError
from whichdevice.records import foreign
from whichdevice.records.foreign import foreign_record, foreign_run, on_device
from whichdevice.records.schema import Artefact
from whichdevice.study_runs import study_runs

STUDY = synthetic.small_study()
RUN = study_runs(STUDY)[0]
NAME = f"runs/{RUN.path}/record.json"


def content(**changes) -> bytes:
    return synthetic.record_of(STUDY, RUN).model_copy(update=changes).model_dump_json().encode()


def test_an_honest_one_is_read_and_can_be_renamed():
    assert foreign_run(NAME) == RUN
    record = on_device(foreign_record(content(), RUN, NAME), "laptop")
    assert record.run == RUN.path.replace("cpu/", "laptop/", 1) and record.asked.device == "laptop"


@pytest.mark.parametrize(
    "name",
    [
        "record.json",
        "runs/../mnist_cnn/tensorflow-float32-b256/r1/record.json",
        "runs/cpu/../tensorflow-float32-b256/r1/record.json",
        "runs/.cpu/mnist_cnn/tensorflow-float32-b256/r1/record.json",
        "runs/c<pu>/mnist_cnn/tensorflow-float32-b256/r1/record.json",
        f"runs/{'c' * 65}/mnist_cnn/tensorflow-float32-b256/r1/record.json",
        "runs/cpu/mnist_cnn/tensorflow-float32-b0256/r1/record.json",
        "runs/cpu/mnist_cnn/tensorflow-float32-b256-loop=../r1/record.json",
        "runs/cpu/mnist_cnn/tensorflow-float32-b256-fraction=x/r1/record.json",
        "runs/cpu/mnist_cnn/tensorflow-float32-b256/r0/record.json",
        "runs/cpu/mnist_cnn/tensorflow-float32-b256/r1/other.json",
        "runs/cpu\n/mnist_cnn/tensorflow-float32-b256/r1/record.json",
        "runs/cpu/mnist_cnn/tensorflow-float32-b256\n/r1/record.json",
    ],
)
def test_a_path_that_is_not_exactly_a_runs_is_none(name):
    assert foreign_run(name) is None


@pytest.mark.parametrize(
    "file",
    [
        "../x",
        "/etc/passwd",
        "a/../../x",
        ".hidden",
        "record.json",
        "a b",
        "a\\b",
        "",
        "a/",
        "x" * 400,
        "a\n",
        "a/record.json",
    ],
)
def test_an_artefact_stays_beside_its_record(file):
    with pytest.raises(StudyError, match="is no file beside the record"):
        foreign_record(content(artefacts={"a": Artefact(file=file, sha256="0")}), RUN, NAME)


def test_an_artefact_may_lie_in_a_folder_of_its_own():
    file = "plugins/profile/2026_11_21/host.xplane.pb"
    assert foreign_record(content(artefacts={"a": Artefact(file=file, sha256="0")}), RUN, NAME)


@pytest.mark.parametrize(
    "changes", [{"run": "gpu/x/y/r1"}, {"asked": synthetic.record_of(STUDY, study_runs(STUDY)[1]).asked}]
)
def test_a_record_is_of_the_run_that_its_path_says(changes):
    with pytest.raises(StudyError, match="says that it is of another run than its path"):
        foreign_record(content(**changes), RUN, NAME)


@pytest.mark.parametrize("name", ["step_time", "throughput", "flops_per_second", "epoch_time", "seconds", "steps"])
def test_a_number_that_its_windows_do_not_give_was_edited(name):
    steady = synthetic.record_of(STUDY, study_runs(STUDY)[0]).steady
    changed = steady.model_copy(update={name: getattr(steady, name) * 2})
    with pytest.raises(StudyError, match=f"was edited: steady.{name} is .*, its windows give"):
        foreign_record(content(steady=changed), RUN, NAME)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"schema_version": 2}'])
def test_garbage_is_one_line(text):
    with pytest.raises(StudyError, match="unreadable") as caught:
        foreign_record(text, RUN, NAME)
    assert "\n" not in str(caught.value)


def test_a_huge_one_is_not_parsed(monkeypatch):
    monkeypatch.setattr(foreign, "MOST_BYTES", 10)
    with pytest.raises(StudyError, match="is no record"):
        foreign_record(content(), RUN, NAME)
