"""Programs for other devices are compiled as users have them compiled."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def optimised() -> Iterator[None]:
    """XLA's compiler with all its optimisations, which the other tests do without."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "0")
        yield
