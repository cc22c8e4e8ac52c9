"""The study's check of itself: one cell twice under two names, and once planted slower, as workloads of the study."""

from typing import TypeVar

from whichdevice.config.model import Study, Workload

FIRST, SECOND, SLOWED = SELF_CHECKS = ("self_check_a", "self_check_b", "self_check_slowed")

AnyStudy = TypeVar("AnyStudy", bound=Study)


def with_self_check(study: AnyStudy) -> AnyStudy:
    """The study with the workloads that its `self_check` asks for, and without any left from an earlier one."""
    workloads = {name: workload for name, workload in study.workloads.items() if name not in SELF_CHECKS}
    asked = study.self_check
    if asked.workload is not None:
        cell = Workload(
            module=asked.workload,
            batch_size=None if asked.batch_size is None else [asked.batch_size],
            backend=[asked.backend],
            precision=[asked.precision],
            fraction=[asked.fraction],
            epochs=0,
            validation=False,
        )
        workloads |= {name: cell for name in (FIRST, SECOND)}
        workloads[SLOWED] = cell.model_copy(update={"slowdown": asked.slowdown})
    return study.model_copy(update={"workloads": workloads})
