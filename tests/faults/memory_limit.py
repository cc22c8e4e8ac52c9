"""Memory that really runs out: by the kernel's limit for a group of processes, or by that of one process."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.trial import STUDY, Trial

GROUPS = Path("/sys/fs/cgroup")
LIMIT = 2**31  # bytes for everything that the call starts
TAKE = "np.full(2**29, 1.0)"  # 4 GiB, written to
TAKE_OF_LITTLE = (
    "import resource; used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize(); "
    "resource.setrlimit(resource.RLIMIT_AS, (used + 2**28,) * 2); np.full(2**27, 1.0)"
)
OWN = """
import os
import time

import numpy as np
from whichdevice.workloads.base import Recipe
from whichdevice.workloads.matmul import Matmul


class Own(Matmul):
    recipe = Recipe("a test", 8)

    def operands(self, random):
        {act}
        return super().operands(random)
"""


def own_workload(trial: Trial, act: str, timeout: float = 600) -> None:
    """Give the study one more workload, which does `act` when its run has started."""
    (trial.folder / f"{trial.study}.py").write_text(OWN.format(act=act), encoding="utf-8")
    workloads = {**STUDY["workloads"], "own": {"module": f"{trial.study}.py", "backend": ["jax"]}}
    measure = {**STUDY["measure"], "repeats": 1, "timeout": timeout}
    trial.config = {**STUDY, "workloads": workloads, "measure": measure}


@contextmanager
def limited_group(name: str) -> Iterator[Path | None]:
    """A control group (version 1 or 2) with LIMIT bytes; None where this user cannot make one."""
    parent = GROUPS if (GROUPS / "cgroup.controllers").exists() else GROUPS / "memory"
    limit = "memory.max" if parent == GROUPS else "memory.limit_in_bytes"
    group = parent / f"whichdevice-{name}-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(LIMIT))
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        group.rmdir()


def killed_for_memory(trial: Trial) -> str | None:
    """The kernel kills a run that takes more than its group may have: a row with that status."""
    own_workload(trial, TAKE)
    with limited_group(trial.study) as group:
        if group is None:
            return "limiting the memory of a group of processes needs root"
        enter = ("sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(group))
        code, said = trial.call(prefix=enter)
    trial.expect(code == 0 and "1 out_of_memory" in said, f"the limited call ended with {code}: {said[-1500:]}")
    trial.check("killed by the system (signal 9) for lack of memory", {"ok", "out_of_memory"})
    return None


def allocation_refused(trial: Trial) -> str | None:
    """An allocation that fails is such a row as well, in the words of the library."""
    own_workload(trial, TAKE_OF_LITTLE)
    trial.check("Unable to allocate 1.00 GiB", {"ok", "out_of_memory"})
    return None
