"""The host's time of a PyTorch step is measured on this machine, once."""

import pytest

pytest.importorskip("torch", reason="no PyTorch: make torch-cpu")

from whichdevice.forecast.torch.host import host_time


def test_a_step_of_twice_the_kernels_takes_the_host_twice_as_long():
    assert host_time(2000) == 2 * host_time(1000)
    assert 4e-6 < host_time(1) < 1e-3
