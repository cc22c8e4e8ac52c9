"""Steps of PyTorch models traced on fake tensors: forecast/torch/trace.py."""

import importlib
import math
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from needs import require

require("torch")
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.facts import layout_note
from whichdevice.forecast.torch.recorder import Recorder
from whichdevice.forecast.torch.trace import Step, Trace, trace_step
from whichdevice.models.script.torch_fakes import is_fake

PRIVATE = {  # what the tracer uses below PyTorch's public interface
    "torch._subclasses.fake_tensor": (
        "FakeTensor",
        "FakeTensorMode",
        "DataDependentOutputException",
        "DynamicOutputShapeException",
    ),
    "torch.utils._python_dispatch": ("TorchDispatchMode",),
    "torch.utils._pytree": ("tree_leaves", "tree_map_only"),
    "torch.utils.flop_counter": ("flop_registry",),
}


def test_pytorch_still_has_what_the_tracer_uses():
    for module, names in PRIVATE.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name), f"PyTorch {torch.__version__} lost {module}.{name}"
    assert torch._C.DisableTorchFunction and torch._C._DisableTorchDispatch and torch.ops.prim.device.default
    product = torch.ops.aten.mm.default
    assert product._schema.name == "aten::mm" and not product._schema.is_mutable
    assert product._overloadpacket in importlib.import_module("torch.utils.flop_counter").flop_registry
    assert isinstance(torch.zeros(1).untyped_storage()._cdata, int)


def step_of(build, shape, *, optimizer=torch.optim.AdamW, precision="float32"):
    return Step(
        build,
        lambda n: torch.zeros(n, *shape),
        lambda module, batch: module(batch).float().mean(),
        optimizer and (lambda module: optimizer(module.parameters())),
        precision,
    )


def kinds(trace):
    found = {}
    for item in trace.work.items:
        found[item.kind] = found.get(item.kind, 0) + item.operations * item.count
    return found


def test_products_bytes_and_memory_of_one_layer():
    trace = trace_step(step_of(lambda: nn.Linear(1024, 512, bias=False), (1024,)), 64)
    weights = 4 * 1024 * 512
    assert trace.work.software == "eager"
    assert trace.work.operations == 2 * 2 * 64 * 1024 * 512  # inputs need no gradient
    products = [item for item in trace.work.items if item.kind == "product"]
    arrays = 64 * 1024 + 1024 * 512 + 64 * 512  # read or written by each of two products
    assert sum(item.bytes * item.count for item in products) == 2 * 4 * arrays
    assert trace.parameters == trace.trained == 1024 * 512
    assert trace.memory["weights"] == trace.memory["gradients"] == weights
    assert trace.memory["optimizer"] == 2 * weights
    assert trace.memory["peak"] == pytest.approx(
        5 * weights, rel=1e-3
    )  # AdamW updates all at once with a copy of the size of the weights
    assert Trace.from_dict(trace.digest()) == trace
    assert trace_step(step_of(lambda: nn.Linear(8, 8), (8,)), 4).memory["weights"] == 2 * 512  # the allocator's blocks


class Lars(torch.optim.Optimizer):
    """An optimiser of a script's own, which compares the norms of a weight and of its gradient, as LARS does."""

    def __init__(self, weights):
        super().__init__(weights, {})

    @torch.no_grad()
    def step(self, closure=None):
        for weight in self.param_groups[0]["params"]:
            if weight.norm() != 0 and weight.grad.norm().item() > 0:
                self.state[weight].setdefault("momentum", torch.zeros_like(weight)).add_(weight.grad)
            weight.sub_(weight.grad)


def test_an_optimizer_that_reads_norms_finds_ones():
    trace = trace_step(step_of(lambda: nn.Linear(1024, 512, bias=False), (1024,), optimizer=Lars), 64)
    assert trace.memory["optimizer"] == 4 * 1024 * 512


