"""Everything that reads what may come from elsewhere, as functions of bytes: name, a valid input, how to read it.

A reader may raise StudyError, in one line; anything else is a fault.
"""

import csv
import gzip
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
import synthetic
from fuzz import valid_inputs

from whichdevice.config.hardware import HARDWARE, hardware_rows
from whichdevice.config.load import check_yaml, load_study, read_study
from whichdevice.config.prices import PRICES
from whichdevice.datasets.download import unpacked
from whichdevice.datasets.images import read_idx
from whichdevice.datasets.store import load_dataset, write_dataset
from whichdevice.datasets.weather_denmark import read_archive
from whichdevice.errors import StudyError
from whichdevice.figures import figure_names
from whichdevice.forecast.xla.hlo_operations import work_of
from whichdevice.forecast.xla.hlo_text import parse_program
from whichdevice.records.products import read_compiled, read_export
from whichdevice.records.store import foreign_record, foreign_run, merged_records, read_record
from whichdevice.report.contents import contents
from whichdevice.results import StudyResults
from whichdevice.study_cells import study_runs
from whichdevice.tables.base import read_table, table, write_table
from whichdevice.tables.make import TABLES, write_tables
from whichdevice.tables.published import published_table, read_published
from whichdevice.tables.runs import epoch_rows, run_row
from whichdevice.tables.summary import summary_table

ROOT = Path(__file__).parents[2]
LIMIT = 2**20  # bytes that an archive of these tests may unpack to


@dataclass(frozen=True)
class Reader:
    """`read(file)` on a file named `name`; `valid` is what it takes without a word, `share` its part of the inputs."""

    name: str
    valid: bytes
    read: Callable[[Path], object]
    share: float = 1.0  # less for a slow one


def _config(path: Path) -> None:
    load_study(check_yaml(path))


def _record(path: Path) -> None:
    """As far as tables on disk, read back; once as one of ours, once as one from elsewhere."""
    with suppress(StudyError):
        foreign_record(path.read_bytes(), study_runs(synthetic.small_study())[0], "there")
    record = read_record(path)
    for name, rows in {"runs": [run_row(record, path.name)], "epochs": list(epoch_rows(record))}.items():
        written = path.with_name(f"{name}.csv")
        write_table(table(rows, TABLES[name]), written)
        assert len(read_table(written, TABLES[name])) == len(rows), "a row was split"


def _study(path: Path) -> None:
    """All tables and the values of the page, where one record of a study is this one; what is wrong is a row."""
    study, page = synthetic.small_study(), path.with_name("report.html")
    config, paths = synthetic.write_study(study, path.parent / "study", artefacts=False)
    paths[0].write_bytes(path.read_bytes())
    tables = path.parent / "tables"
    write_tables(config, paths, ROOT / "config/published.csv", tables)
    for name, columns in TABLES.items():
        assert len(read_table(tables / f"{name}.csv", columns)) == _rows(tables / f"{name}.csv"), name
    for name in figure_names():
        (path.parent / f"{name}.svg").touch()
    contents(StudyResults(config, tables), path.parent, page)


def _rows(path: Path) -> int:
    with path.open(encoding="utf-8", newline="") as file:
        return sum(1 for _ in csv.reader(file)) - 1


def _dataset_folder(path: Path) -> None:
    """A prepared dataset of which one file is this one."""
    content = path.read_bytes()
    if not (path.parent / "tiny").is_dir():
        write_dataset(path.parent / "tiny", valid_inputs.arrays(), valid_inputs.TINY)
    whole = (path.parent / "tiny" / path.name).read_bytes()
    (path.parent / "tiny" / path.name).write_bytes(content)
    try:
        load_dataset(path.parent / "tiny", verify=True)
    finally:
        (path.parent / "tiny" / path.name).write_bytes(whole)


def _program(path: Path) -> None:
    text = path.read_bytes().decode("utf-8", "replace")
    work_of(parse_program(text), "tpu")


def _published(path: Path) -> None:
    published_table(read_published(path), _summary())


def _bucket_listing(path: Path) -> None:
    names = path.read_bytes().decode("utf-8", "replace").splitlines()
    for name in names:
        if (run := foreign_run(name)) is not None:
            assert path.parent in (path.parent / run.path).resolve().parents, name


def _source(path: Path) -> None:
    """What a merged source says of its records, in the place where it is looked for."""
    folder = path.parent / "results/merged/aaaa"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / path.name).write_bytes(path.read_bytes())
    for record in merged_records(path.parent / "results").values():
        assert folder.resolve() in record.resolve().parents, record


@cache
def _summary() -> pd.DataFrame:
    return summary_table(synthetic.runs_table(synthetic.small_study(), lambda run: 1000.0))


@cache
def readers() -> tuple[Reader, ...]:
    """All of them."""
    image = struct.pack(">4B3I", 0, 0, 8, 3, 2, 4, 4) + bytes(range(32))
    program = (ROOT / "tests/forecast/programs/nested_loops-v5e-1x1.hlo").read_bytes()
    listing = b"cpu/mnist_cnn/tensorflow-float32-b256/r1/record.json\ncpu/matmul/jax-float32-b64-loop=fit/r12\n"
    return (
        Reader("config.yaml", (ROOT / "config/config.yaml").read_bytes(), _config),
        Reader("resolved.yaml", valid_inputs.resolved(), read_study),
        Reader("config.json", b'{"study": "a", "measure": {"seconds": 1, "repeats": 3}}', _config),
        Reader("record.json", valid_inputs.valid_record(), _record),
        Reader("compiled.json", valid_inputs.compiled(), read_compiled),
        Reader("study.json", valid_inputs.valid_record(), _study, share=0.02),
        Reader("export.json", valid_inputs.export(), read_export),
        Reader("dataset.json", valid_inputs.prepared("dataset.json"), _dataset_folder),
        Reader("images.npy", valid_inputs.prepared("images.npy"), _dataset_folder),
        Reader("published.csv", (ROOT / "config/published.csv").read_bytes(), _published),
        Reader("hardware.csv", HARDWARE.read_bytes(), hardware_rows),
        Reader("prices.csv", PRICES.read_bytes(), lambda path: hardware_rows(prices=path)),
        Reader("images-idx3-ubyte", image, lambda path: read_idx(path, (2, 4, 4))),
        Reader("images-idx3-ubyte.gz", gzip.compress(image), lambda path: read_idx(path, (2, 4, 4))),
        Reader("text.gz", gzip.compress(b"First Citizen"), lambda path: list(unpacked(path, LIMIT))),
        Reader("weather.tar.gz", valid_inputs.weather(), lambda path: read_archive(path, LIMIT)),
        Reader("source.json", valid_inputs.merged_source(), _source),
        Reader("program.hlo", program, _program),
        Reader("listing.txt", listing, _bucket_listing),
    )
