"""What each reader takes without a word."""

import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import synthetic
import yaml

from whichdevice.datasets.base import DatasetFacts
from whichdevice.datasets.store import write_dataset
from whichdevice.datasets.weather_denmark import CSV
from whichdevice.records.products import (
    Collective,
    CompiledRecord,
    CompileFacts,
    ExportCheck,
    ExportedFile,
    ExportRecord,
    ProgramRequest,
)
from whichdevice.records.schema import Record
from whichdevice.records.store import MergedDevice, MergedRecord, MergedSource
from whichdevice.study_cells import study_runs

TINY = DatasetFacts(name="tiny", source="standin", code="0", seed=1, description="d", citation="c", licence="l")


def a_record() -> Record:
    study = synthetic.small_study()
    return synthetic.record_of(study, study_runs(study)[0])


def valid_record() -> bytes:
    return a_record().model_dump_json().encode()


def packed(arrays: dict[str, Any]) -> bytes:
    held = io.BytesIO()
    np.savez(held, **arrays)
    return held.getvalue()


def arrays() -> dict[str, np.ndarray]:
    return {"images": np.arange(24, dtype=np.uint8).reshape(2, 3, 4)}


def prepared(name: str) -> bytes:
    """A file of a prepared dataset."""
    with tempfile.TemporaryDirectory() as folder:
        write_dataset(Path(folder) / "tiny", arrays(), TINY)
        return (Path(folder) / "tiny" / name).read_bytes()


def export() -> bytes:
    files = {"model.keras": ExportedFile(sha256="0" * 64, size=1)}
    check = ExportCheck(examples=1, largest=1.0, tolerance=0.1)
    record = ExportRecord(study="small", workload="a", module="a", status="ok", files=files, check=check)
    return record.model_dump_json().encode()


def resolved() -> bytes:
    return yaml.safe_dump(synthetic.small_study().model_dump(mode="json")).encode()


def merged_source() -> bytes:
    """What is known of a merged source."""
    device = MergedDevice(name="gpu", kind="gpu", models=["Some GPU"])
    entry = MergedRecord(key="0123456789ab", version="1")
    run = study_runs(synthetic.small_study())[0].path
    source = MergedSource(devices={"a100": device}, workloads={"mnist_cnn": "mnist_cnn"}, records={run: entry})
    return source.model_dump_json().encode()


def tar(name: str, content: bytes, mode: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return held.getvalue()


def weather() -> bytes:
    rows = "City,DateTime,Temp,Pressure,WindSpeed,WindDir\nAarhus,1980-03-01 11:00:00,5.0,1007.8,21.1,320.0\n"
    return tar(CSV, rows.encode(), "w:gz")


def compiled() -> bytes:
    asked = ProgramRequest(device="T4", workload="mnist_cnn", module="mnist_cnn", precision="float32", batch_size=8)
    facts = CompileFacts(memory=16e9, memory_available=15e9, collectives={"all": Collective(count=1, nbytes=4)})
    record = CompiledRecord(asked=asked, status="ok", code_hash="x", versions={"jax": "0.10.2"}, facts=facts)
    return record.model_dump_json().encode()
