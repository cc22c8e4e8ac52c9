"""PyTorch scripts written for GPUs: run here to their first step, of any size, and traced; nothing trains."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from needs import require

require("torch")
import torch

from whichdevice.base.files import package_first
from whichdevice.forecast.torch.memory import HALF, LIGHT
from whichdevice.forecast.torch.recorded import Recordings
from whichdevice.forecast.torch.trace import Trace
from whichdevice.models.address import Address, read_address
from whichdevice.models.script.found import SHARED, Conditions, Found, Script
from whichdevice.models.script.look import known, probe, recording
from whichdevice.models.script.run import ScriptRun
from whichdevice.models.script.torch_fakes import Fakes, Outcomes
from whichdevice.models.script.torch_names import Names
from whichdevice.models.script.torch_recorded import BY_HAND

SCRIPTS = Path(__file__).parent / "scripts"
CASES = yaml.safe_load((SCRIPTS.parent / "torch_scripts.yaml").read_text(encoding="utf-8"))
SCRIPT = {name: case["script"] for name, case in CASES.items()}
MAX_GB = 3.0
FOUND = {  # script, what it needs: what is found
    ("torch_volume.py", ""): Found("torch", 4, 8, 3, precision="mixed", asks=4, keeps="examples"),
    ("torch_entry.py", ""): Found("torch", 16, 640, 3, precision="float32"),
    ("torch_graph.py", "torch geometric"): Found("torch", 200, 40000, 1, precision="float32"),
    ("torch_graphs.py", "torch geometric"): Found("torch", 32, 320, 5, precision="float32", unit="graph"),
    ("torch_boxes.py", ""): Found("torch", 8, 400, 3),
    ("torch_nested.py", ""): Found("torch", 2, 400, 3),
    ("torch_large.py", ""): Found("torch", 2, 1000, 1, precision="float32", asks=None, keeps="steps"),
    ("torch_processes.py", ""): Found(
        "torch", 32, 640, 3, precision="mixed", conditions=Conditions(gpus=2), asks=2, keeps="examples"
    ),
    ("torch_deepspeed.py", ""): Found("torch", 32, 320, 3, precision="mixed", asks=None, keeps="examples"),
    ("torch_parts.py", ""): Found("torch", 6400, 64000, 3, precision="float32"),
    ("torch_cuda.py", ""): Found("torch", 64, 640, 3, precision="mixed", notes=(SHARED.format(batch=64, gpus=2),)),
    ("torch_trainer.py", "accelerate"): Found(
        "torch", 8, 100, 2, precision="mixed", asks=None, keeps="examples"
    ),
    ("torch_lightning.py", "lightning"): Found("torch", 64, 640, 3, precision="mixed", asks=4, keeps="examples"),
    ("torch_fabric.py", "lightning"): Found("torch", 64, 640, 3, precision="mixed", asks=2, keeps="examples"),
}
TRACE = """
import sys
from pathlib import Path
from whichdevice.forecast.torch.records import Traced
from whichdevice.forecast.products import ProgramRequest
request = ProgramRequest(
    device="A100 SXM 80GB", workload="script", module=sys.argv[1], precision="tf32", batch_size=int(sys.argv[2])
)
print(Traced(request).trace(request.batch_size).memory["peak"] / 1e9)
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6)
"""


COLLECTIONS = "for collection in range(50)"
MINIBATCHES = """
    def minibatches():
        for epoch in range(2):
            yield from (0, 32)
    updates = minibatches()
    for start in updates:
        if True:"""


@pytest.fixture(autouse=True, scope="module")
def in_one_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("scripts"))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("name, needs", FOUND)
def test_a_script_for_gpus_runs_to_its_first_step_and_writes_nothing(name, needs):
    if needs:
        require(needs)
    Path("written").unlink(missing_ok=True)
    found = probe(read_address(f"{SCRIPTS}/{name}"))
    assert replace(found, line=None, pipeline=()) == FOUND[name, needs]
    assert not Path("written").exists()


@pytest.mark.slow
@pytest.mark.parametrize("shares", [False, True])
def test_the_gpus_of_a_scripts_own_command_are_asked_for(shares, tmp_path):
    text = '"""torchrun --nproc_per_node=8 train.py"""\n' + SCRIPT["a loader that only a loop has"]
    text = text.replace(
        "DataLoader(Scaled(), 64", f"DataLoader(Scaled(), {'64 // torch.cuda.device_count()' * shares or 64}"
    )
    text = text.replace("64 //", "batch_size //").replace("net =", "batch_size = 64\nnet =")
    found = probed(text, tmp_path)
    assert found.notes == (SHARED.format(batch=64, gpus=8),) * shares
    assert (found.keeps, found.asks) == (("batch", 1) if shares else ("examples", 8))


@pytest.mark.slow
@pytest.mark.parametrize(("devices", "gpus"), [("", 4), (", device_ids=[0, 1]", 2)])
def test_the_gpus_of_one_process_share_its_batch(devices, gpus, tmp_path):
    text = SCRIPT["a loader that only a loop has"]
    text = text.replace("torch.nn.Linear(4, 2)", f"torch.nn.DataParallel(torch.nn.Linear(4, 2){devices})")
    assert probed(text, tmp_path).notes == (SHARED.format(batch=64, gpus=gpus),)


@pytest.mark.slow
@pytest.mark.parametrize(("divided", "keeps"), [("", "steps"), ("// max(torch.cuda.device_count(), 1)", "examples")])
def test_each_of_several_gpus_makes_the_steps_that_a_loop_counts(divided, keeps, tmp_path):
    """Not where more GPUs make fewer of them."""
    found = probed(SCRIPT["a batch for each GPU"].format(divided=divided), tmp_path)
    assert (found.batch_size, found.examples * found.epochs, found.notes) == (16, 6400, ())
    assert (found.keeps, found.asks) == (keeps, 8)


@pytest.mark.slow
def test_frames_of_an_environment_are_counted_and_timed():
    """Its 64 frames serve four steps, of 6400 frames 400."""
    found = probe(read_address(f"{SCRIPTS}/torch_environment.py"))
    assert (found.batch_size, found.examples, found.epochs) == (32, 400 * 32, 1)
    assert 0 < found.between < 16 / 1000 and found.notes[0].startswith("Between two steps it collects 16 frames;")


@pytest.mark.slow
def test_an_environment_of_the_scripts_own_is_timed_as_it_is_stepped(tmp_path):
    """Two at once, without a space of actions to draw from."""
    text = (SCRIPTS / "torch_environment.py").read_text(encoding="utf-8")
    text = text.replace("    action_space = SimpleNamespace(sample=lambda: 0)\n", "")
    found = probed(text.replace("1.0, False", "np.ones(2), False"), tmp_path)
    assert found.between > 0 and found.notes[0].startswith("Between two steps it collects 32 frames;")


@pytest.mark.slow
def test_an_outer_loop_is_counted_where_a_generator_gives_the_minibatches(tmp_path):
    """Each of 50 collections of 64 frames on the GPU serves four steps; the policy gives 64 actions for them."""
    text = (SCRIPTS / "torch_environment.py").read_text(encoding="utf-8")
    text = text.replace("    for epoch in range(2):\n        for start in range(0, 64, 32):", MINIBATCHES)
    text = text.replace("total_timesteps, seen = 6400, 0", "seen = 0").replace(
        "while seen < total_timesteps", COLLECTIONS
    )
    found = probed(text.replace("SimpleNamespace(sample=lambda: 0)", "None\n    device = 'cuda'", 1), tmp_path)
    assert (found.batch_size, found.examples, found.epochs) == (32, 4 * 32, 50)
    assert not found.between and found.notes[0].startswith("Between two steps it collects 16 frames on the GPU:")


@pytest.mark.slow
@pytest.mark.parametrize("name, peak", [("torch_volume.py", (8, 200)), ("torch_large.py", (25, 40))])
def test_a_step_beyond_this_machines_memory_is_traced(name, peak):
    """No part of it is computed: neither by the script nor by the trace."""
    address = read_address(f"{SCRIPTS}/{name}")
    found = known(address) or probe(address)
    command = [sys.executable, "-W", "ignore", "-c", TRACE, address.text, str(found.batch_size)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | package_first(), check=True)
    needed, taken = map(float, done.stdout.split()[-2:])
    assert peak[0] < needed < peak[1] and taken < MAX_GB


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "needs"), [("torch_boxes.py", "torch"), ("torch_graphs.py", "torch geometric")]
)
def test_a_part_of_a_batch_has_its_part_of_the_work(name, needs):
    """Of lists of targets and of graphs, too."""
    require(needs)
    address = read_address(f"{SCRIPTS}/{name}")
    found = known(address) or probe(address)
    plan = Recordings(address, found, "float32")
    whole, half, more = (plan.trace(size) for size in (found.batch_size, found.batch_size // 2, 2 * found.batch_size))
    for part, times in ((half, 0.5), (more, 2)):
        assert part.work.operations == pytest.approx(whole.work.operations * times, rel=0.02)
        assert part.memory["weights"] == whole.memory["weights"]


@pytest.mark.slow
def test_gpus_of_one_process_take_a_part_of_the_batch_each(tmp_path):
    text = SCRIPT["a loader that only a loop has"]
    text = text.replace("torch.nn.Linear(4, 2)", "torch.nn.DataParallel(torch.nn.Linear(4, 2))")
    found = probed(text, tmp_path)
    traces = [Recordings(read_address(str(tmp_path / "train.py")), found, "float32").trace(size) for size in (64, 16)]
    assert [trace.work.operations for trace in traces] == [2 * 2 * 4 * 2 * size for size in (64, 16)]


def watched(text: str, folder: Path) -> Script:
    """What a script of this text shows in this process."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    return ScriptRun(folder / "train.py").result([])


