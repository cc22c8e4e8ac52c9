"""A folder of PyTorch scripts, each with what is found in it: `scripts/torch/expected.yaml`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from needs import require

require("torch")

from whichdevice.base.files import package_first

FOLDER = Path(__file__).parent / "scripts" / "torch"
EXPECTED = yaml.safe_load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))
CLOSE = 0.02  # of the operations by hand
RECORD = """
import json, os, sys
from pathlib import Path
from whichdevice.base.errors import StudyError
from whichdevice.models.script import watch_torch
from whichdevice.models.script.run import ScriptRun
watch_torch.LONG = float(sys.argv[2])
try:
    script = ScriptRun(Path(sys.argv[1])).result([])
except StudyError as error:
    print(json.dumps({"error": str(error)}))
else:
    found, recorded = script.found, script.recorded
    of = lambda work: sum(item[2] * item[4] for item in work["items"])
    other = recorded.other and (recorded.other[0], of(recorded.other[1]["work"]))
    print(json.dumps({
        "batch": found.batch_size, "examples": found.examples, "epochs": found.epochs, "unknown": found.unknown,
        "steps": recorded.steps, "operations": recorded.trace.work.operations, "notes": found.notes, "other": other,
        "kernels": recorded.trace.work.kernels,
    }))
sys.stdout.flush()
os._exit(0)
"""


def recorded(name: str, folder: Path, long: float = 1e9) -> dict[str, Any]:
    """What a script shows that runs in a process of its own; `long` are seconds of a batch that is taken down once."""
    command = [sys.executable, "-W", "ignore", "-c", RECORD, str(FOLDER / name), str(long)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=os.environ | package_first(), check=True
    )
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
