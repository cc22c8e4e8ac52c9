"""Rows and texts of a test, from the YAML file beside it that has its name: of test_targets.py that is targets.yaml."""

from pathlib import Path
from typing import Any

import yaml


def beside(file: str) -> Any:
    """Return what that file holds; `file` is the test's own `__file__`."""
    path = Path(file)
    return yaml.safe_load(path.with_name(f"{path.stem.removeprefix('test_')}.yaml").read_text(encoding="utf-8"))
