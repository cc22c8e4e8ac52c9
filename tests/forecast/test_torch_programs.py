"""A PyTorch training step as a JAX function: it computes what PyTorch's own loop computes."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from whichdevice.forecast.targets import cuda_folder
from whichdevice.forecast.xla import compile as compiling
from whichdevice.forecast.xla.compile import compile_programs
from whichdevice.models.loading import workload_class
from whichdevice.records.products import ProgramRequest
from whichdevice.workloads.base import Options

MODULE = """
import torch
from torch import nn
INPUT = {"shape": (3, 8, 8)}
TARGET = {"shape": (), "dtype": "int32", "below": 4}
LOSS = "cross_entropy"
METRIC = "accuracy"
EXAMPLES = 32

def model():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32, 4),
    )

def optimizer(model):
    return torch.optim.%s
"""
ATTENTION = """
import torch
from torch import nn
INPUT = {"shape": (3, 8, 8)}
TARGET = {"shape": (), "dtype": "int32", "below": 4}
LOSS = "cross_entropy"
OPTIMIZER = "AdamW"
EXAMPLES = 16

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.kinds, self.out, self.head = nn.Linear(8, 24), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x))).flatten(2).transpose(1, 2)
        q, k, v = self.kinds(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        k, v = torch.cat([k[:, :, :4], k[:, :, 4:]], 2), torch.stack([v[0], *v[1:]])  # lists, of several tensors
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head((x + self.out(y.transpose(1, 2).reshape(x.shape))).mean(1))

def model():
    return Net()
"""
OPTIMIZERS = {
    "SGD": "SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, nesterov=True)",
    "RMSprop": "RMSprop(model.parameters(), lr=0.01, momentum=0.9)",
}
STEPS, BATCH = 3, 8
needed = ("torch", "torchax")
needs_torchax = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in needed), reason="PyTorch or torchax is not installed"
)


def file_of(folder: Path, optimizer: str) -> str:
    path = folder / "net.py"
    path.write_text(MODULE % OPTIMIZERS[optimizer], encoding="utf-8")
    return str(path)


@needs_torchax
@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_give_the_losses_and_values_of_pytorchs_own_loop(tmp_path, optimizer):
    import jax
    import torch

    from whichdevice.forecast.xla.torch_programs import torch_step

    workload = workload_class(file_of(tmp_path, optimizer))(Options(BATCH))
    function, (trained, held, slots, _), _ = torch_step(workload, "float32", "train")
    train, _ = workload.splits({})
    module = workload.made_module().train()
    descent = workload.optimizer(module)
    values = {name: each.detach().numpy() for name, each in module.state_dict().items()}
    state: tuple = (
        {name: np.array(values[name]) for name in trained},
        {name: np.array(values[name]).astype(held[name].dtype) for name in held},
        jax.tree.map(lambda each: np.zeros(each.shape, each.dtype), slots),
        np.zeros(2, "uint32"),
    )
    for number in range(STEPS):
        index = np.arange(number * BATCH, (number + 1) * BATCH, dtype="int32")
        inputs, target = workload.batch({name: torch.from_numpy(a) for name, a in train.arrays.items()}, index)
        output = module(inputs)
        loss = workload.loss(target, output)
        descent.zero_grad()
        loss.backward()
        descent.step()
        state, means = function(state, dict(train.arrays), index)
        assert means == pytest.approx([loss.item(), workload.quality(target, output).item()], rel=1e-4)
    for name, expected in module.state_dict().items():
        found = {**state[0], **state[1]}[name]
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


@needs_torchax
@pytest.mark.slow
def test_in_mixed_precision_every_product_takes_halves(tmp_path):
    import jax

    from whichdevice.forecast.xla.torch_programs import torch_step

    path = tmp_path / "attention.py"
    path.write_text(ATTENTION, encoding="utf-8")
    workload = workload_class(str(path))(Options(BATCH, "mixed_float16"))
    function, state, arrays = torch_step(workload, "mixed_float16", "train")
    text = function.lower(state, arrays, jax.ShapeDtypeStruct((BATCH,), "int32")).as_text()
    products = re.findall(r"stablehlo\.(?:dot_general|convolution)\b.*: \((.*)\) ->", text)
    assert len(products) > 10
    assert {kind for taken in products for kind in re.findall(r"x([a-wyz]+\d+)>", taken)} == {"f16"}


@needs_torchax
@pytest.mark.slow
@pytest.mark.skipif(
    cuda_folder() is None or importlib.util.find_spec("jax_plugins.xla_cuda12") is None,
    reason="the GPU compiler is not installed",
)
def test_a_step_is_compiled_for_a_gpu(tmp_path, working_folder):
    values = {"device": "T4", "workload": "w", "module": file_of(tmp_path, "SGD"), "batch_size": BATCH}
    (record,) = compile_programs([ProgramRequest.model_validate({**values, "precision": "float32"})])
    assert (record.status, record.reason) == ("ok", None)
    head = 2 * 32 * 4  # operations of the last layer for an example, of which a step does three such products
    assert record.facts.operations > 3 * BATCH * head


def test_without_torchax_the_row_says_what_to_install(tmp_path, monkeypatch, working_folder):
    installed = ("jax", "jaxlib", "keras", "jax-cuda12-pjrt", "nvidia-cuda-nvcc-cu12", "torch")
    monkeypatch.setattr(compiling, "installed_versions", lambda names: dict.fromkeys(set(names) & set(installed), "1"))
    values = {"device": "T4", "workload": "w", "module": file_of(tmp_path, "SGD"), "batch_size": 8}
    record = compile_programs([ProgramRequest.model_validate({**values, "precision": "float32"})])[0]
    assert record.status == "unavailable"
    assert record.reason == "PyTorch models are forecast through torchax; not installed here: pip install torchax"
