"""Every figure draws from little and from much, and says what it should."""

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
import synthetic

from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Train, Workload
from whichdevice.study.figures import draw, figure_facts, figure_names
from whichdevice.study.results import StudyResults

ROOT = Path(__file__).parents[2]
STUDIES = ("one", "three", "failed", "tiny")


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, StudyResults]:
    """Studies: one failed, one cell, one device with stand-ins, three with files; test_pictures.py has an empty one."""
    root = tmp_path_factory.mktemp("studies")
    one_cell = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads={"mnist_cnn": Workload(batch_size=[1024])},
        measure=Measure(repeats=1), train=Train(epochs=1),
    )  # fmt: skip

    def failing(run: Run, record: Record) -> Record | None:
        return synthetic.failed_record(one_cell, run)

    results: dict[str, StudyResults] = {}
    for name, study, how in [
        ("failed", one_cell, {"change": failing}),
        ("tiny", one_cell, {}),
        ("one", synthetic.full_study(("cpu", "gpu")), {"devices": ["cpu"]}),
        ("three", synthetic.full_study(("cpu", "gpu", "tpu"), epochs=3, repeats=2), {"source": "files"}),
    ]:
        results[name] = synthetic.results(study, root / name, **how)
    return results


def text_of(figure: str, study: StudyResults, out: Path) -> str:
    """Draw a figure and return all text of its SVG."""
    draw(figure, study, out / f"{figure}.svg", out / f"{figure}.png")
    return " ".join(ElementTree.parse(out / f"{figure}.svg").getroot().itertext())


def drawn() -> Iterator[object]:
    """Every figure from every study; those that show something else than the others are not long."""
    for figure, study in product(figure_names(), STUDIES):
        yield pytest.param(figure, study, marks=pytest.mark.slow if study == "one" else pytest.mark.long)


NOTHING = {  # studies in which a figure has nothing to draw
    **dict.fromkeys(("speedups", "worth_it"), ("failed", "tiny", "one")),
    "roofline": ("failed", "tiny"),
    **dict.fromkeys(("training_curves", "cold_start"), ("failed",)),
    "claims": STUDIES,  # without forecasts
}


@pytest.mark.parametrize(("figure", "study"), drawn())
def test_every_figure_draws_from_every_study(figure, study, studies, tmp_path) -> None:
    text = text_of(figure, studies[study], tmp_path)
    assert (tmp_path / f"{figure}.png").exists() == (study not in NOTHING[figure])
    if study in NOTHING[figure]:
        return
    assert figure_facts(figure).title in text
    if study == "one":
        assert "data: stand-in" in text
        assert "not measured: gpu" in text
        for words in SAYS.get(figure, []):
            assert words in re.sub(r"\s+", " ", text)
    if study == "three":
        assert "data: original files" in text


SAYS = {"roofline": ["roof, measured", "roof, sheet", "slope: 20.", "shakespeare_lstm", "bfloat16"]}


def test_the_same_numbers_give_the_same_bytes(studies: dict[str, StudyResults], tmp_path: Path) -> None:
    for turn in "ab":
        text_of("roofline", studies["one"], tmp_path / turn)
    for name in ("roofline.svg", "roofline.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_listing_figures_imports_no_matplotlib_and_drawing_no_framework() -> None:
    code = (
        "import sys; from whichdevice.study.figures import figure_facts, figure_modules, figure_names;"
        "[figure_facts(name) for name in figure_names()]; assert 'matplotlib' not in sys.modules;"
        "import importlib, whichdevice.study.tables, whichdevice.study.report;"
        "[importlib.import_module(name) for name in figure_modules(*figure_names())];"
        "print([name for name in ('tensorflow', 'keras', 'jax', 'torch', 'matplotlib.pyplot') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "scripts")},
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
