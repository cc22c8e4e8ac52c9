"""`check`: what is wrong with a file is said before anything starts."""

from pathlib import Path

import pytest
import yaml

from whichdevice.__main__ import main
from whichdevice.commands.check import config_line
from whichdevice.config.load import load_study
from whichdevice.models.loading import Model

BROKEN = Path(__file__).parents[1] / "models" / "broken"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such_file.py"], "workload file no_such_file.py: not found"),
        ([str(BROKEN / "no_model.py")], "no_model.py: it defines no function model(options)"),
        ([str(BROKEN / "wrong_target_type.py")], "targets are float32, but LOSS"),
        (["--backend", "jax", str(BROKEN / "no_model.py")], "no_model.py: it defines no function model(options)"),
        (["decoder", "--devices", "XX9"], "unknown device 'XX9'; nearest"),
        (["decoder", "--option", "layers"], "--option layers: needs KEY=VALUE, e.g. layers=2"),
        (["decoder", "--option", "layers=["], "--option layers=[: expected the node content"),
        (["matmul", "--devices", "none"], "matmul: no training workload; only those are tried"),
    ],
)
def test_one_line_and_status_2(arguments, words, capsys):
    assert main(["check", *arguments]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert words in said[-1]
    assert not any("Traceback" in line for line in said)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("my_model.py", "my_model"),
        ("my-model.py", "my_model"),
        ("own models, new/2nd {net}: a.py", "model_2nd__net___a"),
        ("007.py", "model_007"),
        ("no.py", "no"),
        ("naïve.py", "na_ve"),
    ],
)
def test_the_line_for_a_config_is_one_that_the_config_takes(file, name, working_folder):
    (working_folder / file).parent.mkdir(exist_ok=True)
    (working_folder / file).touch()
    line = config_line(Model.read(file), ["tensorflow", "jax"], {"width": 8})
    (key, workload), *_ = load_study(yaml.safe_load(line)).workloads.items()
    assert (key, workload.module, workload.backend) == (name, file, ["tensorflow", "jax"])
    assert workload.options == {"width": 8}
    assert "\n" not in line
    assert config_line(Model.read("decoder"), ["jax"], {}) == "workloads: {decoder: {module: decoder, backend: [jax]}}"


def test_a_file_that_is_no_python_by_its_name(tmp_path, capsys):
    path = tmp_path / "model.txt"
    path.write_text("def model(options): ...")
    assert main(["check", str(path)]) == 2
    assert "its name must end in .py" in capsys.readouterr().err
