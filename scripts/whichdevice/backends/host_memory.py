"""Huge pages for what a step allocates on a CPU: with small ones much of a step goes into handing pages out anew.

`python -m benchmarks.training_loops --ways "epoch, without GLIBC_TUNABLES" epoch` tells how much. Only for the `epoch`
loop: `fit` is what people run, with the memory that they get.
"""

import os
import sys

from whichdevice.records.schema import Request

VARIABLE = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb=1"  # glibc 2.35 and later ask the kernel for them (madvise); others ignore it


def huge_pages(request: Request) -> dict[str, str]:
    """The variable that must stand before the process starts, with the caller's own tunables."""
    if request.kind != "cpu" or request.loop != "epoch" or not sys.platform.startswith("linux"):
        return {}
    others = [each for each in os.environ.get(VARIABLE, "").split(":") if each and "malloc.hugetlb" not in each]
    return {VARIABLE: ":".join([*others, HUGE_PAGES])}
