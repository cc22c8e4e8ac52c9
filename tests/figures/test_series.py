"""Lines and names that figures share: told apart without colours, named by what is not the usual."""

from itertools import pairwise

import pandas as pd
import pytest
from matplotlib.figure import Figure

from whichdevice.figures import style


def cell(**changes: object) -> dict[str, object]:
    """A row of summary."""
    return {
        "device": "cpu", "workload": "mnist_cnn", "backend": "tensorflow", "precision": "float32", "batch_size": 256,
        "fraction": 1.0, "loop": "epoch", "sequence_length": None, "unit": "image",
    } | changes  # fmt: skip


def test_no_two_of_nine_lines_share_a_marker() -> None:
    devices = ["cpu", "gpu", "cpu", "gpu", "tpu", "cpu", "cpu", "tpu", "gpu"]
    found = style.markers(devices, {"cpu": 0, "gpu": 1, "tpu": 2})
    assert len(set(found)) == len(devices)
    assert [found[place] for place in (0, 1, 4)] == ["o", "s", "^"]


def test_a_name_holds_what_varies_and_what_is_not_the_usual() -> None:
    rows = pd.DataFrame(
        [cell(), cell(device="gpu", loop="fit", fraction=0.1), cell(backend="jax", precision="bfloat16")]
    )
    assert style.names(rows) == [
        "mnist_cnn cpu b256",
        "mnist_cnn gpu b256 fit 10 % of data",
        "mnist_cnn cpu b256 jax bfloat16",
    ]


def test_labels_of_ratios_never_crowd() -> None:
    for ends in ([0.7, 1.1], [0.98, 1.01], [0.5, 3.9], [1, 60]):
        axes = Figure().add_subplot()
        style.ratio_axis(axes, ends)
        low, high = axes.get_xlim()
        ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
        assert low < min(ends) and high > max(ends) and 1 in ticks
        assert high / low > 8 or all(second / first > (high / low) ** 0.1 for first, second in pairwise(ticks))


def test_rows_left_to_the_tables_leave_no_workload_and_no_device_out() -> None:
    workloads, devices = ["mnist_official", "shakespeare_lstm", "weather_gru"], ["cpu", "gpu", "tpu"]
    precisions = ["float32", "mixed_bfloat16"]
    rows = pd.DataFrame(
        [
            cell(workload=workload, device=device, precision=precision, batch_size=size)
            for device in devices for workload in workloads for precision in precisions for size in (64, 256)
        ]
    )  # fmt: skip
    shown = style.capped(rows, 9)
    assert shown[["workload", "device"]].drop_duplicates().shape[0] == 9
    assert (shown["batch_size"] == 256).all() and style.left_out(rows, shown) == ""
    assert style.capped(rows, 36).equals(rows)
    assert len(style.capped(rows, 18)) == 18  # every number format at its largest size


def test_two_lengths_of_sequence_are_two_rows() -> None:
    rows = pd.DataFrame([cell(sequence_length=length, batch_size=size) for length in (50, 100) for size in (1, 2)])
    assert style.capped(rows, 3)["sequence_length"].tolist() == [50, 100]


def test_workloads_without_a_row_are_named() -> None:
    rows = pd.DataFrame([cell(workload=name) for name in ("a", "b", "c")])
    assert style.left_out(rows, style.capped(rows, 2)) == "; only in the tables: c"


@pytest.mark.parametrize("ends", [(0.025, 0.0475), (1.1, 1.9), (3, 11), (11, 700), (0.3, 4e5), (5.1, 19)])
def test_a_logarithmic_axis_has_two_labels_and_none_that_crowd(ends: tuple[float, float]) -> None:
    axes = Figure((3, 2)).add_subplot()
    axes.plot(ends, ends)
    style.log_axis(axes, "x", ends)
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert 2 <= len(ticks) <= 6
    assert all((second / first) > (high / low) ** 0.08 for first, second in pairwise(ticks))
