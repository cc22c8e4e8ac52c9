"""The real compiler: small programs compiled anew, and workloads' own steps in a process of their own."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from forecast.small_programs import modelled

from whichdevice.forecast.compile import compile_cell
from whichdevice.datasets.info import DatasetFacts
from whichdevice.datasets.store import write_dataset
from whichdevice.records.compiled import CompileRequest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("libtpu") is None, reason="the TPU compiler is for Linux on x86-64"),
]

ANEW = """
import json, sys
from forecast import small_programs
step = small_programs.compiled(getattr(small_programs, sys.argv[1]), sys.argv[2])
print(json.dumps([step.time.low, step.time.high, step.memory.total, step.flops]))
"""


def anew(name: str, topology: str) -> list[float]:
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", ANEW, name, topology]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("name", "topology"), [("matmul", "v4-2x2x1"), ("all_reduce", "v2-2x2")])
def test_recorded_programs_are_what_the_compiler_makes_today(name, topology):
    recorded = modelled(name, topology)
    low, high, memory, flops = anew(name, topology)
    assert low == pytest.approx(recorded.low, rel=0.02)
    assert high == pytest.approx(recorded.high, rel=0.1)
    assert memory > 3 * 1024 * 1024 * 2
    assert flops > 0


def dataset(folder: Path, name: str, arrays: dict[str, np.ndarray]) -> Path:
    facts = DatasetFacts(name=name, source="standin", code="0", description="", citation="", licence="")
    write_dataset(folder, arrays, facts)
    return folder


def compiled(asked: CompileRequest, data: Path | None):
    return compile_cell(asked, data, Path("record.json"), Path("log"))


def shakespeare(precision: str) -> CompileRequest:
    return CompileRequest(
        topology="v2-2x2",
        workload="shakespeare_lstm",
        module="shakespeare_lstm",
        precision=precision,
        batch_size=64,
        sequence_length=20,
        dataset="tiny_shakespeare",
    )


def tiny(**changes) -> CompileRequest:
    module = str(Path(__file__).parent / "tiny_workload.py")
    asked = {"topology": "v2-2x2", "workload": "tiny", "module": module, "precision": "float32", "batch_size": 64}
    return CompileRequest(**{**asked, "dataset": "tiny", **changes})


@pytest.fixture
def rows(working_folder) -> Path:
    return dataset(working_folder / "data", "tiny", {"x": np.zeros((1000, 64), np.float32)})


def test_operations_of_a_recurrent_net_are_the_analytic_ones_within_5_per_cent(working_folder):
    letters = np.random.default_rng(0).integers(0, 256, 20000, np.uint8)
    data = dataset(working_folder / "data", "tiny_shakespeare", {"train_text": letters, "test_text": letters[:5000]})
    slow, fast = (compiled(shakespeare(each), data) for each in ("float32", "mixed_bfloat16"))
    for record in (slow, fast):
        facts, time = record.facts, record.modelled
        assert (record.status, record.reason) == ("ok", None)
        assert facts.flops_ratio == pytest.approx(1, abs=0.05)
        assert facts.collectives["all-reduce"].nbytes >= 4_460_800 * 2  # all gradients, in bfloat16 or more
        assert 0 < time.low < time.high
        assert time.unknown_trip_counts == 0
        assert 0 < facts.memory_needed < facts.hbm_available < facts.hbm
    assert slow.modelled.high > 2 * fast.modelled.high  # float32 products take several passes


def test_a_batch_too_large_states_both_sizes_and_the_largest_that_fits(rows):
    asked = tiny(batch_size=2**26, largest_batch=True)
    record = compiled(asked, rows)
    facts = record.facts
    assert record.status == "does_not_fit"
    assert facts.memory_missing == pytest.approx(facts.memory_needed - facts.hbm_available)
    assert facts.memory_missing > 0
    assert "GiB of HBM on each device" in record.reason
    assert 64 < facts.largest_batch < asked.batch_size
    assert facts.largest_batch % 8 == 0


def test_a_batch_that_the_devices_cannot_share_is_refused(rows):
    record = compiled(tiny(batch_size=60), rows)
    assert (record.status, record.reason) == ("failed", "batch size 60 does not divide over the 8 devices of v2-2x2")


def test_a_product_has_its_rows_divided(working_folder):
    asked = CompileRequest(topology="v5e-2x2", workload="matmul", module="matmul", precision="float32", batch_size=512)
    record = compiled(asked, None)
    assert record.facts.flops_ratio == 1
    assert record.facts.collectives == {}


def test_formats_of_gpus_are_refused(rows):
    record = compiled(tiny(precision="tf32"), rows)
    assert record.status == "failed"
    assert "for GPUs only" in record.reason


@pytest.mark.parametrize("content", ["", "built for another processor"])
def test_a_compiler_that_does_not_load_is_unavailable(rows, monkeypatch, content):
    library = rows.parent / "libtpu.so"
    library.write_text(content)
    monkeypatch.setenv("TPU_LIBRARY_PATH", str(library))
    record = compiled(tiny(), rows)
    assert record.status == "unavailable"
    assert record.reason.startswith("the TPU compiler (libtpu) does not load here: ")
    assert "\n" not in record.reason
