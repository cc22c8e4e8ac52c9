"""Scripts that these tests look at run in forks of one process that has their framework: its import takes longer."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forked import run_forked

from whichdevice.models.script import look

# Neither starts threads when it is imported. Scripts that import their framework elsewhere have a process of their own.
FAKES = "from whichdevice.models.script.torch_fakes import Fakes; Fakes()"  # the first imports much of PyTorch
FRAMEWORKS = {
    "transformers": f"import transformers.modeling_utils; {FAKES}", "torch": FAKES,
    "tensorflow": "import tensorflow, keras", "keras": "import keras", "jax": "import jax",
}  # fmt: skip


def run(command: list[str], env: dict[str, str], timeout: float, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a command of `look` as `subprocess.run` does."""
    text = Path(command[3].partition(" -- ")[0]).read_text(encoding="utf-8")
    name = next((name for name in FRAMEWORKS if f"import {name}" in text or f"from {name}" in text), None)
    if name is None:
        return subprocess.run(command, env=env, timeout=timeout, **more)
    return run_after_import(name, command[1:], env, timeout)


def run_after_import(
    name: str, program: Sequence[str], variables: Mapping[str, str], seconds: float = 900, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program where a framework and our recorders are imported."""
    imports = f"{FRAMEWORKS[name]}; import whichdevice.models.script.run"
    at_import = look.QUIETLY | look.package_first() | {"KERAS_BACKEND": variables.get("KERAS_BACKEND", "")}
    return run_forked(program, variables, imports, at_import, seconds, folder)


@pytest.fixture(autouse=True)
def scripts_in_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {name: getattr(subprocess, name) for name in ("DEVNULL", "TimeoutExpired")}
    monkeypatch.setattr(look, "subprocess", SimpleNamespace(run=run, **names))
