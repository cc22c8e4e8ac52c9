"""Lines and names that figures share: told apart without colours, named by what is not the usual."""

from itertools import pairwise

import pandas as pd
from matplotlib.figure import Figure

from whichdevice.figures import series


def cell(**changes: object) -> dict[str, object]:
    """A row of summary."""
    return {
        "device": "cpu", "workload": "mnist_cnn", "backend": "tensorflow", "precision": "float32", "batch_size": 256,
        "fraction": 1.0, "loop": "epoch", "sequence_length": None, "unit": "image",
    } | changes  # fmt: skip


def test_no_two_of_nine_lines_share_a_marker() -> None:
    devices = ["cpu", "gpu", "cpu", "gpu", "tpu", "cpu", "cpu", "tpu", "gpu"]
    found = series.markers(devices, {"cpu": 0, "gpu": 1, "tpu": 2})
    assert len(set(found)) == len(devices)
    assert [found[place] for place in (0, 1, 4)] == ["o", "s", "^"]


def test_a_name_holds_what_varies_and_what_is_not_the_usual() -> None:
    rows = pd.DataFrame(
        [cell(), cell(device="gpu", loop="fit", fraction=0.1), cell(backend="jax", precision="bfloat16")]
    )
    assert series.names(rows) == [
        "mnist_cnn cpu b256",
        "mnist_cnn gpu b256 fit 10 % of data",
        "mnist_cnn cpu b256 jax bfloat16",
    ]


def test_labels_of_ratios_never_crowd() -> None:
    for ends in ([0.7, 1.1], [0.98, 1.01], [0.5, 3.9], [1, 60]):
        axes = Figure().add_subplot()
        series.ratio_axis(axes, ends)
        low, high = axes.get_xlim()
        ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
        assert low < min(ends) and high > max(ends) and 1 in ticks
        assert high / low > 8 or all(second / first > (high / low) ** 0.1 for first, second in pairwise(ticks))
