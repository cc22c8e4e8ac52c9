"""Measured roofs and sheets, each cell against them, and breakdowns: known records in, exact numbers out."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic
from synthetic_parts import breakdown_of

from whichdevice.cells import Run
from whichdevice.config.hardware import hardware_rows
from whichdevice.config.model import Device, Measure, Study, Workload
from whichdevice.records.schema import Record
from whichdevice.records.timings import Steady
from whichdevice.tables.columns import read_table
from whichdevice.tables.sheet_peaks import sheet_peak, sheet_row
from whichdevice.tables.write import TABLES, write_tables

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"
TFLOPS = {("matmul", 512): 0.1, ("matmul", 1024): 0.2, ("mnist_cnn", 256): 0.05}
GBS = 20.0


def study_of(**changes: object) -> Study:
    """Two backends' products in two sizes, a stream, one model."""
    settings = {
        "devices": {"cpu": Device(kind="cpu")},
        "measure": Measure(repeats=2),
        "workloads": {
            "matmul": Workload(batch_size=[512, 1024], backend=["tensorflow", "jax"]),
            "memory_stream": Workload(batch_size=[64]),
            "mnist_cnn": Workload(batch_size=[256]),
        },
    }
    return synthetic.small_study(**(settings | changes))


def exact(run: Run, record: Record) -> Record:
    """The same record at exactly the speed of TFLOPS (JAX half of it) or GBS."""
    facts, cell = record.workload, run.cell
    if facts.unit == "gigabyte":
        step_time = facts.bytes_per_step / (GBS * 1e9)
    else:
        rate = TFLOPS[(cell.workload, cell.batch_size)] * (0.5 if cell.backend == "jax" else 1)
        step_time = facts.flops_per_step / (rate * 1e12)
    record.steady = Steady(steps=10, seconds=10 * step_time, throughput=1 / step_time)
    if record.breakdown is not None:
        record.breakdown = breakdown_of(step_time)
    return record


def tables_of(study: Study, folder: Path) -> dict[str, pd.DataFrame]:
    config, paths = synthetic.write_study(study, folder, artefacts=False, change=exact)
    write_tables(config, paths, PUBLISHED, folder / "tables")
    return {name: read_table(folder / "tables" / f"{name}.csv", columns) for name, columns in TABLES.items()}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    return tables_of(study_of(), tmp_path_factory.mktemp("limits"))


def test_the_peak_is_the_best_product_and_the_device_has_the_best_of_its_backends(tables) -> None:
    limits = tables["limits"].set_index("backend")
    assert limits["peak_tflops"].to_dict() == pytest.approx({"tensorflow": 0.2, "jax": 0.1})
    assert limits["peak_size"].tolist() == [1024, 1024]
    assert limits["device_peak_tflops"].tolist() == pytest.approx([0.2, 0.2])
    assert limits["bandwidth_gbs"]["tensorflow"] == pytest.approx(GBS)
    assert pd.isna(limits["bandwidth_gbs"]["jax"])
    assert limits["device_bandwidth_gbs"].tolist() == pytest.approx([GBS, GBS])
    assert limits["ridge"].tolist() == pytest.approx([10.0, 10.0])


def test_each_format_has_its_own_stream_and_the_device_the_best_of_all(tmp_path: Path) -> None:
    stream = Workload(batch_size=[64], backend=["tensorflow", "jax"], precision=["float32", "bfloat16"])
    found = tables_of(study_of(workloads={"memory_stream": stream}), tmp_path)["limits"]
    assert sorted(zip(found["backend"], found["product"], strict=True)) == [
        (backend, product) for backend in ("jax", "tensorflow") for product in ("bfloat16", "float32")
    ]
    assert found["bandwidth_n"].tolist() == [2] * 4
    assert found["device_bandwidth_gbs"].tolist() == pytest.approx([GBS] * 4)


def test_utilisation_stands_beside_throughput_and_never_above_its_roof(tables) -> None:
    summary, roofline = tables["summary"].set_index("workload"), tables["roofline"]
    assert summary["mfu"]["mnist_cnn"] == pytest.approx(0.05 / 0.2)
    assert summary["mfu_sheet"].isna().all()  # the made-up processor has no sheet
    model = roofline[roofline["workload"] == "mnist_cnn"].iloc[0]
    assert model["intensity"] == pytest.approx(model["flops_per_step"] / model["bytes_per_step"], rel=1e-5)
    assert model["roof_tflops"] == pytest.approx(min(0.2, model["intensity"] * GBS / 1e3), rel=1e-5)
    assert model["bound"] == ("compute" if model["intensity"] >= 10 else "memory")
    stream = roofline[roofline["workload"] == "memory_stream"].iloc[0]
    assert (stream["bound"], stream["of_roof"]) == ("memory", pytest.approx(1.0))