def probed(text: str, folder: Path) -> Found:
    """What is found in a script of this text, by a process of its own."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    return probe(read_address(str(folder / "train.py")))


def traced(address: Address) -> Trace:
    return Trace.from_dict(recording(address)[1]["trace"])


def seen(expected: Any, value: Any) -> Any:
    """A value in the form of what is expected: the fields that are named, and texts of which a part is right."""
    if isinstance(expected, dict):
        return {name: seen(part, getattr(value, name)) for name, part in expected.items()}
    if isinstance(expected, list) and len(expected) == len(value):
        return [seen(part, one) for part, one in zip(expected, value, strict=True)]
    return expected if isinstance(expected, str) and expected in value else value


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "found" in case])
def test_what_a_script_shows_and_the_trace_of_its_step(name, tmp_path):
    case = CASES[name]
    found = probed(case["script"], tmp_path)
    assert seen(case["found"], found) == case["found"]
    assert case.get("total") in (None, found.examples and found.examples * (found.epochs or 1))
    assert case.get("piped") in (None, bool(found.pipeline)) and case.get("note") in (None, *found.notes)
    if {"trained", "operations"} & set(case):
        trace = traced(read_address(str(tmp_path / "train.py")))
        low, high = case.get("operations", (0, math.inf))
        assert trace.trained == case.get("trained", trace.trained) and low <= trace.work.operations <= high


@pytest.mark.slow
def test_batches_that_a_library_sums_in_two_places_are_one_steps(tmp_path):
    """A period has two of them."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "library.py").write_text(SCRIPT["a library sums"], encoding="utf-8")
    text = f"import sys\nsys.path.append({str(library)!r})\nimport torch\nfrom library import fit\n"
    text += "net = torch.nn.Linear(4, 2)\nloader = torch.utils.data.DataLoader(torch.zeros(640, 4), 64)\n"
    text += "fit(net, loader, torch.optim.SGD(net.parameters(), 0.1))\n"
    found = probed(text, tmp_path)
    assert (found.batch_size, found.examples) == (128, 640)


