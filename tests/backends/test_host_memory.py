"""Huge pages are asked for where this project's own loop runs on a Linux CPU, and nowhere else."""

import pytest
from backends.scenario import REQUEST

from whichdevice.backends.base import huge_pages
from whichdevice.records.schema import Request

LINUX = pytest.mark.needs("linux")  # a variable of glibc


def asked(**changes) -> Request:
    return Request(**{**REQUEST, **changes})


@LINUX
def test_the_callers_own_tunables_stay(monkeypatch):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=1:glibc.malloc.hugetlb=0")
    assert huge_pages(asked())["GLIBC_TUNABLES"] == "glibc.malloc.check=1:glibc.malloc.hugetlb=1"
