"""PyTorch scripts written for GPUs: run here to their first step, of any size, and traced; nothing trains."""

import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from needs import require

require("torch")
import torch

from whichdevice.base.files import package_first
from whichdevice.forecast.torch.memory import HALF, LIGHT, Plan
from whichdevice.forecast.torch.records import step_of
from whichdevice.forecast.torch.trace import Step, Trace, trace_step
from whichdevice.models.address import Address, read_address
from whichdevice.models.loading import Model
from whichdevice.models.script import torch_tape
from whichdevice.models.script.found import Conditions, Found, Script
from whichdevice.models.script.look import known, probe
from whichdevice.models.script.run import run_watched
from whichdevice.models.script.several import ACCUMULATION, SHARED, divides_by_gpus
from whichdevice.models.script.torch_fakes import MAX_EVALUATIONS, Evaluations, Fakes, Passing, is_fake
from whichdevice.models.script.torch_names import Names
from whichdevice.models.script.torch_tape import Guessed
from whichdevice.models.script.watch_torch import BY_HAND, DRAWN, Watch
from whichdevice.models.workloads.base import Options

SCRIPTS = Path(__file__).parent / "scripts"
CASES = yaml.safe_load((SCRIPTS.parent / "torch_scripts.yaml").read_text(encoding="utf-8"))
SCRIPT = {name: case["script"] for name, case in CASES.items()}
SUMMED = "The optimiser steps after 8 batches; the times count it for each batch."
TWO = "The optimiser steps after 2 batches; the times count it for each batch."
VARIED = "Sizes vary from 64 × 64 to 128 × 128; steps are of the mean, 96 × 96."
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
import resource, sys
from whichdevice.forecast.torch.records import Traced
from whichdevice.forecast.products import ProgramRequest
request = ProgramRequest(
    device="A100 SXM 80GB", workload="script", module=sys.argv[1], precision="tf32", batch_size=int(sys.argv[2])
)
print(Traced(request).trace(request.batch_size).memory["peak"] / 1e9)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


