"""The files in config/ say what the typed code says, and editors accept what loading accepts."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from whichdevice.config.load import load_study, resolved
from whichdevice.config.model import Study, with_self_check
from whichdevice.config.schema import FULL_NOTES, PUBLISHED_NOTES, full, generated_files, published, schema

STUDIES = {"config.yaml": Study(), "full.yaml": full(), "published.yaml": published()}


@pytest.mark.parametrize("name", generated_files())
def test_generated_files_have_not_drifted(name: str, project_root: Path) -> None:
    written = (project_root / "config" / name).read_text(encoding="utf-8")
    assert written == generated_files()[name], "run `make config`"


@pytest.mark.parametrize("name", STUDIES)
def test_a_commented_study_reads_back_as_the_typed_one(name: str) -> None:
    assert resolved(load_study(yaml.safe_load(generated_files()[name]))) == with_self_check(STUDIES[name])


@pytest.mark.parametrize("name", STUDIES)
def test_a_commented_study_fits_a_page_and_explains_every_key(name: str) -> None:
    text = generated_files()[name]
    assert max(map(len, text.splitlines())) <= 120
    for key, field in Study.model_fields.items():
        assert f"# {field.description}\n{key}:" in text


@pytest.mark.parametrize(("study", "notes"), [(full(), FULL_NOTES), (published(), PUBLISHED_NOTES)])
def test_notes_name_keys_that_exist(study: Study, notes: dict[str, str]) -> None:
    for place in notes:
        key, inner = place.split(".")
        section = getattr(study, key)
        assert inner in section if isinstance(section, dict) else hasattr(section, inner)


@pytest.mark.parametrize("name", STUDIES)
def test_the_schema_accepts_the_studies(name: str) -> None:
    jsonschema.validate(yaml.safe_load(generated_files()[name]), schema())


def test_the_schema_accepts_the_short_forms() -> None:
    text = "run_on: cpu\nmeasure:\nworkloads: {mnist_cnn: , matmul: {batch_size: 512, precision: bfloat16}}"
    jsonschema.validate(yaml.safe_load(text), schema())


@pytest.mark.parametrize("text", ["sede: 1", "workloads: {matmul: {batch_size: -1}}", "data: {source: tdfs}"])
def test_the_schema_refuses_what_loading_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema())
