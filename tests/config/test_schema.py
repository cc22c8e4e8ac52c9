"""The files in config/ say what the typed code says, and editors accept what loading accepts."""

from pathlib import Path

import jsonschema
import pytest
import yaml

from whichdevice.base.files import CONFIG
from whichdevice.study.config.load import read_study
from whichdevice.study.config.schema import generated_files, schema


@pytest.mark.parametrize("name", generated_files())
def test_generated_files_have_not_drifted(name: str, project_root: Path) -> None:
    written = (project_root / "config" / name).read_text(encoding="utf-8")
    assert written == generated_files()[name], "run `make config`"


@pytest.mark.parametrize("name", ["full.yaml", "published.yaml", "large.yaml"])
def test_the_studies_that_ship_are_right_and_the_schema_accepts_them(name: str) -> None:
    assert f"{read_study(CONFIG / name).study}.yaml" == name
    jsonschema.validate(yaml.safe_load((CONFIG / name).read_text(encoding="utf-8")), schema())


def test_the_schema_accepts_the_default_study() -> None:
    jsonschema.validate(yaml.safe_load(generated_files()["config.yaml"]), schema())


@pytest.mark.parametrize("text", ["sede: 1", "workloads: {matmul: {batch_size: -1}}", "data: {source: tdfs}"])
def test_the_schema_refuses_what_loading_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema())
