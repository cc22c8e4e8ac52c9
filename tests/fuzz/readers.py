"""Everything that reads what may come from elsewhere, as functions of bytes: name, a valid input, how to read it.

A reader may raise StudyError, in one line; anything else is a fault.
"""

import gzip
import io
import struct
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
import synthetic
import yaml

from whichdevice.bundle import unpack
from whichdevice.cells import parse_run
from whichdevice.compiling.device_time import device_time
from whichdevice.compiling.hlo import parse_program
from whichdevice.compiling.topology import device_of
from whichdevice.config.hardware import HARDWARE, hardware_rows
from whichdevice.config.load import load_study, read_study
from whichdevice.config.yaml_file import check_yaml
from whichdevice.datasets.archives import unpacked
from whichdevice.datasets.idx import read_idx
from whichdevice.datasets.info import ArrayInfo, DatasetInfo
from whichdevice.datasets.store import read_info
from whichdevice.datasets.weather_archive import CSV, read_archive
from whichdevice.records.compiled import Collective, CompiledRecord, CompileFacts, CompileRequest, read_compiled
from whichdevice.records.store import read_record
from whichdevice.storage.place import safe_name
from whichdevice.study_runs import study_runs
from whichdevice.tables.published import published_table, read_published
from whichdevice.tables.run_row import run_row
from whichdevice.tables.summary import summary_table

ROOT = Path(__file__).parents[2]
LIMIT = 2**20  # bytes that an archive of these tests may unpack to


@dataclass(frozen=True)
class Reader:
    """`read(file)` on a file named `name`; `valid` is what it takes without a word."""

    name: str
    valid: bytes
    read: Callable[[Path], object]


def _config(path: Path) -> None:
    load_study(check_yaml(path))


def _record(path: Path) -> None:
    run_row(read_record(path), "record.json")


def _program(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    device_time(parse_program(text), device_of("TPU v5e"))


def _published(path: Path) -> None:
    published_table(read_published(path), _summary())


def _bucket_listing(path: Path) -> None:
    names = path.read_bytes().decode("utf-8", "replace").splitlines()
    for name in filter(safe_name, names):
        assert path.parent in (path.parent / name).resolve().parents, name
        parse_run(name)


def _bundle(path: Path) -> None:
    inside = path.parent / "inside"
    unpack(path, inside)
    assert {entry.name for entry in path.parent.iterdir()} <= {path.name, "inside"}, "left its folder"


@cache
def _summary() -> pd.DataFrame:
    return summary_table(synthetic.runs_table(synthetic.small_study(), lambda run: 1000.0))


def _valid_record() -> bytes:
    study = synthetic.small_study()
    return synthetic.record_of(study, study_runs(study)[0]).model_dump_json().encode()


def _resolved() -> bytes:
    return yaml.safe_dump(synthetic.small_study().model_dump(mode="json")).encode()


def _tar(name: str, content: bytes, mode: str) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return held.getvalue()


def _weather() -> bytes:
    rows = "City,DateTime,Temp,Pressure,WindSpeed,WindDir\nAarhus,1980-03-01 11:00:00,5.0,1007.8,21.1,320.0\n"
    return _tar(CSV, rows.encode(), "w:gz")


def _dataset() -> bytes:
    array = ArrayInfo(shape=[10, 28, 28], dtype="|u1", sha256="0" * 64)
    texts = dict.fromkeys(("code", "description", "citation", "licence", "checksum"), "x")
    return DatasetInfo(name="mnist", source="standin", arrays={"images": array}, **texts).model_dump_json().encode()


def _compiled() -> bytes:
    asked = CompileRequest(
        topology="v5e-1x1", workload="mnist_cnn", module="mnist_cnn", precision="float32", batch_size=8
    )
    facts = CompileFacts(
        devices=1, hbm=16e9, hbm_available=15e9, collectives={"all-reduce": Collective(count=1, nbytes=4)}
    )
    record = CompiledRecord(asked=asked, status="ok", code_hash="x", versions={"jax": "0.10.2"}, facts=facts)
    return record.model_dump_json().encode()


@cache
def readers() -> tuple[Reader, ...]:
    """All of them."""
    image = struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 4) + bytes(range(32))
    program = (ROOT / "tests/compiling/programs/nested_loops-v5e-1x1.hlo").read_bytes()
    listing = b"cpu/mnist_cnn/tensorflow-float32-b256/r1/record.json\ncpu/matmul/jax-float32-b64-loop=fit/r12\n"
    return (
        Reader("config.yaml", (ROOT / "config/config.yaml").read_bytes(), _config),
        Reader("resolved.yaml", _resolved(), read_study),
        Reader("config.json", b'{"study": "a", "measure": {"seconds": 1, "repeats": 3}}', _config),
        Reader("record.json", _valid_record(), _record),
        Reader("compiled.json", _compiled(), read_compiled),
        Reader("dataset.json", _dataset(), lambda path: read_info(path.parent)),
        Reader("published.csv", (ROOT / "config/published.csv").read_bytes(), _published),
        Reader("hardware.csv", HARDWARE.read_bytes(), hardware_rows),
        Reader("images-idx3-ubyte", image, lambda path: read_idx(path, (2, 4, 4))),
        Reader("images-idx3-ubyte.gz", gzip.compress(image), lambda path: read_idx(path, (2, 4, 4))),
        Reader("text.gz", gzip.compress(b"First Citizen"), lambda path: list(unpacked(path, LIMIT))),
        Reader("weather.tar.gz", _weather(), lambda path: read_archive(path, LIMIT)),
        Reader("bundle.tar", _tar("r1/predictions.npy", bytes(64), "w"), _bundle),
        Reader("program.hlo", program, _program),
        Reader("listing.txt", listing, _bucket_listing),
    )
