"""What a study is compared with is there, holds records and is not the study itself, or one line says so."""

from pathlib import Path

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.study.config.load import load_study
from whichdevice.study.planning.sources import against_records


def records(**config: object) -> list[Path]:
    """The records that a call names."""
    return against_records(load_study({"study": "here", **config}))


@pytest.mark.usefixtures("working_folder")
def test_what_cannot_be_compared_with_is_one_line() -> None:
    with pytest.raises(StudyError, match=r"^compare: with what\? --config against=results/<study>, or a folder"):
        records()
    with pytest.raises(StudyError, match=r"^against: no folder results/gone; paths start where Snakemake runs$"):
        records(against="results/gone")
    with pytest.raises(
        StudyError, match=r"^against: fetch it first: python -m whichdevice fetch gs://bucket/there, then"
    ):
        records(against="gs://bucket/there")
    Path("results/empty/runs").mkdir(parents=True)
    with pytest.raises(StudyError, match=r"^against: no record\.json below results/empty$"):
        records(against="results/empty")
    Path("results/here/runs").mkdir(parents=True)
    for own in ("results/here", "results/../results/here/runs"):
        with pytest.raises(StudyError, match=r"^against: \S+ is this study itself"):
            records(against=own)
    for around in ("results", ".", "results/../results"):
        with pytest.raises(StudyError, match=r"^against: \S+ holds this study itself"):
            records(against=around)


@pytest.mark.usefixtures("working_folder")
def test_another_study_is_all_its_records() -> None:
    _, paths = synthetic.write_study(synthetic.small_study(), Path("results/there"), artefacts=False)
    assert records(against="results/there") == sorted(paths)
