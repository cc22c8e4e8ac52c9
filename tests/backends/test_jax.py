"""The JAX backend compiles once, trains on what it is given, and says what it really multiplies."""

from functools import cache

import numpy as np
import pytest
from backends.jax_behaviour import STEPS, behaviour, request
from backends.scenario import model_file, play_each

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends.jax import MEETING, Jax, take_devices
from whichdevice.measure.backends.keras_on_jax import factor_formats, types_of
from whichdevice.measure.machine import gpu, tpu


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """Each number of replicas once."""
    return cache(lambda replicas: behaviour(replicas, tmp_path_factory.mktemp("jax")))


@pytest.fixture(params=[1, 8], ids=["one replica", "eight replicas"])
def found(request, seen):
    return {"replicas": request.param, **seen(request.param)}


@pytest.fixture
def alone(seen):
    return seen(1)


def weighted(parts, sizes):
    return np.average(np.array(parts), axis=0, weights=sizes)


@pytest.mark.slow
class TestSteps:
    def test_any_number_of_steps_a_call_learns_what_single_steps_learn(self, found):
        single = np.array(found["many"]["single"])
        np.testing.assert_allclose(weighted(found["many"]["uneven"], [1, 2, 35, 2]), single.mean(0), atol=1e-4)

    def test_nothing_compiles_after_the_first_step(self, found):
        assert found["many"]["compiled_after_the_first_step"] == 0

    def test_replicas_reduce_gradients_and_gather_no_batch(self, found):
        assert (found["many"]["reductions"] > 0) == (found["replicas"] > 1)
        assert found["many"]["gathered"] == 0

    def test_cpu_replicas_are_virtual_and_count_as_one_device(self, found):
        assert found["flags"]["devices"] == str(found["replicas"])
        assert found["device"] == [None, 1]

    def test_a_run_is_quiet(self, found):
        # JAX's plugin for CUDA, where it is installed, writes these where there is no GPU; nothing public stops it.
        noise = ("WARNING: All log messages before absl", "cuda_plugin_extension is not found", "Could not find cuda")
        assert [line for line in found["stderr"].splitlines() if not any(each in line for each in noise)] == []


@pytest.mark.slow
class TestEvaluation:
    def test_the_tail_counts_for_what_it_is(self, found):
        whole, parts = found["evaluation"]["whole"], found["evaluation"]["parts"]
        np.testing.assert_allclose(whole, parts, rtol=1e-5)
        assert whole[1] == pytest.approx(found["evaluation"]["accuracy"], abs=1e-6)

    def test_predictions_are_those_of_keras(self, found):
        assert found["evaluation"]["dtype"] == "float32"
        assert found["evaluation"]["difference"] < 1e-6


@pytest.mark.slow
class TestOperation:
    def test_a_chain_of_products_is_really_computed_on_every_replica(self, found):
        assert found["operation"]["shape"] == [found["replicas"], 32, 32]
        assert found["operation"]["places"] == found["replicas"]
        assert found["operation"]["difference"] < 1e-4


@pytest.mark.slow
class TestState:
    def test_reset_brings_back_weights_optimiser_and_random_state(self, alone):
        first, _, _, reset = alone["state"]["losses"]
        assert first == reset

    def test_adopting_what_was_published_goes_on_from_there(self, alone):
        first, second, again, _ = alone["state"]["losses"]
        assert second == again != first

    def test_the_keras_model_changes_only_when_published_and_never_loses_its_memory(self, alone):
        assert alone["state"]["untouched"]
        assert alone["state"]["still"]

    def test_a_learning_rate_set_on_the_keras_optimiser_is_adopted(self, alone):
        assert alone["state"]["kept"] == pytest.approx(1e-3)
        assert alone["state"]["frozen"]

    def test_lack_of_memory_is_recognised_with_the_size_asked_for(self, alone):
        assert alone["memory"]["recognised"]
        assert not alone["memory"]["other"]
        assert str(2**44) in alone["memory"]["said"].splitlines()[0]

    def test_a_step_that_cannot_fit_the_host_ends_before_it_starts(self, alone):
        assert alone["crowded"]["recognised"]
        assert "the compiled step needs" in alone["crowded"]["said"]


SIXTEEN_BITS = [
    ("mixed_bfloat16", "float32", "bfloat16"),
    ("bfloat16", "bfloat16", "bfloat16"),
    ("mixed_float16", "float32", "float16"),
]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """What training makes of a small model in a precision, played in one process."""
    folder = tmp_path_factory.mktemp("small")
    own = model_file(folder, activities=0.0)
    precisions = ["float32", *(precision for precision, *_ in SIXTEEN_BITS)]
    runs = {precision: {"workload": own, "precision": precision} for precision in precisions}
    return play_each(folder, runs, STEPS, backend="jax")


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "storage", "product"), SIXTEEN_BITS)
def test_sixteen_bits_learn_about_the_same_and_are_marked_as_emulated_on_a_cpu(small, precision, storage, product):
    result, exact = small[precision], small["float32"]
    assert (result["types"]["storage"], result["types"]["product"]) == (storage, product)
    assert result["types"]["emulated"]
    assert result["losses"][0] == pytest.approx(exact["losses"][0], abs=0.02)
    assert result["losses"] != exact["losses"]
    assert exact["types"] == {"storage": "float32", "product": "float32", "sum": "float32", "emulated": None}


class Absent:
    """A JAX that finds so many devices, or says why it finds none."""

    __version__ = "0.0"

    def __init__(self, found: int = 0, error: str | None = None) -> None:
        self.found, self.error = found, error

    def devices(self, kind: str) -> list[str]:
        if self.error is not None:
            raise RuntimeError(self.error)
        return [f"{kind}:{number}" for number in range(self.found)]


