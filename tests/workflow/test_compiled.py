"""Target `compiled`: once compiled, never again; a machine without the compiler loses nothing but those numbers."""

import importlib.util
import json

import pytest

STUDY = {
    "study": "tpu",
    "data": {"source": "standin"},
    "measure": {"seconds": 0.1, "min_steps": 1, "repeats": 1},
    "compile": {"topologies": ["v2-2x2"], "precision": ["float32", "mixed_bfloat16"]},
    "workloads": {"matmul": {"batch_size": [256]}},
}
PROGRAMS = ["matmul-float32-b256", "matmul-mixed_bfloat16-b256"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(project):
    if importlib.util.find_spec("libtpu") is None:
        pytest.skip("libtpu is not installed")
    done = project.snakemake("compiled", config=STUDY)
    assert done.code == 0, done.out
    return project


def compiled(project, study: str = "tpu") -> dict[str, dict]:
    folder = project.folder / f"results/{study}/compiled/v2-2x2"
    return {path.parent.name: json.loads(path.read_text()) for path in folder.glob("*/*.json")}


def test_each_program_leaves_a_record_and_no_run_is_measured(study):
    found = compiled(study)
    assert sorted(found) == PROGRAMS
    assert {record["status"] for record in found.values()} == {"ok"}
    assert not list((study.folder / "results/tpu/runs").glob("**/record.json"))


def test_float32_products_cost_more_than_bfloat16_ones(study):
    found = compiled(study)
    float32, bfloat16 = (found[name]["modelled"]["low"] for name in PROGRAMS)
    assert float32 > bfloat16


def test_a_second_call_compiles_nothing(study):
    assert study.snakemake("-n", "compiled").jobs["compile"] == 0


def test_another_study_takes_what_was_compiled_before(study):
    done = study.snakemake("compiled", config={**STUDY, "study": "other"})
    assert done.code == 0, done.out
    first, second = compiled(study), compiled(study, "other")
    for name in PROGRAMS:
        assert first[name]["facts"]["compile_seconds"] == second[name]["facts"]["compile_seconds"]
