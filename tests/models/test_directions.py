"""Which way the answer goes for awkward kinds of models: forecasts of a T4 and an H100, from a trace of the step."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from beside import beside
from needs import require

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.work import FUSED_GRU, FUSED_RECURRENT, LOOPED
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

require("torch")
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.records import step_of
from whichdevice.forecast.torch.trace import trace_step

BESIDE = beside(__file__)

FOLDER = Path(__file__).parent
HOST = (10e-6, 0.1)  # seconds of a usual host for each kernel, and their spread
ANY, FAST = "any card will do: the host decides", "a fast card is worth it"
DIRECTIONS = {
    "small_mlp_torch": ANY, "small_lstm_torch": ANY, "graphs_torch": ANY, "diffusion_unet_torch": FAST,
    "audio_encoder_torch": FAST, "recommender_torch": FAST,
}  # fmt: skip


def traced(name: str, **options):
    chosen = Model.read(f"{FOLDER}/{name}.py")
    size = chosen.recipe.batch_size
    workload = chosen.workload(Options(size, "mixed_bfloat16", given=options))
    return trace_step(step_of(workload, "mixed_bfloat16", "train"), size), size


@pytest.mark.parametrize("name", DIRECTIONS)
def test_a_small_model_takes_any_card_and_a_large_one_a_fast_one(name):
    work = traced(name)[0].work
    host = (work.kernels * HOST[0], HOST[1])
    slow, fast = (forecast_step(work, hardware_rows()[device], host=host) for device in ("T4", "H100 SXM"))
    if DIRECTIONS[name] == ANY:
        assert slow.seconds < 1.3 * fast.seconds
    else:
        assert slow.device_time > 3 * host[0] and slow.seconds > 3 * fast.seconds


def test_a_recommenders_step_moves_its_whole_tables_several_times():
    """Adam reads four arrays of every row and writes three, of all rows; in one pass or in many."""
    trace, _ = traced("recommender_torch")
    table = 4.0 * 500_000 * 64
    assert 7 * table < trace.work.bytes < 24 * table and trace.work.operations < 1e9


LAYERS = BESIDE["layers"]


@pytest.mark.slow
def test_layers_are_cudnns_where_every_recurrent_layer_of_a_model_is():
    """In a process of its own: the backend of Keras is chosen once in each."""
    environment = os.environ | {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", LAYERS], env=environment, capture_output=True, text=True, check=True)
    lstm, gru, looped = ("LSTM", 7, 4), ("GRU", 7, 4), LOOPED.format(kinds="LSTM")
    assert done.stdout.splitlines() == [
        f"{[lstm]} {FUSED_RECURRENT}", f"{[gru, lstm, lstm]} {FUSED_GRU}", f"[] {looped}", f"[] {looped}", "[] None",
    ]  # fmt: skip


def test_a_recurrent_layer_says_how_it_runs():
    assert traced("small_lstm_torch")[0].notes == (FUSED_RECURRENT,) and traced("small_mlp_torch")[0].notes == ()


def test_messages_of_a_graph_are_gathered_and_scattered():
    kinds = {item.kind for item in traced("graphs_torch")[0].work.items}
    assert "gather and scatter" in kinds


def test_a_checkpointed_encoder_runs_forward_twice_and_keeps_less():
    """Four passes in place of three: a backward pass is two."""
    (checkpointed, _), (plain, _) = traced("checkpointed_torch"), traced("checkpointed_torch", plain=True)
    assert checkpointed.work.operations == pytest.approx(4 / 3 * plain.work.operations, rel=0.03)
    assert checkpointed.memory["activations"] < 0.5 * plain.memory["activations"]