@pytest.mark.slow
def test_a_penalty_of_some_steps_is_no_step_of_its_own(tmp_path):
    """A GAN's critic steps twice in the first turn, and its step is that of both networks."""
    path = tmp_path / "train.py"
    path.write_text(SCRIPT["a penalty"], encoding="utf-8")
    found = probe(read_address(str(path)))
    assert (found.batch_size, found.examples, found.epochs) == (16, 16 * 8000, 1)
    assert traced(read_address(str(path))).trained == 49


@pytest.mark.slow
def test_what_a_script_draws_is_the_same_each_time(tmp_path):
    first, second = (probed(SCRIPT["draws"], tmp_path) for _ in range(2))
    assert first.batch_size == second.batch_size


@pytest.mark.slow
def test_checkpointing_is_advised_unless_it_is_on_and_is_what_the_library_does(tmp_path):
    text = (SCRIPTS.parents[1] / "scripts" / "torch_hub.py").read_text(encoding="utf-8")
    text = text.replace("num_hidden_layers=1", "num_hidden_layers=4")
    text = text.replace("256 * 32).reshape(256, 32)", "32 * 128).reshape(32, 128)").replace("256", "32")
    light = text.replace("model.train()\n", "model.train()\nmodel.gradient_checkpointing_enable()\n")
    plans, advised = [], []
    for name, script in (("plain.py", text), ("light.py", light)):
        (tmp_path / name).write_text(script, encoding="utf-8")
        address = read_address(str(tmp_path / name))
        found = probe(address)
        plans.append(Recordings(address, found, "float32"))
        advised.append({way for ways, _ in plans[-1].changed(found.batch_size, lambda _: False) for way in ways})
    assert HALF in advised[0] & advised[1] and LIGHT in advised[0] - advised[1]
    ours, own = plans[0].trace(found.batch_size, (LIGHT,)), plans[1].trace(found.batch_size)
    assert ours.work.operations == pytest.approx(own.work.operations, rel=0.01)
    assert ours.memory["peak"] == pytest.approx(own.memory["peak"], rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "epochs"), [("['simclr']", 100), ("range(5)", 500)])
