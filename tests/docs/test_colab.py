"""docs/colab.ipynb from end to end on a CPU: fetched from this checkout, measured, report shown, records packed."""

import json
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from whichdevice.measure.record import Record

SETTINGS = {
    "measure": {"seconds": 0.05, "min_steps": 2, "repeats": 1, "retry_disturbed": False},
    "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"]}},
}


@pytest.fixture(scope="module")
def executed(tmp_path_factory, project_root):
    import nbclient
    import nbformat

    home = tmp_path_factory.mktemp("runtime")
    notebook = nbformat.read(project_root / "docs/colab.ipynb", as_version=4)
    nbformat.validate(notebook)
    environment = {
        **os.environ,
        "WHICHDEVICE_PROJECT": str(project_root),
        "WHICHDEVICE_SETTINGS": json.dumps(SETTINGS),
        "CUDA_VISIBLE_DEVICES": "",  # on the CPU, whatever this machine has
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    client = nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": home}}
    )
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable  # not whichever kernel the user has installed
    client.execute(env=environment)
    return home, notebook


def printed(notebook) -> str:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.get("text", "") for output in outputs)


@pytest.mark.long
def test_it_installs_nothing_that_is_there_and_names_the_device(executed):
    _, notebook = executed
    assert "added: nothing" in printed(notebook)
    assert "notebook_cpu: " in printed(notebook)


@pytest.mark.long
def test_it_shows_the_report(executed):
    home, notebook = executed
    shown = [
        output.data["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "text/html" in output.get("data", {})
    ]
    assert len(shown) == 1
    assert "<iframe srcdoc=" in shown[0]
    assert "notebook_cpu" in shown[0]
    assert (home / "whichdevice/study/results/notebook/report.html").is_file()


@pytest.mark.long
def test_the_packed_records_are_whole_and_ready_to_merge(executed):
    home, _ = executed
    with zipfile.ZipFile(home / "records-notebook_cpu.zip") as packed:
        (record,) = [name for name in packed.namelist() if name.endswith("record.json")]
        assert re.fullmatch(r"runs/notebook_cpu/matmul/jax-float32-b32/r1/[0-9a-f]{12}/record\.json", record)
        assert "config.yaml" in packed.namelist()
        assert Record.model_validate_json(packed.read(record)).status == "ok"


def packed_project(folder: Path, name: str) -> None:
    """A wheel or an archive as a reader would bring it, with the files that the cells look for."""
    inside = {
        "whichdevice-0.1.0-py3-none-any.whl": {"whichdevice/__init__.py": "", "whichdevice/workflow/Snakefile": ""},
        "whichdevice-main.zip": {
            "whichdevice-main/Snakefile": "",
            "whichdevice-main/scripts/whichdevice/__init__.py": "",
        },
    }[name]
    with zipfile.ZipFile(folder / name, "w") as archive:
        for file, text in inside.items():
            archive.writestr(file, text)


def fetch(project_root: Path) -> None:
    """Run the cells that name and bring the project, in the working directory."""
    cells = json.loads((project_root / "docs/colab.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, object] = {}
    for cell in [cell for cell in cells if cell["cell_type"] == "code"][:2]:
        exec("".join(cell["source"]), names)


@pytest.mark.parametrize("name", ["whichdevice-0.1.0-py3-none-any.whl", "whichdevice-main.zip"])
def test_without_an_address_it_takes_a_wheel_or_an_archive(
    name: str, project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WHICHDEVICE_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    packed_project(tmp_path, name)
    fetch(project_root)
    assert f"The project comes from {tmp_path / name}" in capsys.readouterr().out
    assert (tmp_path / "whichdevice/scripts/whichdevice/__init__.py").is_file()


def test_without_anything_it_says_what_to_do(
    project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WHICHDEVICE_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="Put a wheel or an archive of the project into"):
        fetch(project_root)


def test_the_notebook_is_kept_without_outputs(project_root):
    notebook = json.loads(Path(project_root / "docs/colab.ipynb").read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in notebook["cells"])


@pytest.mark.parametrize("packed", [False, True])
def test_what_a_study_needs_is_added_and_the_frameworks_are_the_runtimes_own(
    packed: bool, project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = json.loads((project_root / "docs/colab.ipynb").read_text(encoding="utf-8"))["cells"]
    [source] = ["".join(cell["source"]) for cell in cells if "def asked():" in "".join(cell["source"])]
    monkeypatch.chdir(project_root)
    if packed:
        monkeypatch.syspath_prepend(str(project_root))
        import hatch_build

        study = [f"{each}; extra == 'study'" for each in hatch_build.extras(project_root / "envs")["study"]]
        lines = [*hatch_build.requirements("base", project_root / "envs"), *study, "torch==2; extra == 'torch'"]
        info = tmp_path / "scripts" / "whichdevice-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("".join(f"Requires-Dist: {each}\n" for each in lines), encoding="utf-8")
        monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"Path": Path}
    exec(source.partition("missing =")[0], names)
    found = names["asked"]()  # type: ignore[operator]
    assert {"pandas", "snakemake", "tensorflow-datasets"} <= set(found)
    assert not any(each.startswith(("tensorflow==", "jax", "torch", "keras")) for each in found)
