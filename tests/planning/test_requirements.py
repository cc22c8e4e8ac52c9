"""What is not installed is named with one command before anything runs."""

import sys
from pathlib import Path

import pytest

from whichdevice.__main__ import main
from whichdevice.apps.questions import requirements
from whichdevice.base.errors import StudyError
from whichdevice.models.address import read_address

FILES = {
    "torch": "import torch\nimport no_such_net\nfrom PIL import Image\nimport beside\n",
    "jax": "import jax\n",
    "keras": "import keras\n",
}


def lacking(monkeypatch, *packages):
    """Let these packages lack; all others are there."""
    monkeypatch.setattr(requirements, "_installed", lambda package: package not in packages)


@pytest.mark.parametrize(
    ("framework", "lacks", "words"),
    [
        ("torch", {"torch"}, "own.py needs torch, no-such-net, not installed in this environment: "),
        ("jax", {"keras", "jax"}, "own.py needs keras, jax, not installed"),
        ("keras", {"jax"}, "own.py needs jax, not installed"),
    ],
)
def test_all_that_lacks_is_one_line_with_one_command(framework, lacks, words, working_folder, monkeypatch):
    lacking(monkeypatch, *lacks)
    Path("own.py").write_text(FILES[framework])
    Path("beside.py").touch()
    with pytest.raises(StudyError) as error:
        requirements.require(read_address("own.py"))
    assert str(error.value).startswith(words)
    assert " pip install " in str(error.value) and "or install whichdevice where your packages are" in str(error.value)


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
        "from transformers import BitsAndBytesConfig\nif torch.rand(1) > 2:\n    BitsAndBytesConfig(True)\n"
    )
    requirements.require(read_address("own.py"))


def test_requirements_named_here_are_those_of_the_environments(project_root):
    text = (project_root / "envs" / "jax.in").read_text()
    listed = {line.partition(" ;")[0] for line in text.splitlines()}
    assert {*requirements.FORECASTS["keras"]} <= listed


def test_a_study_says_what_installs_it(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "snakemake", None)
    assert main(["study"]) == 2
    assert "pip install '.[study]'" in capsys.readouterr().err
