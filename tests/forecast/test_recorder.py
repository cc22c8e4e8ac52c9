"""Kernels of a PyTorch script that runs: what they multiply and move, and what belongs to the host."""

from needs import require

require("torch")
import torch

from whichdevice.forecast.torch.recorder import Recorder


def test_a_product_moves_its_factors_and_its_result_and_the_host_nothing() -> None:
    recorder = Recorder()
    weights, inputs = (recorder.fakes.empty(shape, torch.float32) for shape in ((32, 16), (64, 32)))
    recorder.hold_as("weights", weights)
    with recorder:
        made = inputs @ weights
        torch.ones(1000) + 1  # of the host
    moved = 4.0 * (32 * 16 + 64 * 32 + 64 * 16)
    (segment,) = recorder.take()
    assert segment.kernels == {("forward", "product", "float32", 2.0 * 64 * 32 * 16, moved): 1}
    assert recorder.is_held(made) and recorder.bytes_of["weights"] == 4 * 32 * 16
