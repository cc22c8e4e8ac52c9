"""The host's time of a step is measured on a machine once, and is the same for all devices of a question."""

import pytest

from whichdevice.forecast import host
from whichdevice.forecast.work import Item, Work


@pytest.mark.parametrize("software", [pytest.param("eager", marks=pytest.mark.needs("torch")), "xla"])
def test_rates_are_kept_for_the_machine(working_folder, software):
    host._known.clear()
    assert host.rates(software) == {}
    host.measure(software)
    first = host.rates(software)
    assert all(1e-7 < each < 0.1 for each in first.values()) and first
    host.measure(software)
    host._known.clear()
    assert host.rates(software) == first  # measured anew it would differ


def test_a_step_takes_the_host_longer_with_more_kernels_more_arrays_and_within_fit(monkeypatch):
    for software in ("xla", "eager"):
        monkeypatch.setitem(host._known, host._path(software), {"kernel": 1e-5, "array": 1e-6, "fit": 1e-3})
    compiled = Work("gpu", (Item("product", "half", 1e9, 1e6, 100),))
    call, larger, fit = (host.host_time(compiled, *given) for given in ((100, False), (200, False), (100, True)))
    assert (call, larger, fit) == pytest.approx((5e-4, 6e-4, 1.5e-3))
    assert host.host_time(compiled) is None
    assert host.host_time(Work("gpu", compiled.items, software="eager")) == pytest.approx(1.4e-3)
    monkeypatch.setitem(host._known, host._path("xla"), {})
    assert host.host_time(compiled, 100) is None
