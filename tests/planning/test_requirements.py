"""What is not installed is named with one command before anything runs; `--python` asks in another environment."""

import venv
from contextlib import nullcontext
from pathlib import Path

import pytest

from whichdevice.__main__ import main
from whichdevice.apps.commands import study
from whichdevice.apps.questions import requirements
from whichdevice.base.errors import StudyError
from whichdevice.forecast.targets import find_target
from whichdevice.models.address import read_address

FILES = {
    "torch": "import torch\nimport no_such_net\nfrom PIL import Image\nimport beside\n",
    "jax": "import jax\n",
    "keras": "import keras\n",
}


@pytest.mark.parametrize(
    ("framework", "lacks", "words"),
    [
        ("torch", {"torch"}, "own.py needs torch, no-such-net, not installed in this environment: "),
        ("jax", {"keras", "jax"}, "own.py needs keras, jax, not installed"),
        ("keras", {"jax-cuda12-pjrt"}, "own.py needs jax-cuda12-pjrt, not installed"),
    ],
)
def test_all_that_lacks_is_one_line_with_one_command(framework, lacks, words, working_folder, monkeypatch):
    monkeypatch.setattr(requirements, "_installed", lambda package: package not in lacks)
    monkeypatch.setattr(requirements.platform, "machine", lambda: "x86_64")
    Path("own.py").write_text(FILES[framework])
    Path("beside.py").touch()
    with pytest.raises(StudyError) as error:
        requirements.require(read_address("own.py"))
    assert str(error.value).startswith(words)
    assert " pip install " in str(error.value) and "--python PATH uses the packages of another" in str(error.value)


@pytest.mark.needs("torch")
def test_bitsandbytes_is_one_line_that_says_how_to_ask_instead(working_folder):
    Path("own.py").write_text(
        'import torch, transformers\nnet = transformers.AutoModel.from_pretrained("meta-llama/Llama-3.1-8B",\n'
        "    quantization_config=transformers.BitsAndBytesConfig(load_in_4bit=True))\n"
    )
    with pytest.raises(StudyError, match=r"METHOD = \"qlora\".* ask hf:meta-llama/Llama-3.1-8B --option method=qlora"):
        requirements.require(read_address("own.py"))
    Path("own.py").write_text(
        "import torch\n# no bitsandbytes needed\ndict(load_in_4bit=False)\n'BitsAndBytesConfig'\n"
    )
    requirements.require(read_address("own.py"))


@pytest.mark.parametrize(
    ("lacks", "devices", "exact", "words"),
    [
        ("libtpu", ["T4", "L4"], True, None),
        ("libtpu", ["T4", "TPU v5e"], True, r"resnet50 needs jax, .*'jax\[tpu\]==0.10"),
        ("libtpu", ["T4", "TPU v5e"], False, None),
        ("jax-cuda12-pjrt", ["TPU v5e", "v6e-2x2"], True, None),
        ("jax-cuda12-pjrt", ["TPU v5e"], False, "resnet50 needs jax-cuda12-pjrt"),
        ("jax-cuda12-pjrt", ["TPU v5e", "T4"], True, "resnet50 needs jax-cuda12-pjrt"),
        ("jax-cuda12-pjrt", ["V100"], False, "resnet50 needs jax-cuda12-pjrt"),
    ],
)
def test_compilers_are_needed_for_the_devices_that_are_asked_about(lacks, devices, exact, words, monkeypatch):
    monkeypatch.setattr(requirements, "_installed", lambda package: package != lacks)
    monkeypatch.setattr(requirements.platform, "machine", lambda: "x86_64")
    with nullcontext() if words is None else pytest.raises(StudyError, match=words):
        requirements.require(read_address("resnet50"), {find_target(name).kind for name in devices}, exact)


def test_requirements_named_here_are_those_of_the_environments(project_root):
    text = (project_root / "envs" / "jax.in").read_text() + (project_root / "envs" / "jax-tpu.in").read_text()
    listed = {line.partition(" ;")[0] for line in text.splitlines()}
    assert {*requirements.FORECASTS["keras"], *requirements.GPU, requirements.TPU} <= listed


@pytest.mark.needs("torch")
def test_another_python_answers_with_its_own_packages_first(tmp_path, working_folder, capfd):
    """It has none of ours, and a package that this environment lacks."""
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    [site] = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (site / "only_there.py").write_text("WIDTH = 8\n")
    Path("own.py").write_text("import torch\nimport only_there\nimport nowhere\n")
    assert main(["ask", "own.py"]) == 2 == main(["ask", "own.py", "--python", str(python)])
    here, there = capfd.readouterr().err.strip().splitlines()
    assert "only-there, nowhere" in here and str(python) not in here
    assert "needs nowhere" in there and "only" not in there


def test_a_study_says_what_installs_it(monkeypatch, capsys):
    monkeypatch.setattr(study, "find_spec", lambda name: None)
    assert main(["study"]) == 2
    assert "pip install '.[study]'" in capsys.readouterr().err


def test_what_is_no_python_is_one_line(capsys):
    assert main(["ask", "resnet50", "--python", "/nowhere/python"]) == 2
    assert capsys.readouterr().err.startswith("--python /nowhere/python: this is no Python that runs")