@pytest.mark.parametrize(
    "layer, kind, operations",
    [
        (nn.Conv2d(32, 64, 3, padding=1), "convolution", 2 * 64 * 32 * 9),
        (nn.Conv2d(32, 64, 3, padding=1, groups=4), "grouped convolution", 2 * 64 * 8 * 9),
        (nn.Conv2d(32, 32, 3, padding=1, groups=32), "depthwise convolution", 2 * 32 * 9),
        (nn.Conv2d(32, 64, 1), "pointwise convolution", 2 * 64 * 32),
        (nn.ConvTranspose2d(32, 64, 3, padding=1), "convolution", 2 * 64 * 32 * 9),
    ],
)
def test_convolutions_by_kind_with_their_groups(layer, kind, operations):
    found = kinds(trace_step(step_of(lambda: layer, (32, 8, 8)), 2))
    assert found[kind] == found[f"{kind} backward"] == operations * 2 * 8 * 8
    assert kinds(trace_step(step_of(lambda: layer, (32, 8, 8), optimizer=None), 2))[kind] == operations * 2 * 8 * 8


class Attention(nn.Module):
    """Attention alone: a mask of a library's, as written out for fake tensors, with dropout."""

    def __init__(self, masked):
        super().__init__()
        self.scale, self.masked = nn.Parameter(torch.ones(1)), masked

    def forward(self, x):
        mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril() if self.masked else None
        return nn.functional.scaled_dot_product_attention(x * self.scale, x, x, mask, dropout_p=0.1)


@pytest.mark.parametrize("masked", [False, True])
def test_fused_attention_counts_a_causal_mask_as_half(masked):
    trace = trace_step(step_of(lambda: Attention(masked), (4, 128, 64), precision="mixed_bfloat16"), 2)
    whole = 4 * 2 * 4 * 128 * 128 * 64 / (2 if masked else 1)
    assert kinds(trace)["attention"] == whole
    assert kinds(trace)["attention backward"] == 2.5 * whole
    assert trace.memory["activations"] < 2e6  # no scores


def test_on_a_gpu_dropout_is_one_kernel_and_norms_are_in_float32():
    net = nn.Sequential(nn.Linear(256, 256), nn.GroupNorm(8, 256), nn.Dropout(0.5))
    trace = trace_step(step_of(lambda: net, (256,), precision="mixed_bfloat16"), 1024)
    inputs = 4 + 2  # and their cast
    assert trace.memory["activations"] == pytest.approx(
        (inputs + 4 + 1) * 1024 * 256, rel=0.05
    )  # norm's, dropout's mask


class ReadsAValue(nn.Linear):
    """A constructor that needs values, as for stochastic depth."""

    def __init__(self):
        super().__init__(int(torch.linspace(0, 8, 3)[-1].item()), 4)


class OnCuda(nn.Linear):
    """A model that moves itself to CUDA and changes its type."""

    def __init__(self):
        super().__init__(8, 4, device="cuda")
        self.cuda().to("cuda:0").bfloat16().float()
        self.register_buffer("ones", torch.ones(4).cuda())

    def forward(self, x):
        return super().forward(x.to("cuda")) + torch.zeros(4, device="cuda") + self.ones


@pytest.mark.parametrize("model", [ReadsAValue, OnCuda])
def test_models_that_read_values_or_name_cuda_are_traced(model):
    assert trace_step(step_of(model, (8,)), 4).parameters == 36


class Routed(nn.Linear):
    """Shapes that depend on values, as of a mixture of experts."""

    def forward(self, x):
        return super().forward(x[x[:, 0] >= 0])


def test_shapes_that_depend_on_values_run_for_real():
    trace = trace_step(step_of(lambda: Routed(8, 4), (8,)), 4)
    assert kinds(trace)["product"] == 2 * 2 * 4 * 8 * 4
    assert "values" in trace.notes[0]


class Pairs(nn.Module):
    """A layer on the differences of all that are near one another."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 8)

    def forward(self, places):
        first, second = ((places[:, None] - places[None, :]).abs() < 1.5).nonzero(as_tuple=True)
        edges = self.layer((places[first] - places[second])[:, None])
        return torch.zeros(len(places), 8).index_add(0, first, edges)


def test_what_examples_alone_decide_is_worked_out_in_a_step_without_values(monkeypatch):
    """Neighbours of the places of a line: itself, and one on each side."""
    monkeypatch.setattr("whichdevice.forecast.torch.trace.MAX_WITH_VALUES", 0)
    step = replace(step_of(Pairs, ()), batch=lambda n: torch.arange(float(n)))
    trace = trace_step(step, 100)
    assert kinds(trace)["product"] == 2 * 2 * 8 * (3 * 100 - 2)
    assert "examples alone" in trace.notes[0]


def test_one_of_a_large_model_is_traced_without_values():
    """It has 4.3 GB of weights, which are made nowhere."""
    wide = 2**15
    trace = trace_step(step_of(lambda: Routed(wide, wide), (wide,)), 4)
    assert kinds(trace)["product"] == 2 * 2 * 4 * wide**2
    assert "examples alone" in trace.notes[0]


class WithKernel(nn.Linear):
    """A module that hands the place of its data to somebody's kernel."""

    def forward(self, x):
        if not x.data_ptr():
            raise RuntimeError("no data")
        return super().forward(x)


