"""Mode predict on each backend: every call is timed, waits for its result, and predicts what the weights say."""

from functools import cache

import pytest
from backends.inference_behaviour import measured
from needs import require

pytestmark = pytest.mark.slow

BATCH = 4
SHORT = ("mixed_bfloat16", "bfloat16")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What a backend gives on so many replicas by precision, all in one process."""

    @cache
    def of(backend: str, replicas: int = 1) -> dict[str, dict]:
        if backend == "torch":
            require("torch")
        runs = {precision: {"precision": precision} for precision in ("float32", *(SHORT if replicas == 1 else ()))}
        folder = tmp_path_factory.mktemp(f"{backend}{replicas}")
        return measured(folder, runs, backend=backend, batch_size=BATCH, replicas=replicas)

    return of


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_a_run_has_latencies_throughput_and_cold_start(found, backend):
    parts = found(backend)["float32"]
    latency, steady, facts = parts["latency"], parts["steady"], parts["workload"]
    assert latency["calls"] >= max(1, steady["steps"])
    assert 0 < latency["p50"] <= (latency["p99"] or latency["p50"])
    assert (latency["p99"] is not None) == (latency["calls"] >= 100)
    assert steady["throughput"] == pytest.approx(BATCH * steady["steps"] / steady["seconds"])
    assert (facts["unit"], facts["steps_per_epoch"]) == ("prediction", 0)
    assert set(parts["cold"]) >= {"load", "build", "first_step", "warm_up"}
    assert parts["software"]["types"]["product"] == "float32"
    assert "epochs" not in parts and "artefacts" not in parts
    assert parts["difference"] < 1e-5  # without dropout, and of the right examples


@pytest.mark.parametrize("backend", ["jax", pytest.param("tensorflow", marks=pytest.mark.long)])
def test_replicas_share_a_batch_and_predict_the_same_in_its_order(found, backend):
    assert found(backend, 2)["float32"]["difference"] < 1e-5


@pytest.mark.parametrize("precision", SHORT)
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_short_formats_predict_too(found, backend, precision):
    parts = found(backend)[precision]
    assert parts["software"]["types"]["product"] == "bfloat16"
    assert 0 < parts["difference"] < 0.1
