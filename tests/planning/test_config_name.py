"""The name of a model in a study: one that the config takes."""

import pytest

from whichdevice.apps.questions.question import config_name
from whichdevice.models.loading import Model
from whichdevice.study.config.load import load_study


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
def test_the_config_takes_the_name_of_any_file(file, name, working_folder):
    (working_folder / file).parent.mkdir(exist_ok=True)
    (working_folder / file).touch()
    assert config_name(Model.read(file)) == name
    assert list(load_study({"workloads": {name: {"module": file}}}, "a config").workloads) == [name]
