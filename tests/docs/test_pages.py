"""What the pages show is true: configs load, commands run, links lead somewhere, and the whole is short."""

import ast
import importlib
import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from docs import pages

from whichdevice.apps.commands.plan import merged
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options
from whichdevice.study.config.load import load_study
from whichdevice.study.config.model import Call

OTHERS = {
    "rsync", "cd", "curl", "docker", "gcloud", "git", "pip", "uv", "podman", "source", "sudo", "tmux",
    ".venv-sky/bin/sky",
}  # fmt: skip
CODE = {".py", ".smk", ".yaml", ".sh", ".html", ".json", ".in"}
PLACE_HOLDERS = {"my_model.py": "docs/examples/my_model.py", "my_net": "mnist_cnn"}  # of the reader's own
SNAKEMAKE = {"--cores", "--configfile", "--profile", "--config", "--forcerun", "--default-storage-prefix",
             "--storage-gcs-project", "--container-image"}  # fmt: skip


@pytest.fixture(autouse=True)
def in_the_project(project_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project_root)


@pytest.mark.parametrize("block", pages.blocks("yaml"), ids=lambda block: block.place)
def test_a_yaml_block_loads_as_a_config(block: pages.Block) -> None:
    values = yaml.safe_load(block.text.replace("my_net", "mnist_cnn"))
    if not set(values) <= set(Call.model_fields):
        assert set(values) == {"set-resources"}  # of a scheduler's profile
    else:
        load_study(values)


@pytest.mark.parametrize("block", pages.blocks("console"), ids=lambda block: block.place)
def test_commands_parse(block: pages.Block, generate) -> None:
    assert pages.commands(block)
    for line in pages.commands(block):
        words = shlex.split(line.partition(" > ")[0], comments=True)
        while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
            words = words[1:]
        program, *arguments = words
        check(program.removeprefix(".venv/bin/"), arguments, generate)