def refusal(monkeypatch, kind: str, error: str, packages: tuple[str, ...] = (), absent: str | None = None) -> str:
    monkeypatch.setattr("whichdevice.measure.backends.jax._installed", lambda package: package in packages)
    for module in (gpu, tpu):
        monkeypatch.setattr(module, "absent_reason", lambda *_: absent)
    with pytest.raises(StudyError) as raised:
        take_devices(Absent(error=error), request(kind=kind, device="mine"))
    assert "\n" not in str(raised.value)
    return str(raised.value)


class TestDevices:
    def test_no_gpu_says_whether_package_device_or_driver_is_missing(self, monkeypatch):
        unknown = "Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present."
        plugin = ("jax-cuda12-plugin",)
        assert "installed without CUDA" in refusal(monkeypatch, "gpu", unknown)
        assert refusal(monkeypatch, "gpu", unknown, plugin, "no GPU found") == "mine: no GPU found"
        old = (
            "Unable to initialize backend 'cuda': INTERNAL: CUDA driver version is insufficient (set JAX_PLATFORMS='')"
        )
        said = refusal(monkeypatch, "gpu", old, plugin)
        assert "take a driver" in said and said.endswith("CUDA driver version is insufficient")

    def test_no_tpu_says_whether_library_or_device_is_missing_or_taken(self, monkeypatch):
        none = "Unable to initialize backend 'tpu': NOT_FOUND: TPU initialization failed: No jellyfish device found."
        assert "no libtpu" in refusal(monkeypatch, "tpu", none)
        assert refusal(monkeypatch, "tpu", none, ("libtpu",), "no TPU found") == "mine: no TPU found"
        taken = "Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 17."
        assert "in use by another process" in refusal(monkeypatch, "tpu", taken, ("libtpu",))

    def test_a_run_sees_only_its_devices_and_takes_memory_as_it_needs_it(self, monkeypatch):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        cpu, gpu, tpu = (Jax.environment(request(kind=kind, replicas=2), 3) for kind in ("cpu", "gpu", "tpu"))
        assert [part["JAX_PLATFORMS"] for part in (cpu, gpu, tpu)] == ["cpu", "cuda,cpu", "tpu,cpu"]
        assert [part["CUDA_VISIBLE_DEVICES"] for part in (cpu, gpu, tpu)] == ["-1", "0,1", "-1"]
        assert cpu["JAX_NUM_CPU_DEVICES"] == "2" and "JAX_NUM_CPU_DEVICES" not in gpu
        assert gpu["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        assert gpu["PJRT_NPROC"] == tpu["PJRT_NPROC"] == "3"

    def test_replicas_that_share_cores_have_threads_enough_to_wait_for_one_another(self):
        """On one core 8 replicas with 2 threads hung in two runs of `jax_behaviour` of three."""
        counted = [int(Jax.environment(request(replicas=replicas), 3)["PJRT_NPROC"]) for replicas in (1, 2, 8)]
        assert counted == [3, 8, 32]

    def test_replicas_of_a_busy_host_may_meet_late_beside_the_users_own_flags(self, monkeypatch):
        monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=dumps")
        one, two = (Jax.environment(request(replicas=replicas), 2) for replicas in (1, 2))
        assert two["XLA_FLAGS"].split() == ["--xla_dump_to=dumps", MEETING]
        assert "XLA_FLAGS" not in one

    def test_tf32_is_for_gpus(self):
        with pytest.raises(StudyError, match="only GPUs"):
            Jax(request(precision="tf32"), 2).initialise()

    def test_a_batch_that_replicas_cannot_share_is_an_error(self):
        with pytest.raises(StudyError, match="16 cannot be divided over 3"):
            Jax(request(replicas=3), 2).training_loop(None, None, None, None)

    @pytest.mark.parametrize(
        ("kind", "precision", "products"),
        [
            ("cpu", "float32", "highest"),
            ("tpu", "float32", "highest"),
            ("gpu", "tf32", "tensorfloat32"),
            ("gpu", "mixed_bfloat16", "highest"),  # its float32 layers: JAX's default there is TF32
            ("tpu", "mixed_bfloat16", None),
        ],
    )
    def test_float32_factors_are_multiplied_as_asked(self, kind, precision, products):
        assert Jax(request(kind=kind, precision=precision), 2)._matmul_precision() == products


LIBRARY_CALL = """
  %a = bf16[64,32]{1,0} parameter(0)
  %b = bf16[32,16]{1,0} parameter(1)
  %c = f32[8,8]{1,0} parameter(2)
  %gemm = (bf16[64,16]{1,0}, s8[4194304]{0}) custom-call(%a, %b), custom_call_target="__cublas$gemm"
  %small = f32[8,8]{1,0} dot(%c, %c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %other = f32[8,8]{1,0} custom-call(%c), custom_call_target="Sharding"
"""
WIDENED = LIBRARY_CALL.replace("bf16", "f32")


class TestTypes:
    def test_formats_of_factors_are_weighed_by_work(self):
        formats = factor_formats(LIBRARY_CALL)
        assert formats == {"bf16": 64 * 32 * 16, "f32": 8 * 8 * 8}

    def test_the_program_is_believed_over_the_request(self):
        assert types_of("float32", "tpu", "float32", LIBRARY_CALL, LIBRARY_CALL).product == "bfloat16"

    def test_what_the_compiler_widens_is_emulated(self):
        assert types_of("mixed_bfloat16", "tpu", "float32", LIBRARY_CALL, LIBRARY_CALL).emulated is None
        widened = types_of("mixed_bfloat16", "tpu", "float32", LIBRARY_CALL, WIDENED)
        assert (widened.product, widened.emulated) == ("bfloat16", "XLA computes them as float32 products")
