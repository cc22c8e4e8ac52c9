"""Packages that log are silent; what wraps, and is not here, is the model itself."""

import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from whichdevice.models.framework import TORCH, framework_in
from whichdevice.models.script.stand_ins import LOGGING, StandIns
from whichdevice.models.script.text import is_script

ABSENT = next(name for name in sorted(LOGGING) if find_spec(name) is None)


def stand_ins(folder: Path, text: str) -> StandIns:
    """What stands for packages while a script of this text runs."""
    path = folder / "train.py"
    path.write_text(text)
    return StandIns([path], lambda _: {})


def test_a_package_that_logs_is_silent_while_its_script_runs(tmp_path):
    with stand_ins(tmp_path, f"import {ABSENT}"):
        package = importlib.import_module(ABSENT)
        with package.init(project="none") as run:
            run.log({"loss": 1.0})
            run.config["lr"] = 0.1
        assert package.watch(len) is len and not list(run.history())


def test_a_package_that_sends_logs_is_silent_where_it_is_installed_too(tmp_path, monkeypatch):
    """Another version than the script's may lack what it calls, or ask for a key."""
    (tmp_path / "swanlab").mkdir()
    (tmp_path / "swanlab" / "__init__.py").write_text("raise SystemExit('log in')")
    monkeypatch.syspath_prepend(tmp_path)
    with stand_ins(tmp_path, "import swanlab"):
        assert importlib.import_module("swanlab").init(project="none") is not None


def test_settings_that_a_run_is_given_are_read_again(tmp_path):
    with stand_ins(tmp_path, f"import {ABSENT}"):
        package = importlib.import_module(ABSENT)
        run = package.init(config={"lr": 0.1})
        package.config.update({"depth": 3})
        assert package.config.lr == run.config["lr"] == 0.1 and run.config.depth == 3
        assert (Path(run.dir) / "train.log").parent.is_dir()


def test_what_a_library_is_asked_to_log_with_is_silent_too(tmp_path):
    with stand_ins(tmp_path, f"settings = dict(report_to='{ABSENT}')"):
        assert find_spec(ABSENT) is not None


def test_nothing_stands_for_a_package_that_no_file_imports(tmp_path):
    with stand_ins(tmp_path, "import json"):
        assert find_spec(ABSENT) is None


@pytest.mark.needs("accelerate")
def test_a_script_is_of_the_framework_that_its_library_needs(tmp_path):
    """A library that the script alone imports, whose metadata name PyTorch."""
    path = tmp_path / "train.py"
    path.write_text("import psutil\nfrom unknown import Policy\nPolicy().learn(1000)\n")
    assert is_script(path) and framework_in([path]) != TORCH
    path.write_text("from unknown import Policy\nimport accelerate\nPolicy().learn(1000)\n")
    assert framework_in([path]) == TORCH


@pytest.mark.parametrize(("line", "there"), [("import torch", True), ("import torch, tensorflow", False)])
def test_tensorboard_leaves_tensorflow_alone_unless_the_script_imports_it(tmp_path, line, there):
    """TensorBoard asks for a module of this name before it imports TensorFlow, which takes seconds."""
    assert (stand_ins(tmp_path, line).find_spec("tensorboard.compat.notf") is not None) == there