def to_run() -> list[pytest.param]:
    """Each command line that is not marked, once; those that compile or measure take minutes. `make` installs."""
    blocks = [block for block in pages.blocks("console") if not block.not_run]
    found = {line: block for block in blocks for line in pages.commands(block) if not line.startswith("make ")}
    long = ("whichdevice ask",)
    return [
        pytest.param(line, id=block.place, marks=pytest.mark.long if any(map(line.__contains__, long)) else [])
        for line, block in found.items()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("line", to_run())
def test_a_command_that_is_not_marked_runs(line: str, tmp_path_factory, project_root: Path) -> None:
    folder = tmp_path_factory.getbasetemp() / "documented"
    if not folder.is_dir():
        folder.mkdir()
        for name in ("docs", "config"):
            (folder / name).symlink_to(project_root / name)
        program = folder / "bin" / "whichdevice"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m whichdevice "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(project_root / "scripts")}
    done = subprocess.run(["/bin/sh", "-ec", line], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def check(program: str, arguments: list[str], generate) -> None:
    """Raise unless a program and its arguments exist; nothing is run."""
    if program == "whichdevice":
        own = arguments[: arguments.index("--")] if "--" in arguments else arguments
        parsed = generate.command_parser(own[0]).parse_args(own[1:])
        check_config(getattr(parsed, "config", None) or [])
        if own[0] == "study":
            assert set(parsed.target) <= set(generate.TARGETS)
        for name in ("model", "module"):
            if own[0] == "ask" and hasattr(parsed, name):
                _ = Model.read(PLACE_HOLDERS.get(getattr(parsed, name), getattr(parsed, name))).kind
    elif program == "snakemake":
        check_snakemake(arguments, generate)
    elif program == "make":
        known = re.search(r"^\.PHONY: (.+)$", Path("Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert known and {each for each in arguments if "=" not in each} <= set(known[1].split())
    elif program == "python3":
        assert arguments[:2] == ["-m", "venv"]
    elif program in ("python", "sh"):
        found = Path(arguments[1].replace(".", "/")) if arguments[0] == "-m" else Path(arguments[0])
        assert found.exists() or found.with_suffix(".py").is_file(), found
    else:
        assert program in OTHERS, program


def check_config(values: list[str]) -> None:
    """Raise StudyError on a wrong key or value of --config."""
    load_study(merged(yaml.safe_load(Path("config/config.yaml").read_text(encoding="utf-8")), values))


def check_snakemake(arguments: list[str], generate) -> None:
    """Targets, profiles and config of a call; an option that no page uses is a misspelt one."""
    targets, option = [], ""
    for word in arguments:
        if word.startswith("--"):
            option = word
            assert option in SNAKEMAKE | {"--dry-run"}, option
        elif option == "--config":
            assert "=" in word, word
            if "device: a100" not in word:
                check_config([word])
        elif option in SNAKEMAKE:
            assert option != "--profile" or Path(word).is_dir()
            option = ""
        else:
            targets.append(word)
    assert set(targets) <= set(generate.TARGETS), targets


@pytest.mark.parametrize("page", pages.TEXTS, ids=lambda page: page.name)
def test_links_anchors_and_pictures_exist(page: Path) -> None:
    for link in pages.links(page):
        path, _, anchor = link.partition("#")
        if path == "../explorer.html":
            continue  # `make docs` puts it beside the site
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in pages.anchors(target), link


def test_pages_that_code_names_exist(project_root: Path) -> None:
    folders = ("scripts", "rules", "profiles", "envs", "benchmarks", "fit", "config")
    files = [path for folder in folders for path in (project_root / folder).rglob("*") if path.suffix in CODE]
    files += [project_root / name for name in ("Snakefile", "Makefile", "envs/Containerfile")]
    for path in files:
        for page in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text(encoding="utf-8")):
            assert (project_root / page).is_file(), f"{path}: {page}"


def test_the_tutorial_shows_the_example_that_the_tests_run(project_root: Path) -> None:
    page = (pages.DOCS / "start/your-model.md").read_text(encoding="utf-8")
    shown = page.partition("```python\n")[2].partition("```\n")[0]
    assert shown == (project_root / "docs/examples/my_model.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("block", pages.blocks("python"), ids=lambda block: block.place)
def test_python_blocks_are_python(block: pages.Block) -> None:
    ast.parse(block.text)


@pytest.mark.parametrize("block", pages.blocks("python"), ids=lambda block: block.place)
def test_what_python_blocks_import_of_the_package_exists(block: pages.Block) -> None:
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("whichdevice"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                assert hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}"), alias.name


@pytest.mark.parametrize("page", pages.TEXTS, ids=lambda page: page.name)
def test_files_of_the_project_that_a_page_names_exist(page: Path, project_root: Path) -> None:
    folders = "scripts|tests|benchmarks|fit|config|envs|profiles|docs|rules"
    for name in re.findall(rf"`((?:{folders})/[\w/.-]+)`", page.read_text(encoding="utf-8")):
        made = "my_net" in name or name.startswith(("docs/_build", "docs/results/records", "docs/results/tables"))
        assert made or (project_root / name).exists(), name


def test_the_skeleton_of_a_workload_is_a_workload(tmp_path: Path) -> None:
    [skeleton] = [block for block in pages.blocks("python") if "class MyNet" in block.text]
    file = tmp_path / "my_net.py"
    file.write_text(skeleton.text, encoding="utf-8")
    workload = Model.read(str(file)).workload(Options(batch_size=128))
    assert (workload.recipe.batch_size, workload.dataset) == (128, "mnist")
    for method in ("loss", "splits", "batch", "quality"):
        assert callable(getattr(workload, method))


def test_what_was_written_by_hand_stays_short() -> None:
    assert sum(map(pages.by_hand, pages.PAGES)) <= 15_000


def test_the_front_page_is_one_screen() -> None:
    text = (pages.PROJECT / "README.md").read_text(encoding="utf-8").partition("## I want to")[0]
    assert len(text.splitlines()) <= 60
    assert sum(bool(re.search(r"\w", word)) for word in text.split()) <= 460
