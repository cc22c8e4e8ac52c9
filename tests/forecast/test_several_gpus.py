"""A traced step on several GPUs: what a rank holds, what it sends, and how it is taken so that it fits."""

import pytest
from beside import beside
from needs import require

require("torch")

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.targets import Target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.facts import facts_on
from whichdevice.forecast.torch.memory import FROZEN, at_peak, ends
from whichdevice.forecast.torch.several import on_gpus, way_that_fits
from whichdevice.forecast.torch.trace import Trace
from whichdevice.forecast.work import Item, Work

BESIDE = beside(__file__)

GB = 1e9
PARTS = {"weights": 16 * GB, "gradients": 16 * GB, "optimizer": 32 * GB, "activations": 8 * GB, "working": 10 * GB}
MEMORY = PARTS | {"peak": 74 * GB, "layers": 7.0, "layer": 2 * GB}
ITEMS = (Item("product", "half", 1e12, 1e9, 10), Item("optimizer", "half", 0.0, 100 * GB, 1))
WORK = Work("gpu", ITEMS, software="eager")
TRACE = Trace(WORK, WORK, MEMORY, 8_000_000_000, 8_000_000_000)


def sent(trace):
    """Bytes of all-reduces; gathering is half of one."""
    return sum(each.bytes * each.count for each in trace.work.items if each.kind == "collective")


def updated(trace):
    return sum(each.bytes for each in trace.work.items if each.kind == "optimizer")


@pytest.mark.parametrize("sharing, master, held, gathered, collected, update", BESIDE["a rank of eight"])
def test_a_rank_of_eight(sharing, master, held, gathered, collected, update):
    found = on_gpus(TRACE, 8, sharing, master)
    lasting = sum(found.memory[part] for part in ("weights", "gradients", "optimizer"))
    assert lasting / GB == pytest.approx(held)
    assert (found.memory["working"] - PARTS["working"]) / GB == pytest.approx(gathered)
    assert sent(found) / GB == pytest.approx(collected)
    assert updated(found) / GB == pytest.approx(update)


def test_copies_of_the_update_are_shared_out_as_the_weights_are():
    updates = Trace(WORK, WORK, MEMORY | {"passes": 74 * GB, "update": 32 * GB, "peak": 96 * GB}, 8, 8)
    alone, shared = on_gpus(updates, 8, "ddp"), on_gpus(updates, 8, "fsdp")
    assert alone.memory["peak"] == 112 * GB  # with the buckets of gradients
    assert shared.memory["update"] == 4 * GB
    assert shared.memory["peak"] == shared.memory["passes"] == 26 * GB


def test_a_peak_in_the_update_has_its_copies_and_no_activations():
    update = {"passes": 74 * GB, "update": 32 * GB, "peak": 96 * GB}
    assert "activations" not in at_peak(MEMORY | update) and at_peak(MEMORY | update)["update"] == 32 * GB
    assert "update" not in at_peak(MEMORY | update | {"update": 1 * GB, "peak": 74 * GB})


def test_what_may_fit_is_wider_for_shared_and_for_compiled_steps():
    one, two, compiled = ends(100.0), ends(100.0, devices=2), ends(100.0, compiled=True)
    assert two[0] < one[0] < 100 < one[1] < two[1] and compiled[0] < two[0] and compiled[1] == one[1]
    assert ends(100.0, by_library=20.0) == (one[0], pytest.approx(1.2 * one[1]))


def test_frozen_weights_may_have_gradients_where_a_layer_is_one_parameter_of_fsdp():
    """As LitGPT wraps a block: Llama 2 13B with LoRA ran out of memory on two A100 40GB, which hold it otherwise."""
    lora = MEMORY | {"weights": 26 * GB, "gradients": 0.5 * GB, "optimizer": 1 * GB, "layers": 13.0, "peak": 38 * GB}
    adapters = Trace(WORK, WORK, lora, 13_000_000_000, 250_000_000)
    targets = [Target("A100 SXM 40GB", devices, hardware_rows()["A100 SXM 40GB"]) for devices in (2, 4)]
    two, four = (facts_on(target, on_gpus(adapters, target.devices, "fsdp"), WORK) for target in targets)
    assert two.memory_missing is None and two.memory_tight and not four.memory_tight
    assert FROZEN not in on_gpus(TRACE, 2, "fsdp").memory and FROZEN not in on_gpus(adapters, 2, "ddp").memory


def traced(size, changes):
    """Activations grow with the batch; checkpointing leaves a quarter."""
    share = size * (0.25 if changes else 1.0)
    memory = MEMORY | {"working": PARTS["working"] * share, "peak": 64 * GB + PARTS["working"] * share}
    return Trace(WORK, WORK, memory, TRACE.parameters, TRACE.trained)


@pytest.mark.parametrize("devices, memory, words", BESIDE["a step of eight examples a gpu is taken so that it fits"])
def test_a_step_of_eight_examples_a_gpu_is_taken_so_that_it_fits(devices, memory, words):
    found = way_that_fits(traced, 8, devices, lambda trace: trace.memory["peak"] <= memory * GB, tunable=True)
    assert found.words(devices) == words


def test_what_a_file_says_is_kept():
    found = way_that_fits(traced, 8, 1, lambda trace: False)
    assert (found.batch, found.accumulation, found.changes) == (8, 1, ())


@pytest.mark.parametrize("device, devices, faster", BESIDE["cards without links of their own share the hosts bridge"])
def test_cards_without_links_of_their_own_share_the_hosts_bridge(device, devices, faster):
    """VGG16, whose 138 million gradients every step exchanges, with 32 images a card."""
    row = hardware_rows()[device]
    items = (Item("convolution", "tf32", 3e10, 1e8, 13 * 3 * 32 // 10), Item("memory", "float32", 0.0, 1e9, 20))
    memory = PARTS | {"gradients": 0.553 * GB, "peak": 5 * GB}
    one = Trace(Work("gpu", items, software="eager"), WORK, memory, 138_000_000, 138_000_000)
    alone = forecast_step(one.work, row).seconds
    together = forecast_step(on_gpus(one, devices, "ddp").work, row, devices=devices).seconds
    assert faster[0] < devices * alone / together < faster[1]
