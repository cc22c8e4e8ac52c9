"""Which quality a workload's runs have to reach, of what, and who says so.

The config's `target` wins on any data. A recipe's target is what its publication reached, to two digits on the easy
side; it counts on the real data. On stand-in data, whose qualities say nothing about the real ones, a recipe may have
one that was chosen here, or none.
"""

from typing import NamedTuple

from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Target

STANDIN = "standin"


class Goal(NamedTuple):
    """A target as it is applied to runs: `value` of `quantity`, a column of table `epochs`; or why there is none."""

    value: float | None
    quantity: str
    higher_is_better: bool
    source: str


def goal_of(
    study: Study, workload: str, source: str | None, metric: str | None, higher_is_better: bool, validated: bool
) -> Goal:
    """The target for runs of one of the study's workloads, by the data that they read and what they told each epoch."""
    kind = "loss" if metric is None else "metric"
    higher = higher_is_better and metric is not None
    own = study.workloads[workload].target if workload in study.workloads else None
    if own is not None:
        place = f"config: workloads.{workload}.target"
        return Goal(own, f"validation_{kind}" if validated else kind, higher, place)
    target = recipe_target(study, workload)
    quantity = kind if target is not None and target.training else f"validation_{kind}"
    missing = f"set workloads.{workload}.target"
    if target is None:
        return Goal(None, quantity, higher, f"no target: {missing}")
    if not target.training and not validated:
        return Goal(None, quantity, higher, f"no target: the published one is of validation data; {missing}")
    if source == STANDIN and target.standin is None:
        return Goal(None, quantity, higher, f"no target on stand-in data: {missing}")
    if source == STANDIN:
        return Goal(target.standin, quantity, higher, "chosen for stand-in data; nobody published it")
    return Goal(target.value, quantity, higher, target.source if target.own else f"published: {target.source}")


def recipe_target(study: Study, workload: str) -> Target | None:
    """The target of a workload's recipe; None without one, or where its file is gone."""
    module = study.workloads[workload].module if workload in study.workloads else None
    try:
        return workload_class(module or workload).recipe.target
    except StudyError:
        return None
