"""Whatever is read from elsewhere is read or refused in one clear line: no crash, no hang."""

import gzip
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HARDWARE, hardware_rows
from whichdevice.models.datasets.images import read_idx
from whichdevice.study.cells import study_runs
from whichdevice.study.config.load import check_yaml, load_study
from whichdevice.study.records.store import foreign_record, merged_records, read_record

ROOT = Path(__file__).parents[2]
INPUTS = 40  # for each reader
STUDY = synthetic.small_study()
RUN = study_runs(STUDY)[0]
RECORD = synthetic.record_of(STUDY, RUN).model_dump_json().encode()
IMAGES = struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 4) + bytes(range(32))
SOURCE = b'{"devices": {"a": {"kind": "gpu", "replicas": 2, "machine": {"cpu": "Other"}}}, "workloads": {"w": "w"}}'


def read_source(path: Path) -> None:
    folder = path.parent / "results/merged/aaaa"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "source.json").write_bytes(path.read_bytes())
    merged_records(path.parent / "results")


READERS: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "config.yaml": ((ROOT / "config/config.yaml").read_bytes(), lambda path: load_study(check_yaml(path))),
    "record.json": (RECORD, read_record),
    "foreign.json": (RECORD, lambda path: foreign_record(path.read_bytes(), RUN, "there")),
    "hardware.csv": (HARDWARE.read_bytes(), hardware_rows),
    "images-idx3-ubyte.gz": (gzip.compress(IMAGES), lambda path: read_idx(path, (2, 4, 4))),
    "source.json": (SOURCE, read_source),
}


def changed(valid: bytes, draw: random.Random) -> bytes:
    """A cut, a piece twice, some other bytes, or a number of another size."""
    start, end = sorted(draw.choices(range(len(valid) + 1), k=2))
    kind = draw.randrange(4)
    if kind == 0:
        return valid[:start]
    if kind == 1:
        return valid[:end] + valid[start:]
    if kind == 2:
        return valid[:start] + draw.randbytes(draw.randrange(1, 9)) + valid[start + 1 :]
    digits = [place for place, byte in enumerate(valid) if chr(byte).isdigit()] or [0]
    place = draw.choice(digits)
    return valid[:place] + draw.choice([b"-1", b"1e999", b"9" * 400, b"NaN", b"null", b"[]"]) + valid[place + 1 :]


@pytest.mark.parametrize("name", READERS)
def test_wrong_input_is_one_clear_line(name: str, tmp_path: Path) -> None:
    valid, read = READERS[name]
    path, draw = tmp_path / name, random.Random(name)
    path.write_bytes(valid)
    read(path)
    rubbish = [b"", b"\x00" * 1000, b"\xff\xfe" * 500, b"[" * 1500, b"{" * 1500]
    for content in [*rubbish, *(changed(valid, draw) for _ in range(INPUTS))]:
        path.write_bytes(content)
        try:
            read(path)
        except StudyError as error:
            assert len(str(error).splitlines()) == 1 and len(str(error)) < 2000, content[:3000]
