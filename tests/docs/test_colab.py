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
    "measure": {"seconds": 0.05, "min_steps": 2, "repeats": 1, "retry_seconds": 0},
    "workloads": {"matmul": {"batch_size": [32], "backend": ["jax"]}},
}


@pytest.mark.long
def test_it_measures_this_device_shows_the_report_and_packs_the_records(tmp_path, project_root) -> None:
    import nbclient
    import nbformat

    notebook = nbformat.read(project_root / "docs/colab.ipynb", as_version=4)
    nbformat.validate(notebook)
    environment = {
        **os.environ,
        "WHICHDEVICE_PROJECT": str(project_root),
        "WHICHDEVICE_SETTINGS": json.dumps(SETTINGS),
        "CUDA_VISIBLE_DEVICES": "",  # on the CPU, whatever this machine has
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    client = nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.create_kernel_manager()
    client.km.kernel_spec.argv[0] = sys.executable  # not whichever kernel the user has installed
    client.execute(env=environment)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "added: nothing" in printed and "notebook_cpu: " in printed
    [shown] = [data["text/html"] for output in outputs if "text/html" in (data := output.get("data", {}))]
    assert "<iframe srcdoc=" in shown and "notebook_cpu" in shown
    assert (tmp_path / "whichdevice/results/notebook/report.html").is_file()
    with zipfile.ZipFile(tmp_path / "records-notebook_cpu.zip") as packed:
        [record] = [name for name in packed.namelist() if name.endswith("record.json")]
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
def test_without_an_address_it_takes_a_wheel_or_an_archive(name, project_root, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.delenv("WHICHDEVICE_PROJECT", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # which is taken away with what `fetch` adds
    packed_project(tmp_path, name)
    fetch(project_root)
    assert f"The project comes from {tmp_path / name}" in capsys.readouterr().out
    assert (tmp_path / "whichdevice/scripts/whichdevice/__init__.py").is_file()


def test_without_anything_it_says_what_to_do(project_root, tmp_path, monkeypatch) -> None:
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
