"""Small steps counted for every device, all in one process, and what is found in them."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from whichdevice.forecast import counting, tpu
from whichdevice.forecast.answer import forecast_of
from whichdevice.forecast.counting import count_steps
from whichdevice.forecast.products import CompiledRecord, ProgramRequest
from whichdevice.forecast.targets import all_targets
from whichdevice.forecast.time_model import LAUNCH
from whichdevice.forecast.work import FUSED_RECURRENT

TINY = str(Path(__file__).with_name("tiny_model.py"))
GAN = str(Path(__file__).parents[1] / "models" / "gan.py")
GPUS = [target.device for target in all_targets() if target.kind == "gpu"]
pytestmark = pytest.mark.slow


def request(device: str, module: str = "matmul", batch: int = 256, **settings) -> ProgramRequest:
    values = {"device": device, "workload": "w", "module": module, "precision": "float32", "batch_size": batch}
    return ProgramRequest.model_validate({**values, **settings})


GENERATED = {
    "precision": "mixed_float16",
    "sequence_length": 64,
    "options": {"layers": 2, "width": 128, "heads": 2, "vocabulary": 1000},
}
ASKED = {
    **{device: request(device) for device in GPUS},
    "estimate": request("TPU v5e", batch=1024, precision="bfloat16"),
    "estimated slice": request("TPU v6e", TINY, 64, devices=16, largest_batch=True),
    "without float16": request("TPU v6e", TINY, 64, precision="mixed_float16"),
    "half on T4": request("T4", "mnist_cnn", 128, precision="mixed_float16"),
    "tf32 on A100": request("A100 SXM 40GB", "mnist_cnn", 128, precision="tf32"),
    "inference": request("T4", TINY, 64, mode="predict"),
    "training": request("T4", TINY, 64),
    "lstm": request("T4", "shakespeare_lstm", 4, precision="mixed_float16", sequence_length=3),
    "two": request("A100 SXM 40GB", TINY, 64, devices=2),
    "uneven": request("A100 SXM 40GB", TINY, 63, devices=2),
    "refused": request("V100 SXM2", TINY, 64, precision="mixed_bfloat16"),
    "broken": request("T4", TINY, 64, options={"broken": True}),
    "own step": request("T4", GAN, 8),
    "untraceable": request("T4", TINY, 64, options={"untraceable": True}),
    **{mode: request("T4", "decoder", 2, mode=mode, **GENERATED) for mode in ("prefill", "decode")},
    "too large": request("T4", "decoder", 128, options={"layers": 1, "width": 64, "heads": 2}),
}
CACHE = 2 * 2 * 2 * 64 * 128 * 2  # keys and values, layers, sequences, places, width, float16


@pytest.fixture(scope="module")
def records(tmp_path_factory) -> dict[str, CompiledRecord]:
    patch = pytest.MonkeyPatch()
    patch.chdir(tmp_path_factory.mktemp("programs"))
    patch.setattr(counting, "PARALLEL", 1)
    yield dict(zip(ASKED, count_steps(list(ASKED.values())), strict=True))
    patch.undo()


@pytest.mark.parametrize("device", GPUS)
def test_every_gpu_of_the_sheet_has_the_same_count(records, device):
    record = records[device]
    assert record.status == "ok", record.reason
    assert record.facts.operations == 2 * 256**3
    assert forecast_of(record).step_time > 0


def test_a_product_needs_its_two_operands_and_its_result(records):
    facts = records["T4"].facts
    assert facts.memory_needed == 3 * 256**2 * 4
    assert facts.memory_available == pytest.approx(15843721216 - 600e6)


def test_a_training_step_does_about_three_times_the_operations_of_inference(records):
    training, inference = (records[name].facts for name in ("training", "inference"))
    assert inference.operations == 2 * 64 * (2 * 64 * 512)
    assert 2 < training.operations / inference.operations <= 3
    assert training.memory_needed > inference.memory_needed


def test_the_host_is_measured_where_a_step_is_counted_and_takes_longer_in_training(records):
    training, inference = (records[name].facts for name in ("training", "inference"))
    assert training.host_time > inference.host_time > LAUNCH * inference.kernels
    assert forecast_of(records["training"]).host_time == training.host_time


def test_number_formats_do_the_same_operations(records):
    assert records["tf32 on A100"].facts.operations == pytest.approx(records["half on T4"].facts.operations, rel=0.01)


def test_layers_of_cudnn_take_the_place_of_the_loops_of_an_lstm_and_the_row_says_so(records):
    assert records["lstm"].status == "ok", records["lstm"].reason
    assert forecast_of(records["lstm"]).step_notes == (FUSED_RECURRENT,)
    assert forecast_of(records["training"]).step_notes == ()


def test_two_gpus_share_the_batch_and_reduce_the_gradients(records):
    alone, shared = records["training"].facts, records["two"].facts
    assert shared.operations == pytest.approx(alone.operations / 2)
    weights = 2 * 64 * 512 + 512 + 64
    assert shared.collectives["all"].count >= 1
    assert shared.collectives["all"].nbytes == pytest.approx(4 * weights, rel=0.02)
    assert not alone.collectives


def test_a_tpus_estimate_has_what_a_tpu_leaves_of_its_memory(records):
    estimate = records["estimate"]
    assert estimate.status == "ok"
    facts = estimate.facts
    assert 15 * 2**30 < facts.memory_available < facts.memory == 16 * 2**30
    assert facts.operations == 2 * 1024**3
    assert forecast_of(estimate).step_notes == (tpu.ESTIMATE,)


def test_a_slices_estimate_has_its_exchange_and_its_largest_batch(records):
    facts = records["estimated slice"].facts
    assert records["estimated slice"].status == "ok" and facts.collectives["all"].count == 1
    assert facts.largest_batch > 64 and facts.largest_batch % 16 == 0


def test_what_is_too_large_keeps_its_need_and_its_forecast(records):
    record = records["too large"]
    assert record.status == "does_not_fit" and "too much" in record.reason
    row = forecast_of(record)
    assert row.fits is False and row.step_time > 0


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("uneven", "failed", "batch size 63 does not divide over the 2 devices"),
        ("refused", "refused", "V100 SXM2 has no bfloat16 products; take mixed_float16"),
        ("without float16", "refused", "TPU v6e has no mixed_float16; take float32 or mixed_bfloat16"),
        ("broken", "failed", "tiny_model.py: model() fails on jax: ValueError: no such layer"),
        ("untraceable", "failed", "tiny_model.py: model() fails on jax: "),
    ],
)
def test_what_goes_wrong_is_one_line_and_the_others_go_on(records, name, status, reason):
    record = records[name]
    assert record.status == status and reason in record.reason
    assert "\n" not in record.reason


def test_a_step_that_takes_too_long_ends_alone(records):
    hurried, other = request("T4", TINY, 48, timeout=0.01), request("T4", TINY, 16)
    first, second = count_steps([hurried, other])
    assert (first.status, second.status) == ("timed_out", "ok")


def test_a_second_call_counts_nothing_and_a_step_has_one_record_under_two_names(records, monkeypatch):
    monkeypatch.setattr(counting, "supervise_module", lambda *_: pytest.fail("counted again"))
    asked = [ASKED["training"], ASKED["training"].model_copy(update={"workload": "another", "timeout": 5.0})]
    first, second = count_steps(asked)
    assert first.facts == second.facts == records["training"].facts
    assert second.asked.workload == "another"


def command(folder: Path, *start: str) -> subprocess.Popen:
    """The command on a model of 64 numbers, for two devices."""
    arguments = [sys.executable, "-m", "whichdevice", "ask", TINY, "--no-measuring", "--devices", "T4,V100"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "WHICHDEVICE_LOCK_FOLDER": str(folder)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    listens = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what a shell runs in the background does not
    return subprocess.Popen([*start, *arguments], cwd=folder, env=environment, text=True, preexec_fn=listens, **pipes)


def command_line(process: psutil.Process) -> list[str]:
    """The arguments of a process; none where it has ended meanwhile."""
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def test_an_interrupt_ends_the_command_and_its_processes(tmp_path):
    process = command(tmp_path)
    children: list[psutil.Process] = []
    counting_began = False
    while not counting_began and process.poll() is None:
        time.sleep(0.1)
        with suppress(psutil.Error):
            children = psutil.Process(process.pid).children(recursive=True)
        counting_began = any("whichdevice.forecast.count.process" in command_line(child) for child in children)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    gone, left = psutil.wait_procs(children, timeout=120)
    assert process.returncode == 130 and "Interrupted" in errors and "Traceback" not in errors
    assert gone and not left


def test_too_little_memory_on_this_host_is_one_line(tmp_path):
    process = command(tmp_path, "/bin/sh", "-c", 'ulimit -v 1100000; exec "$@"', "sh")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 2 and not output and "Traceback" not in errors
    last = errors.splitlines()[-1]
    assert last.startswith("No device is left for tiny_model: T4") and "ulimit -v" in last


def test_a_train_step_for_another_framework_is_named_with_what_to_do(records):
    record = records["own step"]
    assert record.status == "failed"
    assert record.reason.startswith("the model's own train_step(data) is written for TensorFlow or PyTorch")
    assert "train_step(state, data)" in record.reason


def test_a_decoding_step_overwrites_its_cache_which_counts_as_memory(records):
    prefill, decode = (records[mode].facts for mode in ("prefill", "decode"))
    weights = 1000 * 128 + 64 * 128 + 2 * (12 * 128**2 + 13 * 128) + 2 * 128
    assert decode.memory_needed == pytest.approx(4 * weights + CACHE, rel=0.5)
    assert decode.memory_needed >= 4 * weights + CACHE
    assert prefill.memory_needed >= 4 * weights + CACHE
    assert (prefill.unit, prefill.units_per_step) == ("token", 2 * 32)
    assert (decode.unit, decode.units_per_step) == ("token", 2)


def test_operations_of_prompts_and_tokens_are_those_of_their_products(records):
    prefill, decode = (records[mode].facts for mode in ("prefill", "decode"))
    blocks, head = 2 * 12 * 128**2, 1000 * 128  # weights that a token is multiplied with
    attention = 2 * 2 * 2 * 32 * 32 * 128  # layers, products, sequences
    of_a_token = 2 * 2 * 2 * 64 * 128  # every place of the cache
    assert decode.operations == 2 * (2 * (blocks + head) + of_a_token)
    assert prefill.operations == 2 * (2 * 32 * blocks + 2 * head + attention)
    assert decode.nbytes > 2 * (blocks + head)  # every weight is read
    assert forecast_of(records["decode"]).mode == "decode"
