"""Snakemake's own report: tables and figures with caption, category and labels."""

import pytest
import synthetic
import yaml

from whichdevice.config.load import load_study
from whichdevice.figures import figure_facts
from whichdevice.tables import table_about
from whichdevice.tables.make import TABLES

pytestmark = pytest.mark.slow

CONFIG = {
    "study": "own",
    "data": {"source": "standin"},
    "devices": {"cpu": {"kind": "cpu"}},
    "measure": {"repeats": 2},
    "forecast": {"devices": []},
    "workloads": {"matmul": {"batch_size": [256, 512]}},
}
FIGURE = "breakdown"


def test_it_holds_every_table_and_the_figures_asked_for(project) -> None:
    pytest.importorskip("pygments", reason="Snakemake's report needs pygments")
    project.write(CONFIG)
    study = load_study(yaml.safe_load((project.folder / "study.yaml").read_text()))
    synthetic.write_study(study, project.folder / study.root)
    drawn = f"{study.root}/figures/{FIGURE}.svg"
    made = project.snakemake(drawn, "--rerun-triggers", "mtime")
    assert made.code == 0, made.out
    done = project.snakemake(drawn, "--report", "own.html")
    assert done.code == 0, done.out
    page = (project.folder / "own.html").read_text(encoding="utf-8")
    facts = figure_facts(FIGURE)
    for words in ("Tables", facts.category, facts.title, facts.caption[:60], "numbers with six significant digits"):
        assert words in page
    for name in TABLES:
        assert f"{name}.csv" in page
        assert table_about(name).split("`")[0].split("'")[0] in page