def test_a_study_without_any_record_has_empty_tables(tmp_path: Path) -> None:
    config, _ = synthetic.write_study(study_of(), tmp_path, change=lambda run, record: None)
    write_tables(config, [], PUBLISHED, tmp_path / "tables")
    for name in ("limits", "roofline", "breakdown"):
        assert read_table(tmp_path / "tables" / f"{name}.csv", TABLES[name]).empty


def test_without_a_product_there_is_no_utilisation_and_nothing_breaks(tmp_path: Path) -> None:
    found = tables_of(study_of(workloads={"mnist_cnn": Workload(batch_size=[256])}), tmp_path)
    assert found["limits"].empty
    assert found["summary"]["mfu"].isna().all()


def test_the_parts_of_a_step_add_up_and_come_from_the_runs_broken_down(tables) -> None:
    rows = tables["breakdown"]
    assert rows["workload"].tolist() == ["mnist_cnn"]
    row = rows.iloc[0]
    assert row["n"] == 1
    parts = sum(row[f"{name}_time"] for name in ("input", "host", "compute", "other"))
    assert parts == pytest.approx(row["step_time"])
    assert row["compute_share"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("NVIDIA H200", "H200 SXM"),
        ("Tesla T4", "T4"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", None),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100-SXM4-40GB", None),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", None),  # a slice has not the peaks of the whole
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", None),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla P100-SXM2-16GB", "P100 SXM2"),
        ("Tesla K80", "K80 (one GK210)"),
        ("TPU v5 lite", "TPU v5e"),
        ("AMD EPYC 7763 64-Core Processor", "EPYC 7763"),
        ("Intel(R) Xeon(R) Processor", None),
        (None, None),
    ],
)
def test_a_device_finds_its_sheet_by_name_or_has_none(name: str | None, row: str | None) -> None:
    assert sheet_row("cpu", name, synthetic.small_study(), hardware_rows()) == row


def test_the_sheet_that_the_config_names_wins() -> None:
    study = synthetic.small_study(devices={"gpu": Device(kind="gpu", hardware="T4")})
    assert sheet_row("gpu", "NVIDIA H200", study, hardware_rows()) == "T4"


@pytest.mark.parametrize(
    ("row", "product", "replicas", "cores", "tflops", "gbs"),
    [
        ("H200 SXM", "float32", 1, None, 67, 4800),
        ("H200 SXM", "tf32", 2, None, 989, 9600),
        ("H200 SXM", "bfloat16", 1, None, 989, 4800),
        ("T4", "bfloat16", 1, None, None, 320),  # it has none
        ("TPU v2", "bfloat16", 8, None, 184, 2864),  # four chips of two cores
        ("EPYC 7763", "float32", 1, 2, 5.018 / 32, 204.8),  # two of 64 cores
        ("EPYC 7763", "float32", 1, 128, 2 * 5.018, 2 * 204.8),  # two sockets
        ("EPYC 7763", "float32", 1, None, None, 204.8),  # nobody knows how many
    ],
)
def test_a_sheet_counts_chips_and_of_a_processor_the_cores_used(row, product, replicas, cores, tflops, gbs) -> None:
    found = sheet_peak(row, product, replicas, cores, hardware_rows())
    assert (found.tflops, found.gigabytes) == (pytest.approx(tflops) if tflops else None, pytest.approx(gbs))


@pytest.mark.parametrize(("threads", "physical", "cores"), [(2, 1, 1), (8, 64, 8), (2, None, None)])
def test_two_threads_of_one_core_are_one_core_of_the_sheet(
    threads: int, physical: int | None, cores: int | None, tmp_path: Path
) -> None:
    study = study_of(devices={"cpu": Device(kind="cpu", hardware="EPYC 7763")})

    def change(run: Run, record: Record) -> Record:
        seen = {"threads": threads, "physical_cores": physical}
        return exact(run, record.model_copy(update={"machine": record.machine.model_copy(update=seen)}))

    config, paths = synthetic.write_study(study, tmp_path, artefacts=False, change=change)
    write_tables(config, paths, PUBLISHED, tmp_path / "tables")
    found = read_table(tmp_path / "tables/limits.csv", TABLES["limits"])["sheet_tflops"].iloc[0]
    assert found == pytest.approx(5.018 * cores / 64, rel=1e-5) if cores else pd.isna(found)
