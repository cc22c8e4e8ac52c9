"""Programs for other devices are compiled as users have them compiled."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))  # `fit` is no part of the package


@pytest.fixture(autouse=True, scope="session")
def optimised() -> Iterator[None]:
    """XLA's compiler with all its optimisations, which the other tests do without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "0")
        yield
