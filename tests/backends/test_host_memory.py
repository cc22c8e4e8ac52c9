"""Huge pages are asked for on a Linux CPU, and nowhere else."""

import pytest
from backends.scenario import request_for

from whichdevice.measure.backends.base import huge_pages

LINUX = pytest.mark.needs("linux")  # a variable of glibc


@LINUX
def test_the_callers_own_tunables_stay(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=1:glibc.malloc.hugetlb=0")
    assert huge_pages(request_for())["GLIBC_TUNABLES"] == "glibc.malloc.check=1:glibc.malloc.hugetlb=1"
