"""`snakemake compare` is asked for by name, needs to know what with, and is no part of `all`."""

import pytest
import synthetic

from whichdevice.config.model import Device, Workload

pytestmark = pytest.mark.slow

STUDY = {
    "study": "here",
    "data": {"source": "standin"},
    "devices": {"cpu": {"kind": "cpu"}},
    "measure": {"repeats": 1},
    "workloads": {"matmul": {"batch_size": [64]}},
}


@pytest.fixture(autouse=True)
def study(project):
    project.write(STUDY)
    there = synthetic.small_study(devices={"cpu": Device(kind="cpu")}, workloads={"matmul": Workload(batch_size=[64])})
    synthetic.write_study(there, project.folder / "results/there", artefacts=False)


def test_it_comes_after_the_tables_and_into_the_report_of_a_call_that_asks_for_it(project):
    jobs = project.snakemake("-n", "compare", "--config", "against=results/there").jobs
    assert (jobs["measure"], jobs["tables"], jobs["compare"], jobs["report"]) == (1, 1, 1, 0)
    assert project.snakemake("-n", "all", "--config", "against=results/there").jobs["compare"] == 1
    assert "compare" not in project.snakemake("-n", "all").jobs


@pytest.mark.parametrize(
    ("against", "line"),
    [
        ([], "compare: with what? --config against=results/<study>, or a folder of records"),
        (["against=results/gone"], "against: no folder results/gone; paths start where Snakemake runs"),
        (["against=config"], "against: no record.json below config"),
    ],
)
def test_nothing_to_compare_with_is_one_line_before_anything_runs(project, against, line):
    done = project.snakemake("compare", *(["--config", *against] if against else []))
    assert done.code != 0 and done.error == line
