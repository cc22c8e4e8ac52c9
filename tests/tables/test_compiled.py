"""What the TPU compiler said becomes a table, a figure and a section, always apart from measured numbers."""

from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
import synthetic

from whichdevice.config.model import Device, Workload
from whichdevice.figures import draw, tpu_generations
from whichdevice.figures.results import StudyResults
from whichdevice.records.compiled import (
    Collective,
    CompiledRecord,
    CompileFacts,
    CompileRequest,
    ModelledTime,
    write_compiled,
)
from whichdevice.report.compiled import _largest, compiled_section
from whichdevice.tables.write import write_tables

ROOT = Path(__file__).parents[2]
GIB = 2**30
RANGE = ModelledTime(low=0.002, high=0.005, bytes_with_cycles=0.99, unknown_trip_counts=0)
ONLY_LOW = ModelledTime(low=0.001, high=None, bytes_with_cycles=0.8, unknown_trip_counts=0)
TOO_LARGE = {"memory_needed": 9 * GIB, "memory_missing": 1.5 * GIB, "collectives": {}}


def facts(**changes) -> CompileFacts:
    values = {"devices": 8, "hbm": 8 * GIB, "hbm_available": 7.5 * GIB, "memory_needed": 2 * GIB, "compile_seconds": 4}
    values |= {"flops_ratio": 0.98, "collectives": {"all-reduce": Collective(count=2, nbytes=2**20)}}
    return CompileFacts(**{**values, **changes})


def record(batch_size: int, status: str = "ok", **changes) -> CompiledRecord:
    asked = CompileRequest(
        topology="v2-2x2", workload="mnist_cnn", module="mnist_cnn", precision="mixed_bfloat16", batch_size=batch_size
    )
    return CompiledRecord(asked=asked, status=status, code_hash="0", **changes)


@pytest.fixture
def study(tmp_path: Path) -> StudyResults:
    records = [
        record(256, facts=facts(), modelled=RANGE),
        record(1024, facts=facts(collectives={}), modelled=ONLY_LOW),
        record(2**20, "does_not_fit", reason="too large", facts=facts(**TOO_LARGE)),
        record(512, "unavailable", reason="not installed: libtpu"),
    ]
    paths = [tmp_path / "compiled" / f"{one.asked.path}.json" for one in records]
    for one, path in zip(records, paths, strict=True):
        write_compiled(one, path)
    paths[0].with_name("cut.json").write_text('{"schema_version": 1, "asked"')
    config, runs = synthetic.write_study(synthetic.small_study(), tmp_path)
    compiled = [*paths, paths[0].with_name("cut.json"), paths[0].with_name("absent.json")]
    write_tables(config, runs, ROOT / "config/published.csv", tmp_path / "tables", compiled)
    return StudyResults(config, tmp_path / "tables")


def test_each_record_is_a_row_and_an_absent_one_none(study):
    table = study.compiled
    assert table["status"].tolist() == ["ok", "ok", "does_not_fit", "unavailable", "failed"]
    assert table["time_evidence"].dropna().unique().tolist() == ["modelled"]
    assert table["evidence"].dropna().unique().tolist() == ["compiled"]
    assert "cut.json" in table["reason"].iloc[-1]


def test_no_modelled_number_is_among_the_measured_ones(study):
    for table in (study.runs, study.summary, study.speedups, study.crossover):
        assert set(table["evidence"].dropna()) <= {"measured"}
        assert "v2-2x2" not in set(table["device"]) if "device" in table else True


def test_the_section_tells_ranges_low_ends_and_what_does_not_fit(study):
    section = compiled_section(study)
    assert [row["time"] for row in section["rows"]] == ["2 ms – 5 ms", "≥ 1 ms", ""]
    assert [row["fits"] for row in section["rows"]] == ["fits", "fits", "does not fit, 1.5 GiB too much"]
    assert section["rows"][0]["reduced"] == "2 × all-reduce, 1 MiB"
    assert "not installed: libtpu" in section["missing"][0]


def test_a_step_without_a_program_has_no_count_of_all_reduces(study):
    assert [row["reduced"] for row in compiled_section(study)["rows"]][1:] == ["none", "–"]


@pytest.mark.slow
def test_the_figure_draws_ranges_and_marks_low_ends(study, tmp_path):
    draw("tpu_generations", study.tables_folder, study.config_path, tmp_path / "f.svg", tmp_path / "f.png")
    text = " ".join(ElementTree.parse(tmp_path / "f.svg").getroot().itertext())
    assert "2 – 5" in text and "≥ 1" in text and "nobody ran it" in text
    assert "69.5 measured" in text, "what was measured at the same batch size stands apart, and says so"


@pytest.mark.parametrize(("reason", "told"), [(None, "1,000"), ("a larger batch may fit", "1,000 or more")])
def test_the_report_says_whether_a_larger_batch_may_fit(reason, told):
    row = pd.Series({"status": "ok", "largest_batch": 1000, "largest_batch_reason": reason})
    assert _largest(row) == told


def test_measured_steps_beside_modelled_ones_are_the_same_step_in_a_named_format(tmp_path):
    """A rehearsal on virtual replicas and a step of another length are other steps."""
    devices = {"cpu": Device(kind="cpu"), "cpu8": Device(kind="cpu", replicas=8), "gpu": Device(kind="gpu")}
    workloads = {"shakespeare_lstm": Workload(batch_size=[64, 128], sequence_length=[50, 100])}
    config, runs = synthetic.write_study(synthetic.small_study(devices=devices, workloads=workloads), tmp_path)
    asked = CompileRequest(
        topology="v2-2x2", workload="shakespeare_lstm", module="shakespeare_lstm", precision="mixed_bfloat16",
        batch_size=64, sequence_length=100,
    )  # fmt: skip
    path = tmp_path / f"compiled/{asked.path}.json"
    write_compiled(CompiledRecord(asked=asked, status="ok", code_hash="0", facts=facts(), modelled=RANGE), path)
    write_tables(config, runs, ROOT / "config/published.csv", tmp_path / "tables", [path])
    figure = tpu_generations.draw(StudyResults(config, tmp_path / "tables"))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "v2-2x2 b64 mixed_bfloat16 length 100", "cpu b64 float32 length 100", "gpu b64 float32 length 100",
    ]  # fmt: skip
