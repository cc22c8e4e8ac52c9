"""No path of a machine gets into a record, whatever a library says."""

import pytest
import synthetic

from whichdevice.records.compiled import CompiledRecord, ProgramRequest
from whichdevice.records.schema import Record, Software, without_paths


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Failed to open /home/NAME/.venv/lib/libtpu.so: no such file", "Failed to open .../libtpu.so: no such file"),
        ("--xla_gpu_cuda_data_dir=/home/NAME/cuda --xla_x=1", "--xla_gpu_cuda_data_dir=.../cuda --xla_x=1"),
        ("FileNotFoundError: '/tmp/a/model.py'", "FileNotFoundError: '.../model.py'"),
        (
            "see docs/devices.md, 3/4 of them; https://host/a/b stays",
            "see docs/devices.md, 3/4 of them; https://host/a/b stays",
        ),
    ],
)
def test_a_path_keeps_its_last_part(said, kept):
    assert without_paths(said) == kept


def test_records_redact_reasons_and_flags():
    study = synthetic.small_study()
    values = synthetic.failed_record(study, synthetic.configured_runs(study)[0]).model_dump(mode="json")
    assert "/home" not in (Record.model_validate({**values, "reason": "no /home/NAME/x/y"}).reason or "")
    assert Software(flags={"XLA_FLAGS": "--dir=/home/NAME/x"}).flags["XLA_FLAGS"] == "--dir=.../x"
    asked = ProgramRequest(device="TPU v2", workload="m", module="m", precision="float32", batch_size=1)
    record = CompiledRecord(asked=asked, status="unavailable", reason="cannot open /opt/a/libtpu.so", code_hash="0")
    assert record.reason == "cannot open .../libtpu.so"