WITH_SIZES = {  # losses of a layer's outputs z and a batch's inputs x that have its size as a number in them
    "noise": lambda x, z: (z + torch.randn(len(x), 8)).mean(),
    "noise of a shape": lambda x, z: (z + torch.rand(size=z.shape)).mean(),
    "steps of a diffusion": lambda x, z: (z + torch.ones(1000, 1)[torch.randint(0, 1000, (len(x),))]).mean(),
    "labels of a GAN": lambda x, z: (z.mean(1) - torch.full((len(x),), 0.9)).abs().mean(),
    "a list of labels": lambda x, z: (z.mean(1) - torch.tensor([1.0] * len(x))).abs().mean(),
    "pairs of a batch": lambda x, z: torch.nn.functional.cross_entropy(z @ z.T, torch.arange(len(x))),
    "no pair of its own": lambda x, z: (z @ z.T).masked_fill(torch.eye(len(x)).bool(), -9.0).logsumexp(1).mean(),
    "an order": lambda x, z: (z * z[torch.randperm(len(x))]).mean(),
    "a view": lambda x, z: z.view(len(x), 2, 4).mean(),
    "a view of places": lambda x, z: z.reshape(len(x) * 2, 4).mean(),
    "states of layers": lambda x, z: (z[None] + torch.zeros(2, len(x), 8)).mean(),
    "a view by name": lambda x, z: z.flatten().unflatten(dim=0, sizes=(len(x), 8)).reshape(shape=(len(x), 8)).mean(),
    "a query for each place": lambda x, z: (
        z.view(-1, 4) + torch.ones(1, 4).repeat_interleave(len(x) * 2, dim=0)
    ).mean(),
    "a weight for each": lambda x, z: (z + z[:1].mean(0).expand(len(x), -1)).mean(),
    "two halves": lambda x, z: (z[: len(x) // 2] * z[len(x) // 2 :]).mean(),
}  # fmt: skip


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
    found = probe(read_address(f"{SCRIPTS}/{name}"))
    assert replace(found, line=None, pipeline=()) == FOUND[name, needs]
    assert not Path("written").exists()


@pytest.mark.parametrize(
    ("line", "divides"),
    [
        ("args.batch_size = int(args.batch_size / ngpus_per_node)", True),
        ("batch //= torch.distributed.get_world_size()", True),
        ("local_batch = config['batch_size'] // torch.cuda.device_count()", True),
        ("train_bs //= args.num_processes", True),
        ("each = int(len(batch) / world_size)", True),
        ("local_batch = total // world_size", True),
        ("accumulation = batch_size // MAX_GPU_BATCH_SIZE", False),
        ("num_batches = total_batches // world_size", False),
        ("steps = len(batches) // args.num_processes", False),
        ("steps = len(data) // batch_size // world_size", False),
        ("accum_steps = total_batch_size // (size * length * ddp_world_size)", False),
        ("batch_loss /= world_size", False),
        ("batch_time = sum(t) / n_gpus", False),
        ("num_batch = number // world_size", False),
        ("loss = loss_of(batch) / world_size", False),
        ("workers = (workers + gpus - 1) // gpus", False),
        ("lr = lr * batch_size * world_size / 512", False),
    ],
)
def test_a_script_shows_whether_its_gpus_share_a_batch(line, divides):
    assert divides_by_gpus(line) is divides


def test_all_examples_of_a_step_over_those_of_its_gpus_are_batches_that_are_summed():
    line = "sums = args.global_batch_size // (args.micro_batch_size * args.data_parallel_size)"
    assert divides_by_gpus(line, ACCUMULATION) and not divides_by_gpus(line)


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
    assert [(one.batches, one.every, one.per) for one in found.evaluations] == [(64, 4, "step")]


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
    ("name", "needs", "mark"),
    [
        ("torch_boxes.py", "torch", "values read by the host"),
        ("torch_graphs.py", "torch geometric", None),
        ("torch_nested.py", "torch", None),
    ],
)
def test_a_part_of_a_batch_has_its_part_of_the_work(name, needs, mark):
    """As on several GPUs: of lists of targets and of graphs, too."""
    require(needs)
    address = read_address(f"{SCRIPTS}/{name}")
    found = known(address) or probe(address)
    step = step_of(Model.read(address.text).workload(Options(batch_size=found.batch_size)), "float32", "train")
    whole, half = (trace_step(step, size).work for size in (found.batch_size, found.batch_size // 2))
    assert half.operations == pytest.approx(whole.operations / 2, rel=0.02)
    assert mark is None or whole.untested == (mark,)


@pytest.mark.parametrize("loss", WITH_SIZES)
def test_another_batch_has_other_sizes_where_the_script_wrote_them(loss):
    net = torch.nn.Linear(4, 8)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with Watch(optimizer, lambda: None) as seen:
        x = torch.zeros(16, 4)
        WITH_SIZES[loss](x, net(x)).backward()
        optimizer.step()
    for size in (8, 48):
        batch = {name: tensor[torch.arange(size) % 16] for name, tensor in seen.batch.items()}
        assert seen.module(**batch)["logits"].shape == (size, 8)


def test_an_object_that_asks_what_it_holds_for_what_it_lacks_is_copied():
    from whichdevice.models.script.torch_tape import mapped

    class Images:
        def __init__(self, images):
            self.images = images

        def __getattr__(self, name):
            return getattr(self.images, name)

    first = Images(torch.zeros(2))
    second = mapped(lambda leaf: leaf + 1, first)
    assert (second.images.tolist(), first.images.tolist()) == ([1, 1], [0, 0])


def test_values_of_edges_go_with_their_edges():
    """Seven edges of three graphs are three of each graph: the values of the edges, too."""
    net = OfEdges()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    edges, of_graphs = torch.tensor([[0, 1, 0, 1, 2, 3, 4], [1, 0, 1, 0, 3, 2, 3]]), torch.tensor([0, 0, 1, 1, 2])
    with Watch(optimizer, lambda: None) as seen:
        net(torch.zeros(5, 4), edges=edges, values=torch.zeros(7, 6), batch=of_graphs).sum().backward()
        optimizer.step()
    assert seen.batch["values"].shape == (3, 3, 6)
    for size in (3, 2):
        assert seen.module(**{name: tensor[:size] for name, tensor in seen.batch.items()})["logits"].shape == (size, 4)


@pytest.mark.parametrize("valued", [True, False])
def test_a_resized_weight_has_values_as_before_or_none(valued):
    """Beyond a gigabyte new weights have no values: one that has some does not mix with them."""
    fakes = Fakes()
    weights = torch.zeros(10, 4), fakes.empty((11, 4), torch.float32)
    weight, larger = map(torch.nn.Parameter, weights if valued else (fakes.empty((11, 4), torch.float32), weights[0]))
    fakes.call(torch.Tensor.data.__set__, (weight, larger.data))
    assert weight.data[1:].mean(dim=0, keepdim=True).shape == (1, 4)
    assert (len(weight), is_fake(weight)) == (len(larger), not valued)


@pytest.mark.parametrize(("lengths", "size"), [((32, 128), 32), ((12, 10), 64)])
def test_several_texts_for_each_example_are_of_its_batch(lengths, size):
    """The batch is the second axis of sequences alone: their lengths are no multiples of one another."""
    net = torch.nn.EmbeddingBag(50, 8)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    both = Pair(net)
    with Watch(optimizer, lambda: None) as seen:
        both(*(torch.zeros(length, 64).long() for length in lengths)).backward()
        optimizer.step()
    assert {len(tensor) for tensor in seen.batch.values()} == {size}


class Pair(torch.nn.Module):
    """How alike two groups of texts are."""

    def __init__(self, layer: torch.nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, first, second):
        return (self.layer(first) @ self.layer(second).T).sum()


class OfEdges(torch.nn.Module):
    """Sums of what a layer makes of the edges' values at the nodes, and of these in their graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 4)

    def forward(self, x, edges, values, batch):
        nodes = x.index_add(0, edges[1], x[edges[0]] * self.layer(values))
        return torch.zeros(int(batch[-1]) + 1, 4).index_add(0, batch, nodes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "inputs", "unit", "batch"),
    [
        ("y", "torch.zeros(200, 5), torch.arange(200) // 50", "example", 200),
        ("batch", "torch.zeros(200, 3), torch.arange(200) // 50", "graph", 4),
        ("y", "torch.zeros(8, 5), torch.arange(8) // 4, torch.zeros(2, 9, dtype=torch.int64)", "graph", 2),
    ],
    ids=["classes", "points", "edges"],
)
def test_classes_in_order_are_no_graphs(name, inputs, unit, batch, tmp_path):
    found = probed(SCRIPT["ordered"].format(name=name, inputs=inputs), tmp_path)
    assert (found.unit, found.batch_size) == (unit, batch)


def watched(text: str, folder: Path) -> Script:
    """What a script of this text shows in this process."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    return run_watched(folder / "train.py", [])


def probed(text: str, folder: Path) -> Found:
    """What is found in a script of this text, by a process of its own."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    return probe(read_address(str(folder / "train.py")))


def traced(address: Address, size: int) -> Trace:
    return trace_step(step_of(Model.read(address.text).workload(Options(batch_size=size)), "float32", "train"), size)


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
        trace = traced(read_address(str(tmp_path / "train.py")), found.batch_size)
        low, high = case.get("operations", (0, math.inf))
        assert trace.trained == case.get("trained", trace.trained) and low <= trace.work.operations <= high
        assert case.get("traced", "") in "".join(trace.notes)


def test_calls_of_which_nothing_is_held_are_no_part_of_a_step(tmp_path):
    """An evaluation in training mode and with gradients, of the shapes of the training."""
    step = watched(SCRIPT["calls that are not held"], tmp_path).functions.model()
    assert [type(step.called[call.function]).__name__ for call in step.calls if isinstance(call.function, int)] == (
        ["Net"] * 8
    )
    assert not step.reads_values


def test_calls_whose_outcomes_are_let_go_are_computed_while_that_is_quicker():
    passing = Passing()
    for _ in range(MAX_EVALUATIONS):
        passing.drop(["a call"])
        assert "a call" not in passing
        passing.add("a call", 1.0, has_values=False)
    passing.drop(["a call"])
    assert passing.is_computed("a call")
    for _ in range(2):
        passing.add("a call", 4.0, has_values=True)
        assert passing.is_computed("a call")
    passing.add("a call", 4.0, has_values=True)
    assert "a call" in passing and not passing.is_computed("a call")


@pytest.mark.slow
def test_what_an_epoch_prepares_by_itself_is_said(tmp_path):
    """Once before the epochs is in none of them."""
    (note,) = probed(SCRIPT["time before an epoch"], tmp_path).notes
    form = r"Its first epoch began with [23]\S* s of the CPU's work before line 8: \S+ \w+ if each does, not counted\."
    assert re.fullmatch(form, note), note


@pytest.mark.slow
def test_batches_that_a_library_sums_in_two_places_are_one_steps(tmp_path):
    """Lightning takes the gradients of the last one inside of the optimiser's step."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "library.py").write_text(SCRIPT["a library sums"], encoding="utf-8")
    text = f"import sys\nsys.path.append({str(library)!r})\nimport torch\nfrom library import fit\n"
    text += "net = torch.nn.Linear(4, 2)\nloader = torch.utils.data.DataLoader(torch.zeros(640, 4), 64)\n"
    text += "fit(net, loader, torch.optim.SGD(net.parameters(), 0.1))\n"
    assert probed(text, tmp_path).notes == (TWO,)


@pytest.mark.slow
def test_a_penalty_of_some_steps_is_no_step_of_its_own(tmp_path):
    """A GAN's critic steps twice in the first turn, and its step is that of both networks."""
    path = tmp_path / "train.py"
    path.write_text(SCRIPT["a penalty"], encoding="utf-8")
    found = probe(read_address(str(path)))
    assert (found.batch_size, found.examples, found.epochs) == (16, 16 * 8000, 1)
    losses = "import sys, pathlib; from whichdevice.models.script.run import run_watched\n"
    losses += "print(len(run_watched(pathlib.Path(sys.argv[1]), []).functions.model().losses))"
    done = subprocess.run(
        [sys.executable, "-c", losses, str(path)],
        capture_output=True,
        text=True,
        env=os.environ | package_first(),
        check=True,
    )
    assert done.stdout.split()[-1] == "2"


@pytest.mark.slow
def test_what_a_script_draws_is_the_same_each_time(tmp_path):
    first, second = (probed(SCRIPT["draws"], tmp_path) for _ in range(2))
    assert first.batch_size == second.batch_size


@pytest.mark.slow
@pytest.mark.parametrize("line", ["", "model.gradient_checkpointing_enable()\n"])
def test_checkpointing_is_advised_unless_it_is_on(line, tmp_path):
    text = (SCRIPTS.parents[1] / "scripts" / "torch_hub.py").read_text(encoding="utf-8")
    text = text.replace("num_hidden_layers=1", "num_hidden_layers=4")
    text = text.replace("256 * 32).reshape(256, 32)", "256 * 128).reshape(256, 128)")
    (tmp_path / "train.py").write_text(text.replace("model.train()\n", f"model.train()\n{line}"), encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    found = probe(address)
    workload = Model.read(address.text).workload(Options(batch_size=found.batch_size))
    plan = Plan(step_of(workload, "float32", "train"))
    advised = {way for ways, _ in plan.changed(found.batch_size, lambda _: False) for way in ways}
    assert HALF in advised and (LIGHT in advised) == (line == "")


@pytest.mark.slow
def test_what_is_changed_in_a_step_does_not_change_the_next_one():
    """16-bit weights are tried before checkpointing, whose memory is that of the script's own number format."""
    address = read_address(f"{SCRIPTS.parents[1]}/scripts/torch_hub.py")
    found = known(address) or probe(address)
    workload = Model.read(address.text).workload(Options(batch_size=found.batch_size))

    def checkpointed(*first):
        plan = Plan(step_of(workload, "float32", "train"))
        for ways in first:
            plan.trace(16, ways)
        return plan.trace(16, (LIGHT,)).memory

    assert checkpointed((HALF,), ()) == checkpointed()
    assert {weight.dtype for weight in workload.made_module().parameters()} == {torch.float32}


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
    """A buffer of ten thousand, each of which a module changes after a pause, would keep all that was read for it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_tape, "PAUSE_SECONDS", 0.0)
    assert watched(SCRIPT["a stream"], tmp_path).found.batch_size == 64
    assert int((tmp_path / "held").read_text(encoding="utf-8")) < 8


def test_time_steps_of_a_layer_in_a_wrapper_are_no_examples(tmp_path):
    """A step is of 7 words of each of 16 rows of a text; the length is drawn, the layer called by its `forward`."""
    found = watched(SCRIPT["a wrapped layer"], tmp_path).found
    assert (found.batch_size, found.epochs, -(-found.examples // 16)) == (16, 3, 143)
    assert found.notes == (DRAWN.format(length=7),)


@pytest.mark.slow
def test_gradients_taken_in_a_module_by_parts_of_sequences_are_a_batchs(tmp_path):
    """Of sixteen sentences, the second axis: five parts of the longer batch's ten words, with three products each."""
    script = watched(SCRIPT["gradients by parts"], tmp_path)
    assert (script.found.batch_size, script.found.examples) == (16, 3200)
    assert script.found.notes == (TWO,)
    model = script.functions.model()
    words = lambda size: [torch.zeros(size, length).long() for length in (12, 10)]  # noqa: E731
    step = Step(lambda: model, words, of_words, script.functions.optimizer)
    for size in (16, 6):
        assert trace_step(step, size).work.operations == 3 * 2 * size * 10 * 8 * (8 + 50)


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
    assert type(script.functions.optimizer(script.functions.model())) is torch.optim.SGD


@pytest.mark.slow
def test_a_teacher_inside_of_the_module_has_no_state_of_the_optimiser(tmp_path):
    functions = watched(SCRIPT["a teacher inside of the module"], tmp_path).functions
    groups = functions.optimizer(functions.model()).param_groups
    assert sum(weight.numel() for group in groups for weight in group["params"]) == 10


@pytest.mark.slow
def test_a_large_encoder_beside_what_is_trained_runs_without_values(tmp_path, monkeypatch):
    """The step of a diffusion model begins with one: its images took minutes."""
    monkeypatch.setattr(torch_tape, "HEAVY", 40)
    step = watched(SCRIPT["a large encoder"], tmp_path).functions.model()
    assert step.size == 16 and sum(weight.numel() for weight in step.parameters()) == 58


@pytest.mark.slow
def test_a_script_of_pytorch_runs_once_whether_keras_comes_or_not(tmp_path, monkeypatch):
    """A library for logs imports Keras, whose number format is none of PyTorch's."""
    text = "import pathlib, torch\nopen('runs', 'a').write('1')\nnet = torch.nn.Linear(4, 2)\n"
    text += "sgd = torch.optim.SGD(net.parameters(), 0.1)\nfor _ in range(9):\n"
    text += "    net(torch.zeros(8, 4)).sum().backward()\n    sgd.step()\n"
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(text, encoding="utf-8")
    assert probe(read_address("train.py")).batch_size == 8
    workload = Model.read("train.py").workload(Options(batch_size=8))
    workload.made_module()
    policy = SimpleNamespace(dtype_policy=lambda: SimpleNamespace(name="float32"))
    monkeypatch.setitem(sys.modules, "keras", SimpleNamespace(config=policy))
    Model.read("train.py").workload(Options(batch_size=8)).made_module()
    assert Path("runs").read_text(encoding="utf-8") == "11"


@pytest.mark.slow
def test_a_step_that_gathers_from_other_processes_is_traced_after_the_script_has_left_its_group(tmp_path):
    script = watched(SCRIPT["gathers"], tmp_path)
    assert not torch.distributed.is_initialized()
    module, batch = script.functions.model(), lambda size: torch.ones(size, 8)
    step = Step(lambda: module, batch, of_step, script.functions.optimizer)
    assert trace_step(step, 16).work.operations == 2 * 2 * 16 * 8 * 2  # forward, and the weights' gradients


def of_words(module, batch):
    source, target = batch
    return module(**dict(zip(module.dtypes, (source, target), strict=True))).loss


def of_step(module, batch):
    return module(input_0=batch).loss


def test_a_start_that_draws_until_it_is_within_bounds_ends_for_weights_without_values(monkeypatch):
    """PyTorch draws a truncated normal again until no number is outside: of weights without values each one is."""
    fakes = Fakes()
    Names(partial(monkeypatch.setattr, raising=False)).replace_torch()
    with Guessed(fakes):
        for weight in (torch.nn.Parameter(fakes.empty((4, 4), torch.float32)), torch.empty(4, 4)):
            assert torch.nn.init.trunc_normal_(weight, std=0.02, a=-0.01, b=0.01) is weight
    assert weight.abs().max() <= 0.01


def test_gradients_reach_what_is_put_where_a_mask_says_that_has_no_values():
    fakes = Fakes()
    learned = torch.nn.Parameter(fakes.empty((3,), torch.float32))
    with Guessed(fakes), fakes.mode:
        hidden, mask = fakes.empty((4, 5, 3), torch.float32), fakes.empty((4, 5), torch.bool)
        hidden[mask] = learned.to(hidden.dtype)
        hidden.sum().backward()
    assert learned.grad is not None and learned.grad.shape == (3,)


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
    module, evaluations, inputs = Handing(torch.nn.Linear(4, 2)), Evaluations(), torch.zeros(8, 4)
    module.eval()
    for _ in range(8):
        evaluations.add(module, ((inputs,), {}), "kept", 1.0)
    assert module(inputs) == "kept" and module.wrapped(inputs).shape == (8, 2)
    evaluations.end()
    assert module(inputs).shape == (8, 2)
