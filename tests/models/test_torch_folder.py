"""A folder of PyTorch scripts, each with what is found in it: `scripts/torch/expected.yaml`."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from models.conftest import run_after_import
from needs import require

require("torch")

from whichdevice.base.files import package_first

FOLDER = Path(__file__).parent / "scripts" / "torch"
EXPECTED = yaml.safe_load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))
CLOSE = 0.02  # of the operations by hand


def recorded(name: str, folder: Path, long: float = 1e9) -> dict[str, Any]:
    """What a script shows that runs in a process of its own; `long` are seconds of a batch that is taken down once."""
    program = ["", str(Path(__file__).with_name("recorded_script.py")), str(FOLDER / name), str(long)]
    done = run_after_import("torch", program, os.environ | package_first(), folder=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_scripts_batch_amounts_and_operations(name: str, tmp_path: Path) -> None:
    expected, found = EXPECTED[name], recorded(name, tmp_path)
    by_hand = eval(str(expected.pop("operations", "0")))  # arithmetic of the file beside
    assert {key: found.get(key) for key in expected} == expected
    assert found.get("operations", 0) == pytest.approx(by_hand, rel=CLOSE)
    if found.get("other"):  # the same run also recorded another batch
        assert found["other"][1] / found["operations"] == pytest.approx(found["other"][0] / found["batch"], rel=CLOSE)


@pytest.mark.slow
def test_of_long_batches_that_are_summed_equal_ones_are_taken_down_once(tmp_path: Path) -> None:
    whole, shortened = (recorded("heavy.py", tmp_path, long) for long in (1e9, 0.0))
    assert shortened == whole
