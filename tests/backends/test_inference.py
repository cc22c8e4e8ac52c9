"""Mode predict on each backend: every call is timed, waits for its result, and predicts what the weights say."""

from importlib.util import find_spec

import pytest
from backends.inference_behaviour import measured

pytestmark = pytest.mark.slow

BATCH = 4
FLOPS = 2 * (6 * 8 + 8 * 3)  # of one example, forward


def installed(backend: str) -> None:
    if find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_run_has_latencies_throughput_and_cold_start(tmp_path, backend):
    installed(backend)
    for loop, parts in measured(tmp_path, backend=backend, batch_size=BATCH).items():
        latency, steady, facts = parts["latency"], parts["steady"], parts["workload"]
        assert latency["calls"] >= max(1, steady["steps"]), loop
        p99 = latency["longest"] if latency["p99"] is None else latency["p99"]
        assert 0 < latency["p50"] <= latency["p90"] <= p99 <= latency["longest"]
        assert (latency["p99"] is not None) == (latency["calls"] >= 100)
        assert latency["mean"] == pytest.approx(latency["seconds"] / latency["calls"])
        assert steady["throughput"] == pytest.approx(BATCH * steady["steps"] / steady["seconds"])
        assert facts["flops_per_step"] == FLOPS * BATCH
        assert (facts["unit"], facts["steps_per_epoch"]) == ("prediction", 0)
        assert set(parts["cold"]) >= {"load", "build", "first_step", "warm_up"}
        assert parts["software"]["types"]["product"] == "float32"
        assert "epochs" not in parts and "artefacts" not in parts
        assert parts["difference"] < 1e-5  # without dropout, and of the right examples


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_replicas_share_a_batch_and_predict_the_same_in_its_order(tmp_path, backend):
    installed(backend)
    found = measured(tmp_path, backend=backend, batch_size=BATCH, replicas=2)
    assert found["epoch"]["difference"] < 1e-5
    assert found["fit"]["refused"] == "cpu: mode predict with loop fit runs on one replica, not on 2"


def test_several_replicas_of_pytorch_are_refused_in_one_line(tmp_path):
    installed("torch")
    found = measured(tmp_path, ("epoch",), backend="torch", batch_size=BATCH, replicas=2)
    assert found["epoch"]["refused"] == "cpu: mode predict of PyTorch runs on one replica, not on several"


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "bfloat16"])
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_short_formats_predict_too(tmp_path, backend, precision):
    installed(backend)
    for parts in measured(tmp_path, backend=backend, batch_size=BATCH, precision=precision).values():
        assert parts["software"]["types"]["product"] == "bfloat16"
        assert 0 < parts["difference"] < 0.1