@pytest.mark.parametrize(("size", "traced"), [(4, True), (2**27, False)])
def test_what_fails_without_values_runs_for_real_where_it_is_small(size, traced):
    without_values = []

    def batch(n):
        made = torch.zeros(n, 8)
        without_values.append(is_fake(made))
        return made

    with nullcontext() if traced else pytest.raises(RuntimeError, match="no data"):
        trace = trace_step(replace(step_of(lambda: WithKernel(8, 4), (8,)), batch=batch), size)
        assert trace.trained == 36 and "values" in trace.notes[0]
    assert without_values == ([True, False] if traced else [True])


@pytest.mark.parametrize("size", [4, 2**25])
def test_what_a_step_asks_numpy_for_depends_on_values(size):
    """As it matches boxes with SciPy; in a large step with ones."""

    def matched(module, x):
        out = module(x)
        with torch.no_grad():
            best = np.asarray(out[:4].cpu()).argmin(1)
        return out[:4][torch.arange(4), torch.as_tensor(best)].sum()

    trace = trace_step(replace(step_of(lambda: nn.Linear(8, 8), (8,)), loss=matched), size)
    assert kinds(trace)["product"] == 2 * 2 * size * 8 * 8 and "values" in trace.notes[0]


class Blocks(nn.Module):
    """Checkpointing of the file's own."""

    def __init__(self, checkpointing):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 64)) for _ in range(8)
        )
        self.checkpointing = checkpointing

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointing else block(x)
        return x


def test_checkpointing_of_the_file_keeps_less_and_computes_again():
    plain, saved = (trace_step(step_of(lambda own=own: Blocks(own), (64,)), 4096) for own in (False, True))
    assert saved.memory["activations"] < plain.memory["activations"] / 5
    assert kinds(saved)["product"] == pytest.approx(7 / 6 * kinds(plain)["product"], rel=0.01)  # not the last one


def test_frozen_weights_and_bfloat16():
    def build():
        net = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 256, bias=False))
        net[0].requires_grad_(False)
        return net

    one = trace_step(step_of(build, (256,)), 8)
    assert one.trained == one.parameters / 2
    assert one.memory["gradients"] == one.memory["weights"] / 2
    assert one.work.operations == 3 * 2 * 8 * 256 * 256
    half = trace_step(step_of(build, (256,), precision="bfloat16"), 8)
    assert half.memory["weights"] == one.memory["weights"] / 2


REFLECTED = [nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), nn.InstanceNorm2d(4)]
UNTESTED = {  # layers, shape and batch, number format: what nobody timed, and the device's interval at least
    "volumes": ([nn.Conv3d(16, 16, 3)], (16, 9, 9, 9), 2, "float32", "3-D convolutions", 1.9),
    "one image": (REFLECTED, (4, 64, 64), 1, "float32", "instance norm at batch 1", 3.1),
    "two images": (REFLECTED, (4, 64, 64), 2, "float32", None, 1.0),
    "in 16 bits": (REFLECTED, (4, 64, 64), 1, "mixed_bfloat16", None, 1.0),
    "tiny": ([layer for _ in range(50) for layer in (nn.Linear(8, 8), nn.ReLU())], (8,), 4, "float32",
             "hundreds of tiny kernels", 2.7),
    "few": ([nn.Linear(8, 8), nn.ReLU()], (8,), 4, "float32", None, 1.0),
    "routed": ([Routed(8, 4)], (8,), 4, "float32", "values read by the host", 2.4),
}  # fmt: skip


@pytest.mark.parametrize("case", UNTESTED)
def test_what_nobody_timed_is_marked_and_has_a_wider_interval(case):
    layers, shape, size, precision, mark, wider = UNTESTED[case]
    work = trace_step(step_of(lambda: nn.Sequential(*layers), shape, precision=precision), size).work
    assert work.untested == ((mark,) if mark else ())
    assert type(work).from_dict(work.digest()) == work
    device = hardware_rows()["V100 SXM2"]
    found, plain = forecast_step(work, device), forecast_step(replace(work, untested=()), device)
    assert math.exp(1.28 * found.log_sd_shared) >= wider
    assert (mark is None) == (found.log_sd_shared == plain.log_sd_shared)
    assert found.device_time == plain.device_time
    assert (mark is None) == (found.known_family == plain.known_family) and (not mark or mark in found.note)


