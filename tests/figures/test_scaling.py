"""What more replicas bring: one line per setting, from the largest share of the data; what differs too is hollow."""

from pathlib import Path

import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Study, Train, Workload
from whichdevice.figures import speedups, style
from whichdevice.records.schema import Record
from whichdevice.report.contents import scaling_rows
from whichdevice.results import StudyResults

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"


def study_of(**workload: object) -> Study:
    """One workload on a GPU with one and with four replicas, and on one CPU as one and as two devices."""
    return synthetic.small_study(
        devices={
            "cpu": Device(kind="cpu"), "cpu2": Device(kind="cpu", replicas=2),
            "gpu1": Device(kind="gpu"), "gpu4": Device(kind="gpu", replicas=4),
        },
        workloads={"mnist_official": Workload(batch_size=[1024], **workload)},  # type: ignore[arg-type]
        measure=Measure(repeats=3),
        train=Train(epochs=1),
    )  # fmt: skip


def results_of(study: Study, folder: Path, compiled: tuple[str, ...] = ()) -> StudyResults:
    """Its tables; XLA compiled the step on the devices in `compiled`."""

    def change(run: Run, record: Record) -> Record:
        record.software.flags |= {"jit_compile": "on" if run.cell.device in compiled else "off"}
        return record

    config, paths = synthetic.write_study(study, folder, change=change, artefacts=False)
    return synthetic.Results(config, paths)


def test_shares_of_the_data_are_no_strokes_of_one_line(tmp_path: Path) -> None:
    figure = speedups.draw_scaling(results_of(study_of(fraction=[0.1, 0.5]), tmp_path))
    lines = [container.lines[0].get_xdata() for container in figure.axes[0].containers]
    assert [len(line) for line in lines] == [2]
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == "strong: b1024 in all, 50 % of data"


def test_each_length_of_sequence_is_a_line(tmp_path: Path) -> None:
    study = study_of()
    workloads = {"shakespeare_lstm": Workload(batch_size=[64], sequence_length=[50, 100])}
    found = results_of(study.model_copy(update={"workloads": workloads}), tmp_path)
    texts = [text.get_text() for text in speedups.draw_scaling(found).axes[0].get_legend().get_texts()]
    assert texts == ["strong: b64 in all, length 50", "strong: b64 in all, length 100"]


def test_a_ratio_that_is_of_xla_too_is_hollow_and_keeps_its_efficiency(tmp_path: Path) -> None:
    found = results_of(study_of(), tmp_path, compiled=("gpu1",))
    with style.applied():
        figure = speedups.draw_scaling(found)
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == style.PAPER]
    assert [list(line.get_xdata()) for line in hollow] == [[4]]  # type: ignore[arg-type]
    assert "hollow: XLA on on the baseline, off here" in figure._footnote  # type: ignore[attr-defined]
    rows = {row["devices"]: row["efficiency"] for row in scaling_rows(found)}
    assert rows["gpu1 → gpu4"] is not None and rows["cpu → cpu2"] is None
    assert list(rows)[-1] == "cpu → cpu2"
