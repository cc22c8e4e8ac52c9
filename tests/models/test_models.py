"""Small models of the kinds that people bring: each is measured, many in one process."""

import os
from pathlib import Path

import pytest
from backends.scenario import request_for, run_with_keras, variables_for
from models.broken_runs import measured
from models.catalogue import CASES, table

FOLDER = Path(__file__).parent
SECONDS = 1800.0
SMALL_BATCH = 2  # enough for batch statistics
OK = ("ok", None)
SAVE = """
import keras
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2, activation="softmax")])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.save("saved.keras")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A working folder with the models, their packages and a saved one."""
    place = tmp_path_factory.mktemp("models")
    for path in FOLDER.iterdir():
        if not path.name.startswith(("test_", "catalogue", "__")):
            (place / path.name).symlink_to(path)
    before = Path.cwd()
    os.chdir(place)
    yield place
    os.chdir(before)


def saved(backend: str) -> None:
    Path("save.py").write_text(SAVE, encoding="utf-8")
    assert run_with_keras(["", "save.py"], variables_for(request_for(backend=backend))).returncode == 0


LIBRARIES = "keras.applications"
QUICK = [case.module for case in CASES if case.quick and "jax" in case.backends]


def own_cases(backend: str) -> list[str]:
    return [case.module for case in CASES if backend in case.backends and not case.module.startswith(LIBRARIES)]


@pytest.fixture(scope="module")
def on_jax(folder) -> dict[str, tuple[str, str | None]]:
    saved("jax")
    return measured("jax", QUICK, {}, SMALL_BATCH, SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("module", QUICK)
def test_a_model_of_each_kind_trains_on_jax(module, on_jax):
    assert on_jax[module] == OK


@pytest.mark.long
@pytest.mark.parametrize("backend", ["tensorflow", "jax", pytest.param("torch", marks=pytest.mark.needs("torch"))])
def test_a_model_of_each_kind_trains_on(backend, folder):
    saved(backend)
    ends = measured(backend, own_cases(backend), {}, SMALL_BATCH, SECONDS)
    assert ends == dict.fromkeys(ends, OK)


@pytest.mark.long
@pytest.mark.parametrize("module", [case.module for case in CASES if case.module.startswith(LIBRARIES)])
def test_a_model_of_a_library_trains(module, folder):
    for backend in ("jax", "tensorflow", "torch"):
        assert measured(backend, [module], {"image_size": 32}, SMALL_BATCH, SECONDS) == {module: OK}


def test_the_table_of_the_docs_is_made_of_these_models(project_root):
    page = (project_root / "docs/reference/model-file.md").read_text(encoding="utf-8")
    assert table() in page
    assert all((FOLDER / case.module).is_file() for case in CASES if case.module.endswith(".py"))
