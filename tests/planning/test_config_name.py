"""The name of a model in a study: one that the config takes."""

import pytest
from beside import beside

from whichdevice.apps.questions.question import config_name
from whichdevice.models.loading import Model
from whichdevice.study.config.load import load_study

BESIDE = beside(__file__)


@pytest.mark.parametrize(("file", "name"), BESIDE["the config takes the name of any file"])
def test_the_config_takes_the_name_of_any_file(file, name, working_folder):
    (working_folder / file).parent.mkdir(exist_ok=True)
    (working_folder / file).touch()
    assert config_name(Model.read(file)) == name
    assert list(load_study({"workloads": {name: {"module": file}}}, "a config").workloads) == [name]
