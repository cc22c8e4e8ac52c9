"""The verdict says what the tables carry: who wins, how sure that is, and what was not measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import synthetic
from synthetic_energy import metered

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Workload
from whichdevice.records.schema import Record
from whichdevice.report.best_devices import (
    ALONE,
    DECIDED,
    DISAGREEING,
    answer_sentences,
    board,
    marks,
    split_board,
    verdict_section,
)
from whichdevice.report.statements import answers
from whichdevice.tables.decision_rule import SAME, UNDECIDED


def results(
    folder: Path,
    speeds: Callable[[Run], float],
    measured: list[str] | None = None,
    weights: Callable[[Run], int | None] = lambda run: None,
    ok: Callable[[Run], bool] = lambda run: True,
    meter: bool = False,
    **study: Any,
) -> Any:
    """A study of two devices whose throughputs are given, but for a per mille; of models with so many weights.

    Runs that are not `ok` ran out of memory.
    """

    def change(run: Run, record: Record) -> Record:
        speed = speeds(run) * (1 + 0.001 * ((run.repeat + len(run.cell.device)) % 3))
        record = synthetic.slowed(record, (record.steady.throughput or speed) / speed)
        if (count := weights(run)) is not None:
            record.workload = record.workload.model_copy(update={"parameters": count})
        if not ok(run):
            return synthetic.failed_record(made, run, "out_of_memory", "out of memory")
        return metered(record) if meter else record

    made = synthetic.small_study(**({"measure": Measure(repeats=4)} | study))
    config, paths = synthetic.write_study(made, folder, devices=measured, artefacts=False, change=change)
    return synthetic.Results(config, paths)


def test_the_faster_device_is_named_with_its_settings_and_by_how_much(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device] + run.cell.batch_size / 1000)
    (row,) = board(study)
    fastest = row.choices["fastest"]
    assert (fastest.devices, fastest.state, fastest.settings) == (["gpu"], DECIDED, "tensorflow, batch 1024")
    assert [(other.device, other.ratio.value.text) for other in fastest.others] == [("cpu", "4.96")]
    assert row.changes == [["gpu at every size, ", (256.0, "256"), " to ", (1024.0, "1024")]]
    assert answer_sentences(study, [row]) == ["gpu is the fastest in the one workload compared."]


def test_a_crossover_is_told_with_its_interval(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: {"cpu": 300.0, "gpu": run.cell.batch_size * 0.6}[run.cell.device])
    ((phrase,),) = [row.changes for row in board(study)]
    assert phrase[0] == "gpu from about " and phrase[-2:] == ["]", ", below cpu"]


def test_devices_within_five_per_cent_are_both_named(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: {"cpu": 100, "gpu": 101}[run.cell.device])
    (row,) = board(study)
    assert row.choices["fastest"].state == SAME and set(row.choices["fastest"].devices) == {"cpu", "gpu"}
    assert answer_sentences(study, [row]) == ["Fastest: the same within 5 % in the one workload compared."]


def test_one_repeat_decides_nothing(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: {"cpu": 1, "gpu": 9}[run.cell.device], measure=Measure(repeats=1))
    (row,) = board(study)
    assert row.choices["fastest"].state == UNDECIDED
    assert answer_sentences(study, [row]) == ["Fastest: undecided in the one workload compared."]
    assert any("one gives no interval" in mark.text for mark in marks(study))


def test_a_device_alone_is_called_no_winner(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: 100.0 + run.cell.batch_size, measured=["cpu"])
    (row,) = board(study)
    assert row.choices["fastest"].state == ALONE and row.epoch is not None
    assert row.changes[0][0] == "fastest at "
    assert answer_sentences(study, [row]) == ["Only cpu was measured, so which device is best cannot be said."]
    first = marks(study)[0]
    assert (first.title, first.text, first.command) == (
        "gpu not measured",
        "no gpu on this host",
        "snakemake --cores 1 gpu --configfile results/small/config.yaml",
    )


def test_each_sequence_length_counts_by_itself(tmp_path: Path) -> None:
    workloads = {"shakespeare_lstm": Workload(batch_size=[32], sequence_length=[50, 100])}
    study = results(tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device], workloads=workloads)
    rows = board(study)
    assert [row.note for row in rows] == ["float32 · length 50", "float32 · length 100"]
    found = answer_sentences(study, rows)
    assert found == ["gpu is the fastest in all 2 workloads, each sequence length counted separately."]
    assert not [mark for mark in marks(study) if "several models" in mark.title]


def test_models_of_one_length_count_as_models(tmp_path: Path) -> None:
    workloads = {"shakespeare_lstm": Workload(batch_size=[32], sequence_length=[50])}
    study = results(tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device], workloads=workloads)
    (row,) = board(study)
    twice, longer = row._replace(details=["1,000 weights"]), row._replace(length=["length 100"])
    assert answer_sentences(study, [row, twice])[0].endswith("in all 2 workloads, each model counted separately.")
    assert answer_sentences(study, [row, twice, longer])[0].endswith(
        "all 3 workloads, each sequence length and model counted separately."
    )


def test_a_cell_whose_repeats_were_measured_before_and_after_an_update_is_marked(tmp_path: Path) -> None:
    found = results(tmp_path, lambda run: 100.0)
    assert not [mark for mark in marks(found) if "mix" in mark.title]
    found.runs.loc[found.runs["repeat"] == 2, "versions"] = "tensorflow 9.9"
    (mark,) = [mark for mark in marks(found) if "mix" in mark.title]
    assert mark.title == "4 of 4 cells mix repeats" and mark.text == "measured with other library versions"
    assert mark.command is not None and "--configfile results/small/config.yaml" in mark.command
    found.runs["versions"] = found.runs["repeat"].map("snakemake 9.{}; tensorflow 2.21".format)
    assert not [mark for mark in marks(found) if "mix" in mark.title]  # Snakemake runs in no measured process


def test_two_models_of_one_name_are_two_pieces_of_work(tmp_path: Path) -> None:
    study = results(
        tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device],
        weights=lambda run: {"cpu": 1_000, "gpu": 2_000}[run.cell.device],
    )  # fmt: skip
    rows = board(study)
    assert [(row.choices["fastest"].devices, row.choices["fastest"].state) for row in rows] == [
        (["cpu"], ALONE),
        (["gpu"], ALONE),
    ]
    assert rows[0].note.startswith("float32 · 1,000 weights, ") and rows[0].missing == []
    assert answer_sentences(study, rows) == [
        "Measured: cpu and gpu, never on the same work, so which is best cannot be said."
    ]
    (mark,) = [mark for mark in marks(study) if mark.title == "mnist_cnn is several models"]
    assert "1,000 weights" in mark.text and "2,000 weights" in mark.text


def test_the_first_screen_has_one_number_format_for_each_workload(tmp_path: Path) -> None:
    workloads = {"mnist_cnn": Workload(batch_size=[256], precision=["mixed_bfloat16", "float32"])}
    study = results(tmp_path, lambda run: 100.0, workloads=workloads, measured=["cpu"])
    first, others = split_board(board(study))
    assert [row.note for row in first] == ["float32"] and [row.note for row in others] == ["mixed_bfloat16"]


def test_a_price_makes_a_cheapest_and_a_missing_meter_is_no_lowest_energy(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu", usd_per_hour=1), "gpu": Device(kind="gpu", usd_per_hour=100)}
    study = results(tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device], devices=devices)
    (row,) = board(study)
    assert row.choices["cheapest"].devices == ["cpu"] and "lowest_energy" not in row.choices


def test_a_device_without_a_price_is_said_to_have_none(tmp_path: Path) -> None:
    devices = {
        "cpu": Device(kind="cpu", usd_per_hour=1), "gpu": Device(kind="gpu", usd_per_hour=100),
        "own": Device(kind="gpu"),
    }  # fmt: skip
    study = results(tmp_path, lambda run: {"cpu": 100, "gpu": 500, "own": 600}[run.cell.device], devices=devices)
    (row,) = board(study)
    assert ("own", None, "has no price") in row.choices["cheapest"].others
    told = answer_sentences(study, [row])
    assert told[1] == "Cheapest, of the devices with a price: cpu in the one workload compared."


def test_a_device_that_failed_where_others_measured_is_said_to_have_failed(tmp_path: Path) -> None:
    def change(run: Run, record: Record) -> Record:
        if (run.cell.device == "cpu") == (run.cell.fraction == 0.5):
            return synthetic.failed_record(made, run, reason="killed by signal 9")
        return record

    made = synthetic.small_study(
        devices={name: Device(kind=name) for name in ("cpu", "gpu")} | {"own": Device(kind="gpu")},
        workloads={"mnist_cnn": Workload(batch_size=[256], fraction=[0.1, 0.5])},
    )
    config, paths = synthetic.write_study(made, tmp_path, artefacts=False, change=change)
    (row,) = board(synthetic.Results(config, paths))
    assert row.note == "float32 · 50 % of data" and row.missing == ["cpu: 0 of 2 ok, 2 failed"]


def test_money_of_a_single_operation_is_per_million_of_its_own_unit(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu", usd_per_hour=1), "gpu": Device(kind="gpu", usd_per_hour=2)}
    workloads = {"matmul": Workload(batch_size=[512])}
    study = results(tmp_path, lambda run: 100.0, devices=devices, workloads=workloads)
    (row,) = board(study)
    assert row.choices["cheapest"].value.unit == "USD per million products"


def test_each_length_of_sequences_has_its_own_best_size(tmp_path: Path) -> None:
    workloads = {"shakespeare_lstm": Workload(batch_size=[32, 64], sequence_length=[50, 200])}
    better = {50: 64, 200: 32}

    def speed(run: Run) -> float:
        return 900.0 if run.cell.batch_size == better[run.cell.sequence_length or 0] else 100.0

    rows = board(results(tmp_path, speed, workloads=workloads, measured=["cpu"]))
    assert {row.note: row.changes[0][:2] for row in rows} == {
        f"float32 · length {length}": ["fastest at ", (float(size), str(size))] for length, size in better.items()
    }


def test_settings_with_failed_repeats_win_only_where_there_are_no_others_and_say_so(tmp_path: Path) -> None:
    def speed(run: Run) -> float:
        return {"cpu": 1.0, "gpu": 40.0 + run.cell.batch_size / 1000}[run.cell.device]

    def lucky(run: Run) -> bool:
        return run.cell.device == "cpu" or run.cell.batch_size == 256 or run.repeat == 1

    def rare(run: Run) -> bool:
        return run.cell.device == "cpu" or run.repeat <= 3

    study = results(tmp_path / "lucky", speed, ok=lucky)
    fastest = board(study)[0].choices["fastest"]
    assert (fastest.devices, fastest.state, fastest.settings) == (["gpu"], DECIDED, "tensorflow, batch 256")
    assert answers(study)[0]["where"] == "gpu, tensorflow, float32, batch 256"
    study = results(tmp_path / "rare", speed, ok=rare)
    assert board(study)[0].choices["fastest"].settings == "tensorflow, batch 1024; 3 of 4 ok"
    assert answers(study)[0]["where"].endswith("batch 1024, 3 of 4 ok")


def test_where_means_and_common_repeats_disagree_nothing_is_decided(tmp_path: Path) -> None:
    """The cpu is behind by all repeats of its own, and ahead in each that both have."""

    def speed(run: Run) -> float:
        slow = run.repeat <= 3
        return {"cpu": 75.0, "gpu": 50.0 if slow else 100.0}[run.cell.device]

    study = results(
        tmp_path, speed, ok=lambda run: run.cell.device == "gpu" or run.repeat <= 3, measure=Measure(repeats=10)
    )
    fastest = board(study)[0].choices["fastest"]
    assert (fastest.devices, fastest.state, fastest.words) == (["gpu", "cpu"], UNDECIDED, DISAGREEING)
    assert fastest.others[0].words == "less; 3 of 10 ok"
    assert answer_sentences(study, board(study)) == ["Fastest: undecided in the one workload compared."]


def test_meters_and_prices_that_count_different_things_are_said_to(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu", usd_per_hour=1), "gpu": Device(kind="gpu", hardware="P100 PCIe")}
    speeds = {"cpu": 100, "gpu": 500, "own": 400}
    study = results(tmp_path / "unlike", lambda run: speeds[run.cell.device], devices=devices, meter=True)
    (row,) = board(study)
    assert row.choices["lowest_energy"].settings.endswith("; board alone, host not counted")
    assert row.choices["lowest_energy"].others[0].words.endswith("processor packages alone, memory not counted")
    assert row.choices["cheapest"].settings.endswith("; price of the GPU only")
    assert answer_sentences(study, [row])[1:] == [
        "Cheapest, by prices that count different things: gpu in the one workload compared.",
        "Lowest energy, by meters that count different things: gpu in the one workload compared.",
    ]
    devices = {name: Device(kind="gpu", usd_per_hour=1) for name in ("gpu", "own")}
    study = results(tmp_path / "alike", lambda run: speeds[run.cell.device], devices=devices, meter=True)
    (row,) = board(study)
    assert not any(choice.unlike for choice in row.choices.values())
    assert row.choices["lowest_energy"].settings == "tensorflow, batch 256"


def test_work_that_one_device_alone_measured_is_counted_beside_what_was_compared(tmp_path: Path) -> None:
    workloads = {name: Workload(batch_size=[256]) for name in ("mnist_cnn", "mnist_official", "fashion_cnn")}
    study = results(
        tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device], workloads=workloads,
        ok=lambda run: run.cell.device == "cpu" or run.cell.workload != "fashion_cnn",
    )  # fmt: skip
    told = "gpu is the fastest in all 2 workloads compared, 1 more measured on one device only."
    assert answer_sentences(study, board(study)) == [told]


def test_a_cell_whose_repeats_read_other_data_is_marked(tmp_path: Path) -> None:
    found = results(tmp_path, lambda run: 100.0)
    found.runs.loc[found.runs["repeat"] == 2, ["source", "data_checksum"]] = ["files", "1" * 64]
    (mark,) = [mark for mark in marks(found) if "mix" in mark.title]
    assert mark.text == "measured with other data source, data"


def test_what_is_said_of_batch_sizes_is_of_the_same_model(tmp_path: Path) -> None:
    """Two models of one name: what one of them does is nothing that the other does."""
    study = results(
        tmp_path, lambda run: {"cpu": 100.0, "gpu": 500.0, "own": 50.0}[run.cell.device],
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu"), "own": Device(kind="gpu")},
        weights=lambda run: 2_000 if run.cell.device == "own" or run.cell.batch_size == 256 else 1_000,
    )  # fmt: skip
    small = next(row for row in board(study) if "1,000 weights" in row.note)
    assert small.changes == [["one size compared, ", (1024.0, "1024")]]


def test_the_number_format_that_most_devices_ran_is_on_the_first_screen(tmp_path: Path) -> None:
    """The gpu ran out of memory in float32: what was compared in another format is not denied."""
    workloads = {"mnist_cnn": Workload(batch_size=[256], precision=["float32", "mixed_bfloat16"])}
    study = results(
        tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device], workloads=workloads,
        ok=lambda run: run.cell.device == "cpu" or run.cell.precision != "float32",
    )  # fmt: skip
    section = verdict_section(study)
    assert [row.note for row in section["rows"]] == ["mixed_bfloat16"]
    assert [row.note for row in section["others"]] == ["float32"]
    assert section["lead"] == ["gpu is the fastest in the one workload compared."] and not section["alone"]


def test_single_operations_count_where_nothing_else_was_compared(tmp_path: Path) -> None:
    workloads = {"mnist_cnn": Workload(batch_size=[256]), "matmul": Workload(batch_size=[512])}
    study = results(
        tmp_path, lambda run: {"cpu": 100, "gpu": 500}[run.cell.device], workloads=workloads,
        ok=lambda run: run.cell.device == "cpu" or run.cell.workload == "matmul",
    )  # fmt: skip
    told = "is the fastest in the one workload compared, 1 more measured on one device only."
    assert verdict_section(study)["lead"] == [f"gpu {told}"]


def test_a_cell_whose_repeats_ran_on_other_cards_and_machines_is_marked(tmp_path: Path) -> None:
    found = results(tmp_path, lambda run: 100.0)
    second = (found.runs["repeat"] == 2) & (found.runs["device"] == "gpu")
    found.runs.loc[second, ["device_name", "machine_id"]] = ["Another GPU", "ab12"]
    found.runs.loc[~second, "machine_id"] = "cd34"
    (mark,) = [mark for mark in marks(found) if "mix" in mark.title]
    assert mark.title == "2 of 4 cells mix repeats" and mark.text == "measured with other device, machine"


def test_refused_runs_are_told_with_how_to_try_them_again(tmp_path: Path) -> None:
    found = results(tmp_path, lambda run: 100.0)
    found.runs.loc[0, "status"] = "refused"
    (mark,) = [mark for mark in marks(found) if "refused" in mark.title]
    assert mark.command is not None and mark.command.endswith("--config retry=failed")
