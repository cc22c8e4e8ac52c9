"""A copy of the project to run Snakemake in, so that no test touches the results of the checkout."""

import compileall
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from forked import run_forked

ROOT = Path(__file__).parents[2]
PARTS = ["Snakefile", "rules", "scripts", "config", "envs", "profiles", "docs"]
IMPORTS = "import nbformat, numpy, pydantic, smart_open, snakemake.cli, snakemake.report"
FIGURES = ("training_curves", "roofline")  # drawing all of them takes half a minute


@dataclass
class Outcome:
    """What one call of Snakemake did."""

    code: int
    out: str

    @property
    def jobs(self) -> Counter:
        """How many jobs of each rule a dry run planned."""
        counts: Counter = Counter()
        lines = iter(self.out.splitlines())
        for line in lines:
            if line.startswith("-----"):
                for row in lines:
                    if not row.strip():
                        return counts
                    name, number = row.split()
                    counts[name] = int(number)
        return counts

    @property
    def error(self) -> str:
        """The one line that a person reads."""
        found = [line for line in self.out.splitlines() if line.startswith("error: ")]
        assert len(found) == 1, self.out
        assert "Traceback" not in self.out, self.out
        return found[0].removeprefix("error: ")


@dataclass
class Project:
    """A working copy."""

    folder: Path
    prefix: tuple[str, ...] = ()  # of its commands, e.g. to run them elsewhere

    def snakemake(self, *arguments: str, config: dict | None = None) -> Outcome:
        """Run Snakemake, by default on the study written by `write`."""
        program = ["-m", "snakemake", "--cores", "1", *arguments]
        if config is not None:
            self.write(config)
        if (self.folder / "study.yaml").exists() and "--configfile" not in arguments:
            program += ["--configfile", "study.yaml"]
        if self.prefix:
            command, devnull = [*self.prefix, sys.executable, *program], subprocess.DEVNULL
            done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, stdin=devnull)
        else:
            done = run_forked(program, os.environ, IMPORTS, {}, folder=self.folder)
        return Outcome(done.returncode, done.stdout + done.stderr)

    def write(self, config: dict) -> None:
        """Write the study that the next calls run; it compiles nothing for TPUs unless it says so."""
        study = {"forecast": {"devices": []}, **config}
        (self.folder / "study.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")

    def edit(self, file: str, old: str, new: str) -> None:
        """Change a line of the copy."""
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{old!r} not in {file}"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


def copy_project(folder: Path, figures: Collection[str] = FIGURES) -> Project:
    """The parts that a study needs, without results and with these figures alone."""
    folder.mkdir(exist_ok=True)
    compileall.compile_dir(ROOT / "scripts", quiet=2)  # with its bytecode, or each process compiles the package
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part)
        else:
            shutil.copy(source, folder / part)
    others = re.compile(rf"^def draw_(?!(?:{'|'.join(figures)})\()", re.MULTILINE)
    for path in (folder / "scripts/whichdevice/study/figures").glob("[!_]*.py"):
        path.write_text(others.sub("def other_", path.read_text(encoding="utf-8")), encoding="utf-8")
    return Project(folder)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """One copy for all tests of a module."""
    return copy_project(tmp_path_factory.mktemp("project") / "a study")  # a space, on purpose
