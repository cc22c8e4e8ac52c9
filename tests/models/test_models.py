"""Small models of the kinds that people bring: each is tried, many in one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from models.catalogue import CASES, table

from whichdevice.measure.trying.trial import Tried, try_on
from whichdevice.models.loading import Model

FOLDER = Path(__file__).parent
SECONDS = 300.0
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


def tried(backend: str, modules: list[str], **options) -> dict[str, Tried]:
    models = [*map(Model.read, modules)]
    return dict(zip(modules, try_on(backend, models, "float32", options, SECONDS, Path("try.log")), strict=True))


def saved(backend: str) -> None:
    environment = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-c", SAVE], env=environment, check=True, capture_output=True)


LIBRARIES = ("keras.applications", "keras_hub")
QUICK = [case.module for case in CASES if case.quick and "jax" in case.backends]


def own_cases(backend: str) -> list[str]:
    return [case.module for case in CASES if backend in case.backends and not case.module.startswith(LIBRARIES)]


@pytest.fixture(scope="module")
def on_jax(folder) -> dict[str, Tried]:
    saved("jax")
    return tried("jax", QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("module", QUICK)
def test_a_model_of_each_kind_trains_on_jax(module, on_jax):
    found = on_jax[module]
    assert (found.status, found.reason) == ("ok", None)
    assert None not in found.parts["losses"]["of_steps"]


@pytest.mark.slow
def test_what_a_step_calls_is_what_the_model_has_of_its_own(on_jax):
    assert on_jax["own_step_jax.py"].parts["model"]["step"] == ["train_step"]
    assert on_jax["vae.py"].parts["model"]["step"] == ["compute_loss"]
    assert on_jax["tabular.py"].parts["model"]["step"] == []


@pytest.mark.slow
def test_layers_with_a_number_format_of_their_own_are_named(on_jax):
    assert on_jax["short_layers.py"].parts["model"]["precision"] == "1 layers in bfloat16 (short), not in float32"
    assert on_jax["tabular.py"].parts["model"]["precision"] is None


@pytest.mark.long
@pytest.mark.parametrize("backend", ["tensorflow", "jax", pytest.param("torch", marks=pytest.mark.needs("torch"))])
def test_a_model_of_each_kind_trains_on(backend, folder):
    saved(backend)
    for module, found in tried(backend, own_cases(backend)).items():
        assert (module, found.status, found.reason) == (module, "ok", None)


@pytest.mark.long
def test_a_gan_with_a_step_of_its_own_trains_through_fit(folder):
    found = tried("tensorflow", ["gan.py"])["gan.py"]
    assert (found.status, found.reason) == ("ok", None)
    assert found.parts["model"]["step"] == ["train_step", "compile"]


@pytest.mark.long
@pytest.mark.parametrize("module", [case.module for case in CASES if case.module.startswith(LIBRARIES)])
def test_a_model_of_a_library_trains(module, folder):
    options = {"image_size": 32} if "applications" in module else {}
    for backend in ("jax", "tensorflow", "torch"):
        found = tried(backend, [module], **options)[module]
        assert (backend, found.status, found.reason) == (backend, "ok", None)


def test_the_table_of_the_docs_is_made_of_these_models(project_root):
    page = (project_root / "docs/reference/model-file.md").read_text(encoding="utf-8")
    assert table() in page
    assert all((FOLDER / case.module).is_file() for case in CASES if case.module.endswith(".py"))