class Sequences(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layers = layer(16, 64, 2, batch_first=True, bidirectional=True)

    def forward(self, series):
        return self.layers(series)[0]


def test_channels_last_has_the_same_operations_and_kinds_of_its_own():
    def traced(order):
        net = lambda: nn.Sequential(nn.Conv2d(32, 64, 3), nn.BatchNorm2d(64), nn.ReLU()).to(memory_format=order)  # noqa: E731
        step = step_of(net, (32, 16, 16))
        return trace_step(replace(step, batch=lambda n: step.batch(n).to(memory_format=order)), 4)

    first, last = traced(torch.contiguous_format), traced(torch.channels_last)
    assert last.work.operations == first.work.operations
    assert last.work.bytes == pytest.approx(first.work.bytes, rel=0.1)
    assert last.images and last.work.has_channels_last and not first.work.has_channels_last
    assert first.work.in_other_layout() == last.work and last.work.in_other_layout() == first.work
    assert last.fused == first.fused


def test_a_norm_by_the_root_mean_square_is_one_kernel_as_on_a_gpu():
    rms, layer = (trace_step(step_of(lambda norm=norm: norm(64), (8, 64)), 4) for norm in (nn.RMSNorm, nn.LayerNorm))
    assert rms.work.kernels == layer.work.kernels and "norm" in {item.kind for item in rms.work.items}


@pytest.mark.parametrize(("layer", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layers_read_their_weights_anew_for_each_time_step(layer, gates):
    trace, longer = (trace_step(step_of(lambda: Sequences(layer), (steps, 16)), 8) for steps in (100, 200))
    for work in (trace.work, trace.fused):
        steps = [item for item in work.items if item.kind == "recurrent"]
        assert sum(item.count for item in steps) == 2 * 4 * 2 * 100  # kernels, layers and directions, passes, steps
        weights = 4 * 2 * 100 * gates * 64 * 64 * 4
        assert weights < sum(item.bytes * item.count for item in steps) < 1.5 * weights  # gates of its own step alone
        assert sum(item.count for item in work.items if item.kind == "product") == 4 * 2
        inputs = 2 * (16 + 64) + 2 * (128 + 64)
        assert work.operations == 3 * 2 * 8 * 100 * gates * 64 * inputs
        assert work.sent < 40
    alone, twice = (forecast_step(each.work, hardware_rows()["V100 SXM2"]).device_time for each in (trace, longer))
    assert twice > 1.8 * alone  # however small the products are


def test_the_answer_says_what_the_other_layout_of_images_gives():
    """Where published times tell: operation by operation, on NVIDIA's GPUs."""

    def net():
        layers = ((nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()) for _ in range(4))
        return nn.Sequential(*(each for layer in layers for each in layer))

    step = replace(step_of(net, (64, 56, 56)), precision="mixed_bfloat16")
    trace = trace_step(step, 128)
    note = layout_note(find_target("RTX 4090"), trace, trace.work, "train")
    assert note is not None and note.startswith("images have channels first; with channels last a step takes about 0.")
    last = layout_note(find_target("RTX 4090"), trace, trace.work.in_other_layout(), "train")
    assert last is not None and last.startswith("images have channels last; with channels first a step takes about 1.")
    assert layout_note(find_target("RTX 4090"), trace, trace.fused, "train") is None
    assert layout_note(find_target("MI300X"), trace, trace.work, "train") is None
    assert layout_note(find_target("T4"), replace(trace, images=False), trace.work, "train") is None


def test_a_step_that_is_refused_is_not_built_again_with_values():
    """As adapters beside a script's weights, of which 14 GB of zeros would be made."""
    built = []

    def build():
        built.append(True)
        raise StudyError("LoRA is for a whole model of Hugging Face")

    with pytest.raises(StudyError):
        trace_step(Step(build, lambda size: torch.zeros(size, 4), lambda module, batch: module(batch).sum()), 2)
    assert len(built) == 1


def test_a_sparse_matrix_has_the_work_of_its_entries():
    nodes, entries, width = 1000, 5000, 8
    place = torch.arange(entries)
    edges = torch.stack([place % nodes, place // nodes])
    adjacency = torch.sparse_coo_tensor(edges, torch.ones(entries), (nodes, nodes)).coalesce()
    step = Step(
        lambda: nn.Linear(width, width),
        lambda size: torch.zeros(size, width),
        lambda module, x: torch.sparse.mm(adjacency, module(x)).sum(),
        lambda module: torch.optim.SGD(module.parameters(), 0.1),
    )
    trace = trace_step(step, nodes)
    found = [item for item in trace.work.items if item.kind == "gather and scatter"]
    assert trace.no_tpu == ("sparse matrices",)
    assert sum(item.operations * item.count for item in found) == 2 * 2 * entries * width  # forward and backward


def test_a_loss_of_sequences_that_are_aligned_needs_no_lengths():
    loss, labels = nn.CTCLoss(), torch.ones(4, 5, dtype=torch.int64)

    def aligned(module, batch):
        x, lengths = batch
        return loss(module(x).transpose(0, 1).log_softmax(-1), labels, lengths, torch.full((4,), 5))

    step = Step(
        lambda: nn.Linear(8, 30),
        lambda size: (torch.zeros(size, 50, 8), torch.full((size,), 50)),
        aligned,
        lambda module: torch.optim.SGD(module.parameters(), 0.1),
        "mixed_bfloat16",
    )
    trace = trace_step(step, 4)
    assert not trace.notes and trace.trained == 8 * 30 + 30


CHOICES = {
    "of a mask": lambda x: x[x.sum(1) > 0],
    "of single values": lambda x: x.masked_select(x > 0),
    "as often as counted": lambda x: x.repeat_interleave((x.sum(1) > 0).long(), 0),
    "of columns": lambda x: x[:, torch.ones(x.shape[1]) > 0],
    "of a large mask": lambda x: torch.masked_select(x, (x > 0).all(1, keepdim=True)),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_what_a_large_step_chooses_by_values_keeps_its_gradient(choice):
    """A loss of the tokens that are no padding."""
    step = replace(step_of(lambda: nn.Linear(64, 64), (64,)), loss=lambda module, x: CHOICES[choice](module(x)).sum())
    trace = trace_step(step, 2**23)
    assert trace.work.operations == 2 * 2 * 2**23 * 64 * 64
    assert "were chosen" in trace.notes[0]


class Steps(nn.Module):
    """A recurrent layer that its file writes as a loop."""

    def __init__(self, count: int = 20) -> None:
        super().__init__()
        self.cell, self.count = nn.GRUCell(8, 8), count

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        states = [state]
        for _ in range(self.count):
            states.append(self.cell(states[-1][:, :8].view(-1, 8), states[-1].chunk(2)[0].repeat(2, 1)))
        return torch.stack(states).unbind(0)[-1]


def test_each_time_step_of_a_loop_has_the_work_and_the_memory_of_the_one_before():
    """What was seen before is not worked out again."""
    traces = [trace_step(step_of(partial(Steps, count), (8,)), 256) for count in (10, 20, 30)]
    for of in (
        lambda trace: trace.work.kernels,
        lambda trace: trace.work.operations,
        lambda trace: trace.work.bytes,
        lambda trace: trace.memory["activations"],
    ):
        one, two, three = map(of, traces)
        assert one < two and three - two == pytest.approx(two - one, rel=1e-3)


def test_a_long_loop_asks_no_mode_for_functions_about_the_tensors_of_its_backward_pass():
    """Each operation asks for some twenty sizes: a decoder of hundreds of time steps took minutes."""

    class Counting(TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.calls += 1
            return function(*args, **(kwargs or {}))

    with Counting() as counting:
        trace = trace_step(step_of(Steps, (8,)), 4)
    assert counting.calls < trace.work.kernels


def test_data_in_the_place_of_a_freed_mask_are_no_mask_that_is_always_the_same():
    """PyTorch gives a freed tensor's place in memory to the next one, as to a batch of a loader."""
    recorder = Recorder()
    for _ in range(20):
        with recorder:
            mask = torch.ones(4, 4).tril()
        assert recorder.fixed(mask)
        del mask
        batch = [torch.tensor([[1.0]]) for _ in range(4)]
        assert not any(map(recorder.fixed, batch))
