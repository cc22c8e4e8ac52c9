"""What a workload's name stands for is read without importing anything; its files are all that an edit may change."""

import sys

import pytest
from beside import beside

from whichdevice.apps.questions.question import config_name
from whichdevice.base.errors import StudyError
from whichdevice.models.address import read_address
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options
from whichdevice.study.config.load import load_study

BESIDE = beside(__file__)

MODEL = BESIDE["model"]


@pytest.fixture
def package(working_folder):
    """A package with a module that imports its neighbours, and a file beside it."""
    for name, text in {
        "nets/__init__.py": "raise SystemExit('imported')",
        "nets/unet.py": "from .blocks import conv\nimport helpers\n" + MODEL.replace("model(", "build("),
        "nets/blocks/__init__.py": "",
        "nets/blocks/conv.py": "WIDTH = 3\n",
        "nets/unused.py": "",
        "helpers.py": "",
        "elsewhere.py": "",
    }.items():
        path = working_folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return working_folder


def test_a_function_of_a_package_is_planned_without_an_import(package):
    chosen = Model.read("nets.unet:build")
    assert chosen.recipe.batch_size == 12
    assert Model.read("nets.unet:build").hash()
    assert "nets" not in sys.modules and "helpers" not in sys.modules


def test_its_files_are_the_package_and_what_it_imports_from_the_folder(package):
    names = {path.relative_to(package).as_posix() for path in read_address("nets.unet:build").files()}
    package = {"__init__.py", "unet.py", "unused.py", "blocks/__init__.py", "blocks/conv.py"}
    assert names == {f"nets/{name}" for name in package} | {"helpers.py"}


@pytest.mark.parametrize("file", ["nets/blocks/conv.py", "helpers.py"])
def test_an_edit_of_a_file_that_it_imports_is_noticed(package, file):
    before = read_address("nets.unet:build").files()
    digests = {path: path.read_bytes() for path in before}
    (package / file).write_text("WIDTH = 4\n")
    assert any(path.read_bytes() != content for path, content in digests.items())


def test_a_file_of_a_package_is_imported_as_a_part_of_it(package):
    assert read_address("nets/unet.py").module == "nets.unet"
    assert read_address("helpers.py").module is None


def test_a_module_beside_a_file_is_imported_from_its_own_folder(working_folder):
    for folder, width in (("one", 3), ("two", 5)):
        (working_folder / folder).mkdir()
        (working_folder / folder / "sizes_of_it.py").write_text(f"WIDTH = {width}\n")
        text = MODEL.replace('raise RuntimeError("ran")', "return sizes_of_it.WIDTH")
        (working_folder / folder / "net.py").write_text("import sizes_of_it\n" + text)
    found = [Model.read(f"{folder}/net.py").workload(Options(1))._called("model") for folder in ("one", "two", "one")]
    assert found == [3, 5, 3]


@pytest.mark.parametrize(("name", "message"), BESIDE["a name that stands for nothing is one line"])
def test_a_name_that_stands_for_nothing_is_one_line(package, name, message):
    (package / "nets/unet.txt").write_text("")
    (package / "nets/unet.ipynb").write_text("")
    with pytest.raises(StudyError, match=message):
        _ = Model.read(name).kind


@pytest.mark.parametrize(("pasted", "text", "sizes"), BESIDE["a name of a hub is read as people paste it"])
def test_a_name_of_a_hub_is_read_as_people_paste_it(working_folder, pasted, text, sizes):
    model = Model.read(pasted)
    assert (model.text, model.declared.source) == (text, f"hf:{sizes}, llm_models.csv")


def test_a_file_goes_before_a_hub(package):
    (package / "nets" / "gpt2.py").write_text("")
    assert read_address("nets/gpt2.py").kind == "file"
    with pytest.raises(StudyError, match=r"nets/gpt2: not found; did you mean nets/gpt2\.py\?"):
        read_address("nets/gpt2")


def test_a_function_that_the_module_lacks_is_a_fault_of_the_declaration(package):
    assert "it defines no function buidl(options) that returns a Keras model; did you mean build?" in (
        Model.read("nets.unet:buidl").declared.fault
    )


@pytest.mark.parametrize("text", ["mine", "./mine", "mine/config.json", "hf:mine"])
def test_a_folder_with_a_config_of_hugging_face_is_its_model(working_folder, text):
    (working_folder / "mine").mkdir()
    (working_folder / "mine" / "config.json").write_text("{}")
    found = read_address(text)
    assert (found.kind, found.name, found.path.name) == ("hub", "mine", "config.json")


@pytest.mark.parametrize(("file", "name"), BESIDE["a config takes the name of any file"])
def test_a_config_takes_the_name_of_any_file(working_folder, file, name):
    (working_folder / file).parent.mkdir(exist_ok=True)
    (working_folder / file).touch()
    assert config_name(Model.read(file)) == name
    assert list(load_study({"workloads": {name: {"module": file}}}, "a config").workloads) == [name]
