"""The record of a run of each broken model file of broken.yaml gives one clear line."""

import re
from pathlib import Path

import pytest
from beside import beside
from models.broken_runs import measured

OPTIONS = {"rate": 0.01}
BROKEN = beside(__file__)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, tuple[str, str | None]]:
    """Status and reason of a run of each file; one process for each backend."""
    folder = tmp_path_factory.mktemp("broken")
    for name, case in BROKEN.items():
        (folder / f"{name}.py").write_text(case["file"])
    lacking = "lacks_a_backend"
    runs = measured("jax", [str(folder / f"{name}.py") for name in BROKEN if name != lacking], OPTIONS, 32)
    runs |= measured("tensorflow", [str(folder / f"{lacking}.py")], OPTIONS, 32)
    return {Path(file).stem: end for file, end in runs.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_clear_line(name, outcomes):
    status, reason = outcomes[name]
    assert re.search(BROKEN[name]["reason"], reason), reason
    assert "\n" not in reason
    assert status in (("refused", "out_of_memory") if name == "too_large" else ("failed",))
