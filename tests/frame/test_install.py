"""envs/install.sh: the oldest fitting Python, an environment that is whole or made anew, and plain words otherwise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# A Python whose environments take no time and hold nothing: itself, which installs whatever it is asked to.
PYTHON = f"""#!/bin/sh
case "$*" in
    "-m pip install "*uv.lock) printf '#!/bin/sh\\n%s' "$UV" >"$(dirname "$0")/uv"; chmod +x "$(dirname "$0")/uv" ;;
    "-m pip "*) [ -z "$UV" ] || echo "pip: $*" ;;
    "-m venv "*) mkdir -p "$3/bin" "$3/lib/site-packages" && cp "$0" "$3/bin/python" ;;
    *sysconfig*) echo "$(dirname "$(dirname "$0")")/lib/site-packages" ;;
    *) exec "{sys.executable}" "$@" ;;
esac
"""


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Path of the Python that makes environments in no time."""
    program = tmp_path / "python"
    program.write_text(PYTHON, encoding="utf-8")
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def made(tmp_path: Path, project_root: Path, python: str) -> Path:
    """A project with nothing to install, in a folder with a space and letters beyond ASCII, installed once."""
    project = tmp_path / "mein Ordner ü"
    prepare(project, project_root)
    result = install(project, "cpu", python)
    assert result.returncode == 0, result.stderr
    return project


def prepare(project: Path, project_root: Path) -> None:
    (project / "envs").mkdir(parents=True)
    for script in ("install.sh", "extra.sh", "packages.sh", "uv.lock"):
        shutil.copy(project_root / "envs" / script, project / "envs")
    for name in ("cpu", "gpu", "torch", "tpu", "test", "slurm"):
        (project / "envs" / f"{name}.lock").touch()
    package = project / "scripts" / "whichdevice"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("HERE = True\n", encoding="utf-8")


def install(
    project: Path, *arguments: str, path: str | None = None, script: str = "install.sh", uv: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    return subprocess.run(
        ["/bin/sh", str(project / "envs" / script), *arguments],
        env=environment | ({"PATH": path} if path else {}) | {"UV": uv},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def tools(folder: Path, **pythons: str) -> str:
    """A PATH that holds the few programs the script calls, and these Pythons as shell scripts."""
    folder.mkdir()
    for name in ("cat", "cksum", "dirname", "rm", "touch", "sh"):
        (folder / name).symlink_to(shutil.which(name) or name)
    for name, body in pythons.items():
        program = folder / name.replace("_", ".")
        program.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        program.chmod(0o755)
    return str(folder)


@pytest.mark.slow
def test_a_real_environment_has_the_package_from_anywhere_and_the_program(tmp_path: Path, project_root: Path) -> None:
    project = tmp_path / "mein Ordner ü"
    prepare(project, project_root)
    result = install(project, "cpu", sys.executable)
    assert result.returncode == 0, result.stderr
    command = [project / ".venv/bin/python", "-c", "import whichdevice; print(whichdevice.HERE)"]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    imported = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert imported.stdout == "True\n"
    (project / "scripts/whichdevice/__main__.py").write_text("import sys; print(sys.argv[1:])", encoding="utf-8")
    program = [project / ".venv/bin/whichdevice", "ask", "my model.py"]
    asked = subprocess.run(program, capture_output=True, text=True, check=True)
    assert asked.stdout == "['ask', 'my model.py']\n"


def test_it_says_first_what_it_downloads_and_how_much_disk_it_takes(made: Path, python: str) -> None:
    shutil.rmtree(made / ".venv")
    [line] = install(made, "cpu", python).stdout.splitlines()
    assert line.startswith("Making .venv with Python ")
    assert "downloads " in line and " GB of disk" in line


def test_pip_installs_where_uv_fails(made: Path, python: str) -> None:
    shutil.rmtree(made / ".venv")
    _, notice, pip, *_ = install(made, "cpu", python, uv="exit 1").stdout.splitlines()
    assert notice == "uv could not install envs/cpu.lock, pip tries: some minutes"
    assert "--require-hashes -r envs/cpu.lock -c envs/cpu.lock" in pip


def test_an_interrupted_installation_is_made_anew(made: Path, python: str) -> None:
    (made / ".venv" / ".installing").touch()
    assert "Making .venv" in install(made, "cpu", python).stdout
    assert not (made / ".venv" / ".installing").exists()


def test_cuda_12_and_cuda_13_never_share_an_environment(made: Path, python: str) -> None:
    install(made, "gpu", python)
    assert "Making .venv" in install(made, "torch", python).stdout
    assert "Bringing .venv" in install(made, "cpu", python).stdout


def test_tensorflow_for_tpus_never_shares_an_environment(made: Path, python: str) -> None:
    assert "Making .venv" in install(made, "tpu", python).stdout
    assert not (made / ".venv" / ".installed-cpu").exists()


def test_a_moved_folder_gets_a_new_environment(made: Path, python: str) -> None:
    moved = made.with_name("moved")
    made.rename(moved)
    assert "Making .venv" in install(moved, "cpu", python).stdout
    moved.rename(made)


def test_without_a_fitting_python_one_line_says_which(tmp_path: Path, project_root: Path) -> None:
    prepare(tmp_path / "p", project_root)
    path = tools(tmp_path / "bin", python3_11="echo 'python3.11: command not found' >&2; exit 127", python3="exit 1")
    result = install(tmp_path / "p", "cpu", path=path)
    assert result.returncode == 1
    assert result.stderr == (
        "no Python 3.11, 3.12 or 3.13 found: install python3.11, or name one: make PYTHON=/path/to/python3.12\n"
    )
    assert not (tmp_path / "p" / ".venv").exists()


def test_the_oldest_python_that_runs_is_taken(tmp_path: Path, project_root: Path) -> None:
    prepare(tmp_path / "p", project_root)
    answers = 'case "$*" in *venv*) exit 1 ;; esac'
    path = tools(tmp_path / "bin", python3_11="exit 127", python3_12=answers, python3_13=answers)
    result = install(tmp_path / "p", "cpu", path=path)
    assert result.stderr == (
        "python3.12 cannot make environments: install its venv package (Debian and Ubuntu: python3-venv)\n"
    )


def test_a_named_python_that_does_not_fit_is_refused(tmp_path: Path, project_root: Path) -> None:
    prepare(tmp_path / "p", project_root)
    result = install(tmp_path / "p", "cpu", "/nowhere/python")
    assert result.stderr == ("PYTHON=/nowhere/python does not run as Python 3.11, 3.12 or 3.13; name one that does\n")


def test_an_extra_is_added_once_and_goes_with_its_environment(made: Path, python: str) -> None:
    install(made, "cpu", python)
    assert install(made, "slurm", script="extra.sh").returncode == 0
    assert (made / ".venv" / ".extra-slurm").exists()
    install(made, "tpu", python)
    assert not (made / ".venv" / ".extra-slurm").exists()


def test_an_extra_needs_an_environment_and_a_name_that_exists(tmp_path: Path, project_root: Path) -> None:
    prepare(tmp_path / "p", project_root)
    assert install(tmp_path / "p", "slurm", script="extra.sh").stderr == "no .venv yet: make environment first\n"
    assert install(tmp_path / "p", "slum", script="extra.sh").stderr == (
        "no extra 'slum'; there are cloud, kubernetes, sky and slurm\n"
    )
