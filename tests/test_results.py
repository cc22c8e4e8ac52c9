"""Artefacts are read only in their own form, and damaged ones are left out."""

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic_artefacts import forecast, predictions

from whichdevice.config.model import Device, Measure, Train, Workload
from whichdevice.errors import StudyError
from whichdevice.figures import draw, draw_all
from whichdevice.results import FORMS, StudyResults, read_artefact
from whichdevice.tables.make import write_tables

ROOT = Path(__file__).parents[1]
FIGURES = {
    "predictions": ["confusion_matrix", "error_gallery"],
    "forecast": ["weather_forecast"],
    "samples": ["text_samples"],
}
WORKLOADS = {
    "mnist_cnn": Workload(batch_size=[1024]),
    "weather_gru": Workload(batch_size=[8]),
    "shakespeare_lstm": Workload(batch_size=[32]),
}


def packed(arrays: dict[str, Any]) -> bytes:
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)
    return held.getvalue()


def bomb(_: dict[str, Any]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("labels.npy", bytes(2**28 + 1))
    return held.getvalue()


def huge(_: dict[str, Any]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (2**60,)})
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("labels.npy", header.getvalue())
    return held.getvalue()


def with_(**changes: Any) -> Callable[[dict[str, Any]], bytes]:
    return lambda arrays: packed({**arrays, **changes})


def without(name: str) -> Callable[[dict[str, Any]], bytes]:
    return lambda arrays: packed({key: value for key, value in arrays.items() if key != name})


WRONG = {
    "predictions": {
        "no zip": lambda _: b"PK damaged",
        "bomb": bomb,
        "huge": huge,
        "no labels": without("labels"),
        "label beyond the classes": with_(labels=np.full(10_000, 200, np.uint8)),
        "prediction beyond the classes": with_(predicted=np.full(10_000, 10, np.uint8)),
        "index beyond the images": with_(gallery_index=np.full(100, 10_000)),
        "other pictures": with_(gallery_images=np.zeros((100, 32, 32), np.uint8)),
        "text for numbers": with_(probabilities=np.full((10_000, 10), "x")),
        "unprintable class": with_(class_names=np.array(["\x01"] * 10)),
        "too many classes": with_(class_names=np.array(["x"] * 10_000), probabilities=np.zeros((10_000, 10_000), "f2")),
    },
    "forecast": {
        "no units": without("units"),
        "fewer signals": with_(predicted=np.zeros((900, 2))),
        "times beyond any calendar": with_(times=np.full(900, 2**62)),
        "warm-up of nothing": with_(warm_up=np.zeros(0)),
        "no time at all": with_(times=np.zeros(0, int), truth=np.zeros((0, 3)), predicted=np.zeros((0, 3))),
    },
    "samples": {
        "no epoch": lambda _: b'[{"texts": ["a"]}]',
        "a number": lambda _: b"7",
        "nested": lambda _: b"[" * 100_000,
        "half a surrogate pair": lambda _: b'[{"epoch": 1, "texts": ["\\ud800"]}]',
    },
}
VALID = {
    "predictions": predictions("mnist", np.random.default_rng(1)),
    "forecast": forecast(np.random.default_rng(1)),
    "samples": {},
}
CASES = [(name, case) for name, cases in WRONG.items() for case in cases]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_file_of_another_form_is_refused_in_one_line(name: str, case: str, tmp_path: Path) -> None:
    study = synthetic.small_study()
    _, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    content = WRONG[name][case](VALID[name])
    (paths[0].parent / "odd").write_bytes(content)
    with pytest.raises(StudyError, match=f"odd: is no file of {name}: ") as caught:
        read_artefact(paths[0], name, "odd", hashlib.sha256(content).hexdigest())
    assert len(str(caught.value).splitlines()) == 1


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with every kind of artefact, learned twice."""
    folder = tmp_path_factory.mktemp("study")
    asked = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads=WORKLOADS, measure=Measure(repeats=2),
        train=Train(epochs=2, repeats=2),
    )  # fmt: skip
    config, paths = synthetic.write_study(asked, folder)
    write_tables(config, paths, ROOT / "config/published.csv", folder / "tables")
    return folder


@pytest.mark.parametrize("name", FORMS)
def test_a_flipped_bit_leaves_a_run_out_and_the_next_best_is_drawn(name: str, study: Path, tmp_path: Path) -> None:
    results = StudyResults(study / "config.yaml", study / "tables")
    best = next(iter(results.best_artefacts(name))).run
    path = next(file for file in Path(best["record"]).parent.glob(f"{name}.*"))
    whole = path.read_bytes()
    path.write_bytes(bytes([*whole[:100], whole[100] ^ 4, *whole[101:]]))
    try:
        told = draw_all(FIGURES[name], study / "tables", study / "config.yaml", tmp_path)
        again = StudyResults(study / "config.yaml", study / "tables")
        assert [entry.run["run"] for entry in again.best_artefacts(name)] != [best["run"]]
        assert list(again.damaged_artefacts()) == [best["run"]]
    finally:
        path.write_bytes(whole)
    assert len(told) == 1 and told[0].startswith("left out of the figures: ")
    assert told[0].endswith(f"{path.name}: differs from its checksum in the record")


@pytest.mark.parametrize("name", FORMS)
def test_where_all_are_damaged_the_figure_is_an_empty_one(name: str, study: Path, tmp_path: Path) -> None:
    kept = {path: path.read_bytes() for path in study.rglob(f"{name}.*")}
    try:
        for path in kept:
            path.write_bytes(b"")
        for figure in FIGURES[name]:
            draw(figure, StudyResults(study / "config.yaml", study / "tables"), tmp_path / "a.svg", tmp_path / "a.png")
    finally:
        for path, content in kept.items():
            path.write_bytes(content)


def test_every_valid_file_is_read(study: Path) -> None:
    for name in FORMS:
        assert next(iter(StudyResults(study / "config.yaml", study / "tables").best_artefacts(name)))
    assert json.loads(next(study.rglob("samples.json")).read_text(encoding="utf-8"))