def test_loops_outside_of_a_librarys_trainer_start_it_again(turns, epochs, tmp_path):
    """They were taken for its epochs: one in place of a hundred."""
    script, engine = tmp_path / "work" / "train.py", tmp_path / "site-packages" / "trainer.py"
    starts = SCRIPT["starts the trainer"].format(turns=turns, folder=str(engine.parent))
    for file, text in ((engine, SCRIPT["a library's trainer"]), (script, starts)):
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
    found = probe(read_address(str(script)))
    assert (found.batch_size, found.examples, found.epochs) == (16, 320, epochs)


@pytest.mark.slow
def test_what_a_script_frees_it_does_not_hold(tmp_path, monkeypatch):
    """An evaluation without values makes 300 arrays of 10 MB, with small ones between them that stay."""
    (tmp_path / "train.py").write_text(SCRIPT["frees"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert probe(read_address("train.py")).batch_size == 16
    assert int((tmp_path / "peak").read_text(encoding="utf-8")) < 800_000


def test_examples_of_a_stream_are_let_go(tmp_path, monkeypatch):
    """A buffer of ten thousand, each of which a module changes, would keep all that was read for it."""
    monkeypatch.chdir(tmp_path)
    assert watched(SCRIPT["a stream"], tmp_path).found.batch_size == 64
    assert int((tmp_path / "held").read_text(encoding="utf-8")) < 8


def test_a_counter_that_is_raised_by_what_was_taken_ends_a_loop(tmp_path):
    """A step is of 7 words of each of 16 rows of a text; the layer is called by its `forward`."""
    found = watched(SCRIPT["a wrapped layer"], tmp_path).found
    assert (found.examples / found.batch_size, found.epochs) == (143, 3)


@pytest.mark.slow
def test_gradients_taken_in_a_module_by_parts_of_sequences_are_a_periods(tmp_path):
    """Of sixteen sentences: parts of six and of ten words, with three products each."""
    trace = watched(SCRIPT["gradients by parts"], tmp_path).recorded.trace
    assert trace.work.operations == 3 * 2 * 16 * (6 + 10) * 8 * (8 + 50)


@pytest.mark.slow
@pytest.mark.parametrize(
    "update",
    [
        "weight.data.add_(weight.grad, alpha=-0.1)",
        "weight.data = weight.data - 0.1 * weight.grad",
        "with torch.no_grad(): weight -= 0.1 * weight.grad",
    ],
)
def test_a_script_that_changes_its_weights_by_itself_trains(update, tmp_path):
    """Its weights are set once before; the loop over them is none over steps."""
    script = watched(SCRIPT["weights changed by hand"].replace("{update}", update), tmp_path)
    assert (script.found.batch_size, script.found.examples, script.found.epochs) == (4, 200, 3)
    assert script.found.notes == (BY_HAND,)


@pytest.mark.slow
def test_a_teacher_inside_of_the_module_has_no_state_of_the_optimiser(tmp_path):
    assert watched(SCRIPT["a teacher inside of the module"], tmp_path).recorded.trace.trained == 10


@pytest.mark.slow
def test_an_encoder_beside_what_is_trained_is_not_computed(tmp_path):
    trace = watched(SCRIPT["a large encoder"], tmp_path).recorded.trace
    assert (trace.parameters, trace.trained) == (58, 18)


@pytest.mark.slow
def test_a_step_that_gathers_from_other_processes_is_recorded(tmp_path):
    trace = watched(SCRIPT["gathers"], tmp_path).recorded.trace
    assert not torch.distributed.is_initialized()
    assert trace.work.operations == 2 * 2 * 16 * 8 * 2  # forward, and the weights' gradients


def test_a_start_that_draws_until_it_is_within_bounds_ends_for_weights_without_values(monkeypatch):
    """PyTorch draws a truncated normal again until no number is outside: of weights without values each one is."""
    Names(partial(monkeypatch.setattr, raising=False)).replace_torch(lambda *_: None)
    for weight in (torch.nn.Parameter(Fakes().empty((4, 4), torch.float32)), torch.empty(4, 4)):
        assert torch.nn.init.trunc_normal_(weight, std=0.02, a=-0.01, b=0.01) is weight
    assert weight.abs().max() <= 0.01


def test_all_that_is_asked_of_a_gpu_of_any_maker_is_answered(monkeypatch):
    """Here there is none, which most of these functions raise for."""
    Names(partial(monkeypatch.setattr, raising=False)).replace_torch(lambda *_: None)
    answers = {name: getattr(torch.accelerator, name)() for name in torch.accelerator.__all__}
    assert answers["device_count"] == 1 and answers["is_available"] and answers["get_memory_info"][0] > 0
    assert answers["current_accelerator"].type == "cuda" and not torch.cuda.is_current_stream_capturing()
    with torch.cuda.stream(torch.cuda.Stream()), torch.cuda.nvtx.range("a step"):
        assert torch.cuda.Event().elapsed_time(torch.cuda.Event()) > 0


class Handing(torch.nn.Module):
    """A wrapper that hands attributes on to what it wraps, as Fabric's does."""

    def __init__(self, wrapped: torch.nn.Module) -> None:
        super().__init__()
        self.wrapped = wrapped

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name != "wrapped" and "wrapped" in self.__dict__.get("_modules", {}):
            setattr(self.wrapped, name, value)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.wrapped(inputs)


def test_a_repeated_evaluation_of_a_wrapper_leaves_what_it_wraps_alone() -> None:
    module, evaluations, inputs = Handing(torch.nn.Linear(4, 2)), Outcomes(), torch.zeros(8, 4)
    module.eval()
    for _ in range(8):
        evaluations.add_evaluation(module, ((inputs,), {}), "kept")
    assert module(inputs) == "kept" and module.wrapped(inputs).shape == (8, 2)
    evaluations.end()
    assert module(inputs).shape == (8, 2)
