"""What a plan expects of a run: what an eager framework spends between operations counts beside the operations."""

import pytest
import synthetic

from whichdevice.measure.timing import warm_up_steps
from whichdevice.models.costs import Costs
from whichdevice.study.cells import study_runs
from whichdevice.study.config.model import Workload
from whichdevice.study.planning import estimate

FLOPS = 1e9  # of an example: a step of 256 at 1e12 a second takes 0.256 s


@pytest.mark.slow
def test_a_long_sequence_of_small_operations_is_slow_where_pytorch_starts_each_from_python(
    monkeypatch: pytest.MonkeyPatch, working_folder: object
) -> None:
    costs = Costs(FLOPS / 3, FLOPS, 0.0, 1000, 1000, operations=20_000)
    monkeypatch.setattr(estimate, "model_costs", lambda *_, **__: costs)
    monkeypatch.setattr(estimate, "step_flops", lambda *_: 1e12)
    study = synthetic.small_study(
        workloads={"mnist_cnn": Workload(batch_size=[256], backend=["jax", "torch"])},
        data={"sources": {"mnist": "standin"}},
    )
    runs = {run.cell.backend: run for run in study_runs(study) if run.cell.device == "cpu" and run.repeat == 2}
    compiled, eager = (estimate.estimate_run(study, runs[name]).seconds for name in ("jax", "torch"))
    steps = study.measure.min_steps + warm_up_steps(9.0, study.measure.seconds) + 1
    assert eager - compiled == pytest.approx(steps * 20_000 * estimate.EAGER_SECONDS, rel=0.3)
