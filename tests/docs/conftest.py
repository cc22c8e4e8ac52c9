"""The modules of docs/ that write its generated parts."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="session")
def generate() -> ModuleType:
    """The generator of reference pages and generated parts."""
    sys.path.append(str(DOCS))
    return importlib.import_module("generate")


@pytest.fixture(scope="session")
def scorecard(generate: ModuleType) -> ModuleType:
    """What makes tables and picture of the results."""
    return importlib.import_module("scorecard")


@pytest.fixture(scope="session")
def records(generate: ModuleType) -> ModuleType:
    """What keeps the records of the results."""
    return importlib.import_module("records")
