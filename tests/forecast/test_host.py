"""The host's time of a step is measured on this machine, once."""

import pytest

from whichdevice.forecast.xla import host as xla_host


def test_a_pytorch_step_of_twice_the_kernels_takes_the_host_twice_as_long():
    pytest.importorskip("torch", reason="no PyTorch: make torch-cpu")
    from whichdevice.forecast.torch.host import host_time

    assert host_time(2000) == 2 * host_time(1000)
    assert 4e-6 < host_time(1) < 1e-3


def test_a_compiled_step_takes_the_host_longer_with_more_arrays_and_within_fit():
    call, larger, fit = (xla_host.host_time(*given) for given in ((100, False), (200, False), (100, True)))
    assert larger == 2 * call and call < fit
    assert call > 1e-6 and fit < 0.1
