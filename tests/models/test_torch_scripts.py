"""PyTorch scripts written for GPUs: run here to their first step, of any size, and traced; nothing trains."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from needs import require

require("torch")
import torch

from whichdevice.base.files import package_first
from whichdevice.forecast.torch.memory import HALF, LIGHT, Plan
from whichdevice.forecast.torch.records import step_of
from whichdevice.forecast.torch.trace import Step, trace_step
from whichdevice.models.address import read_address
from whichdevice.models.loading import Model
from whichdevice.models.script import torch_tape
from whichdevice.models.script.found import Conditions, Found
from whichdevice.models.script.look import known, probe
from whichdevice.models.script.run import run_watched
from whichdevice.models.script.several import ACCUMULATION, SHARED, divides_by_gpus
from whichdevice.models.script.torch_fakes import MAX_EVALUATIONS, Evaluations, Fakes, Passing, is_fake
from whichdevice.models.script.torch_names import Names
from whichdevice.models.script.torch_tape import Guessed
from whichdevice.models.script.watch_torch import BY_HAND, DRAWN, Watch
from whichdevice.models.workloads.base import Options

SCRIPTS = Path(__file__).parent / "scripts"
SUMMED = "The optimiser steps after 8 batches; the times count it for each batch."
TWO = "The optimiser steps after 2 batches; the times count it for each batch."
VARIED = "Sizes vary from 64 × 64 to 128 × 128; steps are of the mean, 96 × 96."
MAX_GB = 3.0
FOUND = {  # script, what it needs: what is found
    ("torch_volume.py", ""): Found("torch", 4, 8, 3, precision="mixed", asks=4, keeps="examples"),
    ("torch_entry.py", ""): Found("torch", 16, 640, 3, precision="float32"),
    ("torch_graph.py", "torch geometric"): Found("torch", 200, 200, 200, precision="float32"),
    ("torch_graphs.py", "torch geometric"): Found("torch", 32, 320, 5, precision="float32", unit="graph"),
    ("torch_boxes.py", ""): Found("torch", 8, 400, 3, notes=(VARIED,)),
    ("torch_nested.py", ""): Found("torch", 2, 400, 3),
    ("torch_large.py", ""): Found("torch", 2, 1000, 1, precision="float32", asks=None, keeps="steps"),
    ("torch_processes.py", ""): Found(
        "torch", 32, 640, 3, precision="mixed", conditions=Conditions(gpus=2), asks=2, keeps="examples"
    ),
    ("torch_deepspeed.py", ""): Found(
        "torch", 16, 320, 3, precision="mixed", notes=(TWO,), asks=None, keeps="examples"
    ),
    ("torch_parts.py", ""): Found("torch", 6400, 64000, 3, precision="float32"),
    ("torch_cuda.py", ""): Found("torch", 64, 640, 3, precision="mixed", notes=(SHARED.format(batch=64, gpus=2),)),
    ("torch_trainer.py", "accelerate"): Found(
        "torch", 1, 100, 2, precision="mixed", notes=(SUMMED,), asks=None, keeps="examples"
    ),
    ("torch_lightning.py", "lightning"): Found("torch", 64, 640, 3, precision="mixed", asks=4, keeps="examples"),
    ("torch_fabric.py", "lightning"): Found("torch", 64, 640, 3, precision="mixed", asks=2, keeps="examples"),
}
ORDERED = """
import torch
class Net(torch.nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.dense = torch.nn.Linear(wide, 2)
    def forward(self, x, {name}, edges=None):
        return self.dense(x).mean() + 0 * {name}.sum() + (0 if edges is None else 0 * edges.sum())
inputs = ({inputs})
net = Net(inputs[0].shape[1])
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    net(*inputs).backward()
    optimizer.step()
"""
RATES = """
import time
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items, self.count = torch.nn.Embedding(16, 4), torch.nn.Embedding(32, 4), 0
    def rated(self):
        ratings = self.users.weight @ self.items.weight.t()
        if type(ratings) is torch.Tensor:
            self.count += 1
            time.sleep(0.4)
            assert self.count < 20, "it is evaluated again and again"
        return ratings
class Trainer:
    def __init__(self, net):
        self.optimizer = torch.optim.SGD(net.parameters(), 0.1)
net = Net()
trainer = Trainer(net)
with torch.no_grad():
    print("before:", sum(net.rated().mean().item() for _ in range(400)))
for _ in range(30):
    (net.users(torch.arange(16)) @ net.items.weight.t()).mean().backward()
    trainer.optimizer.step()
"""
EVALUATES = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.count = torch.nn.Linear(4, 2), 0
    def forward(self, x):
        out = self.dense(x)
        assert type(out) is not torch.Tensor, "it is computed"
        self.count += not self.training
        assert self.count < 20, "the same shapes are evaluated again and again"
        return out
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def loss():
    return net(torch.zeros(16, 4)).mean()
net.eval()
with torch.no_grad():
    print("before:", sum(loss().item() for _ in range(400)))
net.train()
for _ in range(30):
    loss().backward()
    optimizer.step()
"""
CRITIC = """
import torch
from torch.autograd import Variable
makes, judges = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)
makers = torch.optim.Adam(makes.parameters())
judging = torch.optim.Adam(judges.parameters())
for turn in range(50):
    for weight in judges.parameters():
        weight.requires_grad = True
    for _ in range(5):
        judges.zero_grad()
        real, made = Variable(torch.rand(16, 8)), Variable(makes(torch.rand(16, 4)).data)
        judges(real).mean().backward()
        (-judges(made).mean()).backward()
        between = Variable((real + made) / 2, requires_grad=True)
        assert isinstance(between, Variable)
        slope, = torch.autograd.grad(judges(between).sum(), between, create_graph=True)
        ((slope.norm(dim=1) - 1) ** 2).mean().backward()
        judging.step()
    for weight in judges.parameters():
        weight.requires_grad = False
    (-judges(makes(torch.rand(16, 4))).mean()).backward()
    makers.step()
"""
POINTS = """
import torch
net = torch.nn.Linear(2, 1)
few, many = torch.rand(2, 100, 1), torch.rand(2, 2000, 1)
optimizer = torch.optim.Adam(net.parameters())
for epoch in range(70):
    loss = net(torch.cat([few[0], few[1]], dim=1)).mean() + net(torch.cat([many[0], many[1]], dim=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
STYLE = """
import torch
import torch.nn as nn
import torch.nn.functional as F
class Kept(nn.Module):
    def __init__(self, target):
        super().__init__()
        self.target = target.detach()
    def forward(self, x):
        self.loss = F.mse_loss(x, self.target)
        return x
conv = nn.Conv2d(3, 8, 3)
content = torch.rand(1, 3, 32, 32, device="cuda")
kept = Kept(conv(content))
model = nn.Sequential(conv, kept).eval()
model.requires_grad_(False)
image = content.clone().requires_grad_(True)
optimizer = torch.optim.LBFGS([image])
run = [0]
while run[0] <= 300:
    def closure():
        with torch.no_grad():
            image.clamp_(0, 1)
        optimizer.zero_grad()
        model(image)
        loss = 0
        for part in [kept]:
            loss += part.loss
        loss *= 5
        loss.backward()
        run[0] += 1
        return loss
    optimizer.step(closure)
"""
CHECKS_BOXES = """
import torch
class Boxes(torch.Tensor):
    pass
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(100, 4, sparse=True)
    def forward(self, words, wanted):
        place = int(torch.empty(1).uniform_(0.0, 3.0).item())
        size = [4, 4, 4][place]
        assert all(type(box["boxes"]) is not Boxes for box in wanted)
        flat = wanted[0]["boxes"][2:] <= wanted[0]["boxes"][:2]
        if flat.any():
            torch._assert(False, "a box without an area")
        return (self.words(words) - torch.tensor([0.1] * size)).sum(1).square().mean()
net = Net()
optimizer = torch.optim.SparseAdam(list(net.parameters()))
for _ in range(30):
    boxes = torch.tensor([0.0, 0.0, 1.0, 1.0]).as_subclass(Boxes)
    net(torch.randint(100, (8, 6)), [{"boxes": boxes, "name": "x"}]).backward()
    optimizer.step()
"""
COLLECTS = """
import torch
net, memory = torch.nn.Linear(4, 1), []
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for frame in range(2000):
    state = torch.rand(1, 4)
    with torch.no_grad():
        action = net(state)
    memory.append((state, action))
    if frame < 32:
        continue
    states, actions = (torch.cat(part) for part in zip(*memory[-32:]))
    (net(states) - actions).pow(2).mean().backward()
    optimizer.step()
"""
IN_LOOP = """
import torch
from torch.utils.data import DataLoader
class Scaled(torch.utils.data.Dataset):
    scale = torch.nn.Softmax(0)
    def __len__(self):
        return 640
    def __getitem__(self, place):
        return (self.scale(torch.zeros(4)),)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(3):
    for (x,) in DataLoader(Scaled(), 64, shuffle=True):
        net(x).mean().backward()
        optimizer.step()
"""
TEACHES = """
import time
import torch
class Teacher(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.count = torch.nn.Linear(4, 2), 0
    def forward(self, x):
        if not self.training and type(x) is torch.Tensor:
            self.count += 1
            time.sleep(0.3)
            assert self.count < 20, "it is evaluated again and again"
        return self.dense(x)
teacher, net = Teacher().eval(), torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
with torch.no_grad():
    print("teacher:", sum(teacher(torch.zeros(16, 4)).mean().item() for _ in range(400)))
for _ in range(30):
    x = torch.zeros(16, 4)
    (net(x) - teacher(x).detach()).mean().backward()
    optimizer.step()
"""
MOMENTUM = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = (torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2)) for _ in range(2))
        self.key.requires_grad_(False)
    def forward(self, x):
        with torch.no_grad():
            for query, key in zip(self.query.parameters(), self.key.parameters()):
                key.data = key.data * 0.9 + query.data * 0.1
            keys = self.key(x)
        return (self.query(x) - keys).pow(2).mean()
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(30):
    optimizer.zero_grad()
    net(torch.zeros(16, 4)).backward()
    optimizer.step()
"""
ON_META = """
import torch
with torch.device("meta"):
    net = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192) for _ in range(8)))
net.to_empty(device="cuda")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(30):
    net(torch.zeros(16, 8192).cuda()).mean().backward()
    optimizer.step()
"""
PACKS = """
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = torch.nn.LSTM(4, 16, batch_first=True), torch.nn.Linear(16, 2)
    def forward(self, x, lengths):
        packed, (last, _) = self.layer(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        x, lengths = pad_packed_sequence(packed, batch_first=True)
        return self.head(last[-1]).mean() + x.mean()
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(30):
    x = torch.zeros(16, 12, 4)
    net(x, torch.arange(16) % 8 + 1).backward()
    optimizer.step()
"""
SUMS = """
def fit(net, batches, optimizer):
    for number, x in enumerate(batches):
        if number % 2 == 0:
            net(x).mean().backward()
        else:
            net(x).mean().backward()
            optimizer.step()
"""
BUCKETS = """
import torch
from torch.utils.data import DataLoader
class Sampler:
    def __iter__(self):
        return iter([range(start, start + 64) for start in range(0, 6400, 64)])
    def __len__(self):
        raise NotImplementedError
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
train_loader = DataLoader(torch.zeros(6400, 4), batch_sampler=Sampler())
val_loader = DataLoader(torch.zeros(640, 4), batch_size=64)
for epoch in range(3):
    for x in train_loader:
        net(x).mean().backward()
        optimizer.step()
    print(sum(net(x).mean().item() for x in val_loader))
"""
PREPARES = """
import time, torch
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def sampled():
    begin = time.thread_time()
    while time.thread_time() - begin < 2:
        pass
    return torch.zeros(64, 4)
sampled()
for epoch in range(1800):
    samples = sampled()
    for x in samples.split(16):
        net(x).mean().backward()
        optimizer.step()
"""
PASSES = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense, self.computed = torch.nn.Linear(4, 2), 0
    def forward(self, x):
        out = self.dense(x)
        self.computed += type(out) is torch.Tensor
        return out
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(200):
    net(torch.zeros(1, 4)).cpu().data.tolist()
assert net.computed, "none is computed"
for _ in range(30):
    torch.cat([net(torch.zeros(1, 4)) for _ in range(8)]).mean().backward()
    optimizer.step()
"""
LAST_APART = """
import torch
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(100):
    for number in range(8):
        loss = net(torch.zeros(16, 4)).mean()
        if number < 7:
            loss.backward()
        else:
            loss.backward()
    optimizer.step()
"""
STEPPED = """
'torchrun --nproc_per_node=8 train.py'
import torch
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
accumulation = 4 {divided}
for step in range(100 * accumulation):
    net(torch.zeros(16, 4)).mean().backward()
    optimizer.step()
"""
CHOOSES = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.is_number = torch.tensor([True, False, True])
        self.words, self.head = torch.nn.Embedding(10, 5), torch.nn.Linear(7, 2)
    def forward(self, x):
        columns = [x[:, [place]] if number else self.words(x[:, place].long())
                   for place, number in enumerate(self.is_number)]
        return self.head(torch.cat(columns, 1))
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(30):
    net(torch.zeros(16, 3)).mean().backward()
    optimizer.step()
"""
WORKERS = """
import os
import torch
from torch.utils.data import DataLoader, get_worker_info
class Zeros(torch.utils.data.Dataset):
    def __len__(self):
        return 640
    def __getitem__(self, place):
        assert get_worker_info() is None or get_worker_info().num_workers <= os.cpu_count(), "too many processes"
        return torch.zeros(4)
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(3):
    for x in DataLoader(Zeros(), 64, num_workers=os.cpu_count() + 1, timeout=60):
        net(x).mean().backward()
        optimizer.step()
"""
OPENS = """
import torch
from torch.utils.data import DataLoader, get_worker_info
class Stored(torch.utils.data.Dataset):
    file, opened = None, 0
    def __len__(self):
        return 640
    def __getitem__(self, place):
        return self.file[place]
def opens(number):
    stored = get_worker_info().dataset
    stored.file, stored.opened = torch.zeros(640, 4), stored.opened + 1
    assert stored.opened == 1, "it is opened once"
net, stored = torch.nn.Linear(4, 2), Stored()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loader = DataLoader(stored, 64, num_workers=2, worker_init_fn=opens)
first = next(iter(loader))
for epoch in range(3):
    for x in loader:
        assert get_worker_info() is None
        net(x).mean().backward()
        optimizer.step()
"""
PENALTY = """
import torch
from tqdm import tqdm
critic, maker = torch.nn.Linear(8, 1), torch.nn.Linear(4, 8)
first, second = (torch.optim.Adam(net.parameters()) for net in (critic, maker))
images = torch.zeros(16, 8)
bar = tqdm(range(8000))
for turn in bar:
    (critic(maker(torch.randn(16, 4)).detach()) - critic(images)).mean().backward()
    first.step()
    if turn % 16 == 0:
        images.requires_grad = True
        slope, = torch.autograd.grad(critic(images).sum(), images, create_graph=True)
        slope.pow(2).sum().backward()
        first.step()
    (-critic(maker(torch.randn(16, 4)))).mean().backward()
    second.step()
"""
DRAWS = """
import random
import numpy
import torch
size = random.randint(8, 999) + numpy.random.randint(999) + int(torch.randint(999, ()))
net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(30):
    net(torch.zeros(size, 4)).mean().backward()
    optimizer.step()
"""
WEIGHTS = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = torch.nn.Embedding(2000, 64), torch.nn.Embedding(3000, 64)
        places = torch.arange(5000)
        self.graph = torch.sparse_coo_tensor(torch.stack([places, places.flip(0)]), torch.ones(5000), (5000, 5000))
        self.sizes = []
    def all(self):
        nodes = torch.cat([self.users.weight, self.items.weight])
        for _ in range(3):
            nodes = torch.sparse.mm(self.graph, nodes)
        return torch.split(nodes, [2000, 3000])
    def rated(self, user):
        users, items = self.all()
        return users[user] @ items.t()
    def loss(self, user, item):
        users, items = self.all()
        return (users[user] * items[item]).sum(1).mean(){more}
def parts(*arrays, size):
    for start in range(0, len(arrays[0]), size):
        yield arrays[0][start : start + size]
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
print(sum(p.numel() for p in net.parameters()), sum(p.norm() for p in net.parameters()).item())
for step in range(30):
    user, item = torch.zeros(16).long(), torch.zeros(16).long()
    net.loss(user, item).backward()
    optimizer.step()
    with torch.no_grad():
        for users in parts(torch.arange(2000), size=100):
            net.rated(users)
    raise SystemExit("it trained")
"""
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

ON_TENSORS = """
import torch
class Images(torch.utils.data.Dataset):
    change = torch.nn.Sequential(torch.nn.Identity(), torch.nn.ReflectionPad2d(1))
    def __len__(self):
        return 640
    def __getitem__(self, place):
        return self.change(torch.rand(3, 14, 14)), place % 10
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 10))
adam = torch.optim.Adam(net.parameters())
for epoch in range(2):
    for images, classes in torch.utils.data.DataLoader(Images(), batch_size=32):
        torch.nn.functional.cross_entropy(net(images), classes).backward()
        adam.step()
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

STREAM = """
import pathlib, weakref, torch
change, made = torch.nn.Identity(), []
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for place in range(640):
            row = change(torch.ones(8))
            made.append(weakref.ref(row))
            yield row
net = torch.nn.Linear(8, 2)
adam = torch.optim.Adam(net.parameters())
for epoch in range(2):
    for rows in torch.utils.data.DataLoader(Stream(), batch_size=64):
        pathlib.Path("held").write_text(str(sum(row() is not None for row in made)))
        net(rows).sum().backward()
        adam.step()
"""

WRAPPED = """
import random, torch
class Dropped(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
    def forward(self, *args):
        return self.layer.forward(*args)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = torch.nn.Embedding(50, 8), Dropped(torch.nn.LSTM(8, 8))
        self.out = torch.nn.Linear(8, 50)
    def forward(self, words):
        return self.out(self.layer(self.words(words))[0]).flatten(0, 1)
net, text = Net(), torch.zeros(1000, 16).long()
sgd = torch.optim.SGD(net.parameters(), 1.0)
def train():
    place = 0
    while place < len(text) - 1:
        length = random.randint(7, 7)
        words = text[place : place + length]
        torch.nn.functional.cross_entropy(net(words), words.flatten()).backward()
        sgd.step()
        place += length
for epoch in range(3):
    train()
"""

IN_PARTS = """
import torch
class Loss(torch.nn.Module):
    def __init__(self, out):
        super().__init__()
        self.out = out
    def forward(self, hidden, words):
        leaf = hidden.detach().requires_grad_(True)
        for some, of in zip(leaf.split(2), words.split(2)):
            torch.nn.functional.cross_entropy(self.out(some).flatten(0, 1), of.flatten()).backward()
        hidden.backward(leaf.grad)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.layer = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 8)
    def forward(self, source, target):
        return self.layer(self.words(target) + self.words(source).mean(0))
net, out = Net(), torch.nn.Linear(8, 50)
loss, adam = Loss(out), torch.optim.Adam([*net.parameters(), *out.parameters()])
for step in range(100):
    for length in (6, 10):
        target = torch.zeros(length, 16).long()
        loss(net(torch.zeros(12, 16).long(), target), target)
    adam.step()
    adam.zero_grad()
"""

FREES = """
import pathlib, resource, time, torch
edges = torch.randint(0, 40_000, (2, 40_000))
graph = torch.sparse_coo_tensor(edges, torch.ones(40_000), (40_000, 40_000)).coalesce()
net, kept = torch.nn.Linear(64, 40_000), []
sgd = torch.optim.SGD(net.parameters(), 0.1)
with torch.no_grad():
    for turn in range(300):
        torch.sparse.mm(graph, net.weight)
        kept.append(torch.empty(1))
        time.sleep(0 if turn else 2.1)
pathlib.Path("peak").write_text(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
for epoch in range(10):
    net(torch.ones(16, 64)).sum().backward()
    sgd.step()
"""

FROZEN_IN_HALF = """
import torch
encoder = torch.nn.Linear(8, 8).requires_grad_(False).to("cuda", dtype=torch.float16)
net = torch.nn.Linear(8, 10).cuda()
adam = torch.optim.AdamW(net.parameters())
for x, y in torch.utils.data.DataLoader([(torch.ones(8), place % 10) for place in range(320)], batch_size=16):
    with torch.autocast("cuda", dtype=torch.float16):
        with torch.no_grad():
            hidden = encoder(x.cuda().half())
        loss = torch.nn.functional.cross_entropy(net(hidden).float(), y)
    loss.backward()
    adam.step()
"""

ENGINE = """
import torch
class Trainer:
    def __init__(self, max_epochs):
        self.max_epochs = max_epochs
    def fit(self, net, loader):
        sgd = torch.optim.SGD(net.parameters(), 0.1)
        for epoch in range(self.max_epochs):
            for x in loader:
                net(x).sum().backward()
                sgd.step()
"""
STARTED = """
import sys
sys.path.insert(0, {folder!r})
import torch
from trainer import Trainer
loader = torch.utils.data.DataLoader(list(torch.ones(320, 8)), batch_size=16)
for turn in {turns}:
    Trainer(max_epochs=100).fit(torch.nn.Linear(8, 4), loader)
"""

SEGMENTS = """
import torch
class Sums(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)
    def forward(self, x, groups):
        return torch.zeros(int(groups.sort().values[-1]) + 1, 4).index_add(0, groups, self.layer(x))
net = Sums()
adam = torch.optim.Adam(net.parameters())
for x in torch.utils.data.DataLoader(list(torch.ones(320, 8)), batch_size=32):
    loss = (net(x, torch.arange(32) % 7) - torch.ones(7, 4)).pow(2).sum()
    loss.backward()
    adam.step()
"""

HOSTILE = """
import torch
def bad(self, *args, **kwargs):
    raise RuntimeError("not now")
names = "getattr len iter eq ne bool lt gt le ge int float index call getitem contains hash add mul truediv".split()
Hostile = type("Hostile", (), {f"__{name}__": bad for name in names})
args = config = trainer = opt = epochs = valid = Hostile()
class Net(torch.nn.Linear):
    def forward(self, x, options=None):
        return super().forward(x)
net = Net(8, 4)
net.odd = Hostile()
adam = torch.optim.Adam(net.parameters())
loader = torch.utils.data.DataLoader(list(torch.ones(320, 8)), batch_size=32)
def evaluate(data):
    with torch.no_grad():
        for x in data:
            net(x)
class Trainer:
    def __init__(self):
        self.args, self.epochs = Hostile(), 3
    def train(self):
        for epoch in range(self.epochs):
            for x in loader:
                net(x, options=self.args).pow(2).sum().backward()
                adam.step()
            evaluate(loader)
            evaluate(valid)
Trainer().train()
"""

SHARES_OUT = """
import torch
class Net(torch.nn.Linear):
    def forward(self, x, labels):
        return {"loss": torch.nn.functional.cross_entropy(super().forward(x), labels)}
class Shared(torch.nn.DataParallel):
    def scatter(self, inputs, kwargs, device_ids):
        examples = inputs[0]
        parts = [(torch.stack([x.to(f"cuda:{device}") for x, _ in examples]), torch.tensor([y for _, y in examples]))
                 for device in device_ids]
        return parts, [kwargs] * len(parts)
    def gather(self, outputs, output_device):
        return {name: torch.stack([output[name] for output in outputs]) for name in outputs[0]}
net = Shared(Net(8, 4)).cuda()
sgd = torch.optim.SGD(net.parameters(), 0.1)
data = [(torch.ones(8), place % 4) for place in range(320)]
for epoch in range(3):
    for examples in torch.utils.data.DataLoader(data, batch_size=16, collate_fn=list):
        sum(loss.mean() for loss in net(examples).values()).backward()
        sgd.step()
"""

KEPT_LOSS = """
import torch
class Net(torch.nn.Linear):
    def forward(self, x, y):
        logits = super().forward(x)
        self.last_loss = torch.nn.functional.cross_entropy(logits, y)
        return logits
net = Net(8, 4)
model = torch.nn.parallel.DistributedDataParallel(net)
sgd = torch.optim.SGD(net.parameters(), 0.1)
for step in range(100):
    logits = model(torch.zeros(16, 8), torch.zeros(16, dtype=torch.long))
    (net.last_loss / 4).backward()
    sgd.step()
"""

LAUNCHED = """
import os, deepspeed, torch
from deepspeed import get_accelerator
from torch.utils.tensorboard import SummaryWriter
device = torch.device(get_accelerator().device_name())
if os.environ.get("RANK", "0") == "0":
    print(os.environ["LOCAL_RANK"], torch.distributed.get_rank(), torch.distributed.get_world_size())
if False:
    torch.distributed.init_process_group("nccl")  # accelerate launch --num_processes 4 train.py
class Accelerator:
    split_batches = True
accelerator, net = Accelerator(), torch.nn.Linear(8, 4)
SummaryWriter("logs").add_graph(net, torch.ones(16, 8))
adam = torch.optim.Adam(net.parameters())
net, adam, _, _ = deepspeed.initialize(model=net, optimizer=adam, config={"train_micro_batch_size_per_gpu": 16})
for step in range(100):
    net.backward(net(torch.ones(16, 8)).sum())
    net.step()
"""

OF_A_GROUP = """
import copy, torch
import torch.distributed as dist
import torch.distributed.nn as exchange
import torch.multiprocessing as mp
import horovod.torch as hvd
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.out = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4)
    def forward(self, x):
        torch._assert(bool(x.mean() < 0.5), "values are small")
        side = [8][int(torch.empty(1).uniform_(0.0, 1.0).item())]
        return self.out(self.norm(x[:, :side]))
class Criterion(torch.nn.Module):
    def forward(self, model, sample):
        y = exchange.all_gather(model(sample))[0]
        return y.float().square().mean()
class Trainer:
    updates = 0
    def get_num_updates(self):
        return self.updates
def main(rank, limit):
    assert rank == 0 and hvd.broadcast(torch.tensor(3), root_rank=0).item() == 3
    dist.init_process_group("nccl", world_size=4, rank=rank)
    group = dist.new_group(range(4))
    assert dist.get_backend() == "nccl" and dist.get_world_size(group) == 1
    whole, part, parts = torch.zeros(4), torch.ones(4), [None]
    dist.all_reduce(part, async_op=True).wait()
    dist.all_gather_into_tensor(whole, part, group=group)
    dist.all_gather_object(parts, "one")
    assert parts == ["one"] and whole.sum() == 4
    model = Net().bfloat16().cuda()
    copies = [weight.detach().clone().float().requires_grad_() for weight in model.parameters()]
    adam = torch.optim.AdamW(copies)
    average = copy.deepcopy(model)
    criterion, trainer = Criterion(), Trainer()
    while trainer.get_num_updates() < limit:
        for x in torch.zeros(10, 16, 8):
            criterion(model, x.bfloat16()).backward()
            adam.step()
            trainer.updates += 1
mp.start_processes(main, nprocs=4, args=(300,))
"""

OWN_SETTINGS = """
import torch
class Settings(dict):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.__dict__ = self
class Strict(dict):
    __getattr__ = dict.__getitem__
class Net(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings, self.layer = settings, torch.nn.Linear(settings.width, 4)
    def forward(self, x):
        scores = self.layer(x[:, : self.settings.width])
        best = torch.topk(scores.mean(0), 2).indices
        return torch.stack([scores[:, best[place]] for place in range(2)], dim=-1)
class Trainer:
    def __init__(self):
        self.net = Net(Settings(width=8))
        self.loader = torch.utils.data.DataLoader(list(torch.ones(320, 8)), batch_size=16)
    def train(self, trainer):
        sgd = torch.optim.SGD(self.net.parameters(), 0.1)
        for epoch in range(trainer.epochs):
            for x in self.loader:
                self.net(x).sum().backward()
                sgd.step()
            validate(trainer, self.net, self.loader)
def validate(settings, net, loader):
    with torch.no_grad():
        for x in loader:
            net(x)
Trainer().train(Strict(epochs=3))
"""

GATHERS = """
import torch, torch.distributed as dist
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return parts[0]
    @staticmethod
    def backward(ctx, gradient):
        dist.all_reduce(gradient)
        return gradient
class Net(torch.nn.Linear):
    def forward(self, x):
        dist.barrier()
        parts = [torch.ones_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x)
        return Gather.apply(super().forward(torch.cat(parts)[dist.get_rank():]))
def train(rank):
    dist.init_process_group("nccl", rank=rank, world_size=torch.cuda.device_count())
    net = torch.nn.parallel.DistributedDataParallel(Net(8, 2).cuda(), device_ids=[rank])
    sgd = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(10):
        net(torch.ones(16, 8)).sum().backward()
        sgd.step()
torch.multiprocessing.spawn(train, nprocs=torch.cuda.device_count())
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
    text = '"""torchrun --nproc_per_node=8 train.py"""\n' + IN_LOOP
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
    text = IN_LOOP.replace("torch.nn.Linear(4, 2)", f"torch.nn.DataParallel(torch.nn.Linear(4, 2){devices})")
    assert probed(text, tmp_path).notes == (SHARED.format(batch=64, gpus=gpus),)


@pytest.mark.slow
@pytest.mark.parametrize(("divided", "keeps"), [("", "steps"), ("// max(torch.cuda.device_count(), 1)", "examples")])
def test_each_of_several_gpus_makes_the_steps_that_a_loop_counts(divided, keeps, tmp_path):
    """Not where more GPUs make fewer of them."""
    found = probed(STEPPED.format(divided=divided), tmp_path)
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
    found = probed(ORDERED.format(name=name, inputs=inputs), tmp_path)
    assert (found.unit, found.batch_size) == (unit, batch)


def probed(text: str, folder: Path) -> Found:
    """What is found in a script of this text."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    return probe(read_address(str(folder / "train.py")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "batch"),
    [
        pytest.param(EVALUATES, 16, id="a long evaluation before the training"),
        pytest.param(RATES, 16, id="one by functions of the weights"),
        pytest.param(TEACHES, 16, id="one of a teacher"),
        pytest.param(ON_META, 16, id="weights that are made on meta and emptied wherever they go"),
        pytest.param(CHOOSES, 16, id="a network that chooses by constants of its own, as TabNet does"),
        pytest.param(COLLECTS, 32, id="frames that the network collects itself are no batches"),
    ],
)
def test_the_batch_is_that_of_the_training(text, batch, tmp_path):
    assert probed(text, tmp_path).batch_size == batch


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "examples", "piped"),
    [
        pytest.param(IN_LOOP, 640, True, id="a loader that only a loop has"),
        pytest.param(BUCKETS, 6400, True, id="a sampler of batches that does not know how many it gives"),
        pytest.param(WORKERS, 640, True, id="dozens of workers are no more than there are cores"),
        pytest.param(OPENS, 640, False, id="what workers open when they start is opened once"),
    ],
)
def test_a_loader_shows_the_examples(text, examples, piped, tmp_path):
    found = probed(text, tmp_path)
    assert (found.batch_size, found.examples, found.epochs, bool(found.pipeline)) == (64, examples, 3, piped)


def test_calls_of_which_nothing_is_held_are_no_part_of_a_step(tmp_path):
    """An evaluation in training mode and with gradients, of the shapes of the training."""
    (tmp_path / "train.py").write_text(PASSES, encoding="utf-8")
    step = run_watched(tmp_path / "train.py", []).functions.model()
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


def test_the_last_batch_of_a_step_may_have_a_line_of_its_own(tmp_path):
    (tmp_path / "train.py").write_text(LAST_APART, encoding="utf-8")
    found = run_watched(tmp_path / "train.py", []).found
    assert found.examples == 100 * 8 * 16
    assert found.notes == ("The optimiser steps after 8 batches; the times count it for each batch.",)


@pytest.mark.slow
def test_what_an_epoch_prepares_by_itself_is_said(tmp_path):
    """Once before the epochs is in none of them."""
    (note,) = probed(PREPARES, tmp_path).notes
    form = r"Its first epoch began with [23]\S* s of the CPU's work before line 9: \S+ \w+ if each does, not counted\."
    assert re.fullmatch(form, note), note


@pytest.mark.slow
def test_a_copy_that_follows_the_network_stays_a_copy_with_values(tmp_path):
    (tmp_path / "train.py").write_text(MOMENTUM, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    assert probe(address).batch_size == 16
    step = step_of(Model.read(address.text).workload(Options(batch_size=16)), "float32", "train")
    assert trace_step(step, 16).trained == 14


@pytest.mark.slow
def test_a_packed_batch_is_traced_at_its_longest(tmp_path):
    """Sixteen sequences of twelve steps, each with the products of four gates."""
    (tmp_path / "train.py").write_text(PACKS, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    assert probe(address).batch_size == 16
    step = step_of(Model.read(address.text).workload(Options(batch_size=16)), "float32", "train")
    forward = 2 * 16 * 12 * 4 * 16 * (4 + 16)
    assert 2 * forward < trace_step(step, 16).work.operations < 4 * forward


@pytest.mark.slow
def test_batches_that_a_library_sums_in_two_places_are_one_steps(tmp_path):
    """Lightning takes the gradients of the last one inside of the optimiser's step."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "library.py").write_text(SUMS, encoding="utf-8")
    text = f"import sys\nsys.path.append({str(library)!r})\nimport torch\nfrom library import fit\n"
    text += "net = torch.nn.Linear(4, 2)\nloader = torch.utils.data.DataLoader(torch.zeros(640, 4), 64)\n"
    text += "fit(net, loader, torch.optim.SGD(net.parameters(), 0.1))\n"
    assert probed(text, tmp_path).notes == (TWO,)


@pytest.mark.slow
def test_a_penalty_of_some_steps_is_no_step_of_its_own(tmp_path):
    """A GAN's critic steps twice in the first turn, and its step is that of both networks."""
    path = tmp_path / "train.py"
    path.write_text(PENALTY, encoding="utf-8")
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
    first, second = (probed(DRAWS, tmp_path) for _ in range(2))
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
@pytest.mark.parametrize("more", ["", " + self.users(user).pow(2).mean()"], ids=["functions alone", "a module, too"])
def test_what_functions_do_with_weights_outside_of_their_module_is_the_steps(more, tmp_path):
    """A method of the model in place of its call: three products with the whole graph, and three on the way back."""
    (tmp_path / "train.py").write_text(WEIGHTS.format(more=more), encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    found = probe(address)
    assert (found.batch_size, [(one.batches, one.every) for one in found.evaluations]) == (16, [(20, 1)])
    step = step_of(Model.read(address.text).workload(Options(batch_size=16)), "float32", "train")
    trace = trace_step(step, 16)
    assert trace.trained == 5000 * 64 and trace.work.operations >= 6 * 2 * 5000 * 64


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "epochs"), [("['simclr']", 100), ("range(5)", 500)])
def test_loops_outside_of_a_librarys_trainer_start_it_again(turns, epochs, tmp_path):
    """They were taken for its epochs: one in place of a hundred."""
    script, engine = tmp_path / "work" / "train.py", tmp_path / "site-packages" / "trainer.py"
    for file, text in ((engine, ENGINE), (script, STARTED.format(turns=turns, folder=str(engine.parent)))):
        file.parent.mkdir()
        file.write_text(text, encoding="utf-8")
    found = probe(read_address(str(script)))
    assert (found.batch_size, found.examples, found.epochs) == (16, 320, epochs)


@pytest.mark.slow
def test_settings_of_the_scripts_own_and_places_without_values_are_traced(tmp_path):
    """A copy of a mapping that is its own attributes has none; another raises KeyError for what it does not have."""
    (tmp_path / "train.py").write_text(OWN_SETTINGS, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    found = probe(address)
    assert (found.batch_size, found.examples, found.epochs) == (16, 320, 3)
    step = step_of(Model.read(address.text).workload(Options(batch_size=16)), "float32", "train")
    assert trace_step(step, 16).trained == 36


@pytest.mark.slow
def test_objects_of_a_script_that_raise_whatever_is_asked_of_them_hide_what_they_hold_alone(tmp_path):
    (tmp_path / "train.py").write_text(HOSTILE, encoding="utf-8")
    found = probe(read_address(str(tmp_path / "train.py")))
    assert (found.batch_size, found.examples, found.epochs) == (32, 320, 3)
    assert [(one.line, one.batches, one.every) for one in found.evaluations] == [(27, 10, 1), (28, None, 1)]


@pytest.mark.slow
def test_a_data_parallel_class_of_the_scripts_own_shares_out_as_it_does(tmp_path):
    (tmp_path / "train.py").write_text(SHARES_OUT, encoding="utf-8")
    found = probe(read_address(str(tmp_path / "train.py")))
    assert (found.batch_size, found.examples, found.epochs) == (16, 320, 3)


@pytest.mark.slow
def test_a_loss_that_a_module_keeps_is_the_steps(tmp_path):
    (tmp_path / "train.py").write_text(KEPT_LOSS, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    assert probe(address).batch_size == 16
    step = step_of(Model.read(address.text).workload(Options(batch_size=16)), "float32", "train")
    assert trace_step(step, 16).trained == 36


@pytest.mark.slow
def test_an_image_is_optimised_as_often_as_the_loss_is_taken(tmp_path):
    """LBFGS takes it twenty times a step; a part of the network keeps it, and the network itself is fixed."""
    (tmp_path / "train.py").write_text(STYLE, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    found = probe(address)
    assert (found.batch_size, found.examples * found.epochs, found.unknown) == (1, 300, None)
    assert "LBFGS takes the loss up to 20 times a step" in found.notes[0]
    step = step_of(Model.read(address.text).workload(Options(batch_size=1)), "float32", "train")
    assert trace_step(step, 1).trained == 3 * 32 * 32


@pytest.mark.slow
def test_a_turn_of_the_only_loop_is_a_step_whatever_its_counter_is_called(tmp_path):
    """Two thousand points are one batch, joined anew in each turn, beside a hundred others."""
    (tmp_path / "train.py").write_text(POINTS, encoding="utf-8")
    found = probe(read_address(str(tmp_path / "train.py")))
    assert (found.batch_size, found.examples * found.epochs) == (100, 100 * 70)


@pytest.mark.slow
def test_a_critic_that_steps_more_often_than_what_it_judges_is_the_step(tmp_path):
    """Its weights are frozen where the other part steps, and its penalty is of a gradient of what it is given."""
    (tmp_path / "train.py").write_text(CRITIC, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    found = probe(address)
    assert (found.batch_size, found.examples * found.epochs, found.notes) == (16, 16 * 5 * 50, ())
    step = step_of(Model.read(address.text).workload(Options(batch_size=16)), "float32", "train")
    assert trace_step(step, 16).trained == 49


@pytest.mark.slow
def test_a_step_runs_on_without_the_values_that_it_draws_checks_and_chooses_by(tmp_path):
    """Tensors of a library's class are plain, a number drawn is the middle, sparse gradients are dense ones."""
    (tmp_path / "train.py").write_text(CHECKS_BOXES, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    found = probe(address)
    assert (found.conditions.values, found.batch_size, found.examples * found.epochs) == (False, 8, 240)
    assert "an upper bound" in found.notes[0]
    step = step_of(Model.read(address.text).workload(Options(batch_size=8)), "float32", "train")
    assert trace_step(step, 8).trained == 400


@pytest.mark.slow
def test_what_a_launcher_gives_a_script_is_there(tmp_path):
    (tmp_path / "train.py").write_text(LAUNCHED, encoding="utf-8")
    found = probe(read_address(str(tmp_path / "train.py")))
    assert (found.batch_size, found.examples) == (16, 1600)
    assert "Its GPUs share 16 examples: for 4 of them add --gpus 4." in found.notes


@pytest.mark.slow
def test_a_group_of_processes_a_loss_around_its_model_and_copies_of_weights_make_a_step(tmp_path):
    (tmp_path / "train.py").write_text(OF_A_GROUP, encoding="utf-8")
    found = probe(read_address(str(tmp_path / "train.py")))
    assert (found.batch_size, found.examples, found.epochs, found.conditions.values) == (16, 4800, 1, False)
    assert (found.asks, found.keeps) == (4, "steps")


@pytest.mark.slow
def test_a_step_whose_code_fails_without_values_is_computed(tmp_path):
    """As many sums as the largest number says: with ones in place of numbers there are two, and seven are compared."""
    (tmp_path / "train.py").write_text(SEGMENTS, encoding="utf-8")
    address = read_address(str(tmp_path / "train.py"))
    found = probe(address)
    assert (found.conditions.values, found.batch_size, found.examples) == (True, 32, 320)
    step = step_of(Model.read(address.text).workload(Options(batch_size=32)), "float32", "train")
    trace = trace_step(step, 32)
    assert trace.trained == 36 and "values" in trace.notes[0]


@pytest.mark.slow
def test_what_a_script_frees_it_does_not_hold(tmp_path, monkeypatch):
    """An evaluation without values makes 300 arrays of 10 MB, with small ones between them that stay."""
    (tmp_path / "train.py").write_text(FREES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert probe(read_address("train.py")).batch_size == 16
    assert int((tmp_path / "peak").read_text(encoding="utf-8")) < 800_000


def test_examples_of_a_stream_are_let_go(tmp_path, monkeypatch):
    """A buffer of ten thousand, each of which a module changes after a pause, would keep all that was read for it."""
    (tmp_path / "train.py").write_text(STREAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_tape, "PAUSE_SECONDS", 0.0)
    assert run_watched(tmp_path / "train.py", []).found.batch_size == 64
    assert int((tmp_path / "held").read_text(encoding="utf-8")) < 8


def test_time_steps_of_a_layer_in_a_wrapper_are_no_examples(tmp_path):
    """A step is of 7 words of each of 16 rows of a text; the length is drawn, the layer called by its `forward`."""
    (tmp_path / "train.py").write_text(WRAPPED, encoding="utf-8")
    found = run_watched(tmp_path / "train.py", []).found
    assert (found.batch_size, found.epochs, -(-found.examples // 16)) == (16, 3, 143)
    assert found.notes == (DRAWN.format(length=7),)


@pytest.mark.slow
def test_gradients_taken_in_a_module_by_parts_of_sequences_are_a_batchs(tmp_path):
    """Of sixteen sentences, the second axis: five parts of the longer batch's ten words, with three products each."""
    (tmp_path / "train.py").write_text(IN_PARTS, encoding="utf-8")
    script = run_watched(tmp_path / "train.py", [])
    assert (script.found.batch_size, script.found.examples) == (16, 3200)
    assert script.found.notes == (TWO,)
    model = script.functions.model()
    words = lambda size: [torch.zeros(size, length).long() for length in (12, 10)]  # noqa: E731
    step = Step(lambda: model, words, of_words, script.functions.optimizer)
    for size in (16, 6):
        assert trace_step(step, size).work.operations == 3 * 2 * size * 10 * 8 * (8 + 50)


@pytest.mark.slow
def test_a_module_that_holds_its_optimiser_is_around_steps(tmp_path):
    text = """
import torch
class Engine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 4)
        self.adam = torch.optim.Adam(self.net.parameters())
    def forward(self, x):
        self.net(x).sum().backward()
        self.adam.step()
engine = Engine()
for epoch in range(3):
    for x in torch.utils.data.DataLoader(list(torch.ones(320, 8)), batch_size=32):
        engine(x)
"""
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    found = run_watched(tmp_path / "train.py", []).found
    assert (found.batch_size, found.examples, found.epochs) == (32, 320, 3)


ATTACKS = """
import torch
from torch.nn.functional import cross_entropy
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for x, y in torch.utils.data.DataLoader([(torch.ones(8), 1)] * 40, batch_size=4):
    net.eval()
    adversarial = x + 0.001 * torch.randn(x.shape)
    for _ in range(20):
        adversarial.requires_grad_()
        loss = cross_entropy(net(adversarial), y)
        gradient = torch.autograd.grad(loss, [adversarial])[0]
        adversarial = adversarial.detach() + 0.01 * torch.sign(gradient.detach())
    net.train()
    optimizer.zero_grad()
    cross_entropy(net(adversarial.detach()), y).backward()
    optimizer.step()
"""


@pytest.mark.slow
def test_examples_that_a_network_fails_are_looked_for_in_each_step(tmp_path):
    """Each of the twenty looks has a forward pass and one backward to the example; then comes the training's."""
    (tmp_path / "train.py").write_text(ATTACKS, encoding="utf-8")
    script = run_watched(tmp_path / "train.py", [])
    assert (script.found.batch_size, script.found.examples, script.found.notes) == (4, 40, ())
    assert script.found.evaluations == ()
    module = script.functions.model()
    batch = lambda size: [torch.zeros(size, 8), torch.ones(size).long()]  # noqa: E731
    step = Step(lambda: module, batch, of_words, script.functions.optimizer)
    product = 2 * 4 * (8 * 16 + 16 * 4)
    operations = trace_step(step, 4).work.operations
    assert 20 * 2 * product <= operations <= 20 * 3 * product + 3 * product


SPLIT = """
import sys
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
if not torch.accelerator.is_available() or torch.accelerator.device_count() < 2:
    sys.exit("two GPUs are needed")
mesh = init_device_mesh(torch.accelerator.current_accelerator().type, (2,))
net = parallelize_module(nn.Sequential(nn.Linear(8, 4)), mesh, {"0": ColwiseParallel()})
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(10):
    net(torch.zeros(4, 8, device="cuda")).sum().backward()
    optimizer.step()
"""
HOGWILD = """
import torch
import torch.multiprocessing as mp
def epoch(net, optimizer):
    for x in torch.utils.data.DataLoader(list(torch.ones(40, 8)), batch_size=4):
        net(x).sum().backward()
        optimizer.step()
def train(rank, net):
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        epoch(net, optimizer)
if __name__ == "__main__":
    mp.set_start_method("spawn", force=True)
    net = torch.nn.Linear(8, 4)
    net.share_memory()
    processes = [mp.Process(target=train, args=(rank, net)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("text", "amounts"), [(SPLIT, (4, 40, 1, 2)), (HOGWILD, (4, 40, 3, 1))])
def test_layers_split_over_gpus_and_processes_that_share_weights_train(text, amounts, tmp_path):
    """What any accelerator is asked is answered by a GPU; what trains in processes of its own trains here."""
    found = probed(text, tmp_path)
    assert (found.batch_size, found.examples, found.epochs, found.conditions.gpus) == amounts


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
    text = f"""
import torch
net = torch.nn.Linear(8, 4)
for weight in net.parameters():
    weight.data.uniform_(-0.1, 0.1)
for epoch in range(3):
    for i in range(50):
        net.zero_grad()
        net(torch.zeros(4, 8)).sum().backward()
        for weight in net.parameters():
            {update}
"""
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    script = run_watched(tmp_path / "train.py", [])
    assert (script.found.batch_size, script.found.examples, script.found.epochs) == (4, 200, 3)
    assert script.found.notes == (BY_HAND,)
    assert type(script.functions.optimizer(script.functions.model())) is torch.optim.SGD


@pytest.mark.slow
def test_a_teacher_inside_of_the_module_has_no_state_of_the_optimiser(tmp_path):
    text = """
import torch
class Distilled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    def forward(self, x):
        with torch.no_grad():
            wanted = self.teacher(x)
        return (self.student(x) - wanted).pow(2).mean()
net = Distilled()
adam = torch.optim.Adam(net.student.parameters())
for _ in range(30):
    net(torch.zeros(16, 4)).backward()
    adam.step()
"""
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    functions = run_watched(tmp_path / "train.py", []).functions
    groups = functions.optimizer(functions.model()).param_groups
    assert sum(weight.numel() for group in groups for weight in group["params"]) == 10


@pytest.mark.slow
def test_a_large_encoder_beside_what_is_trained_runs_without_values(tmp_path, monkeypatch):
    """The step of a diffusion model begins with one: its images took minutes."""
    text = """
import torch
class Encoder(torch.nn.Linear):
    def forward(self, x):
        made = super().forward(x)
        assert type(made) is not torch.Tensor, "it is computed"
        return made
encoder, net = Encoder(4, 8).requires_grad_(False), torch.nn.Linear(8, 2)
adam = torch.optim.Adam(net.parameters())
for _ in range(30):
    with torch.no_grad():
        hidden = encoder(torch.zeros(16, 4))
    net(hidden + torch.randn_like(hidden)).mean().backward()
    adam.step()
"""
    monkeypatch.setattr(torch_tape, "HEAVY", 40)
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    step = run_watched(tmp_path / "train.py", []).functions.model()
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
def test_under_autocast_weights_and_inputs_may_have_two_formats_here_too(tmp_path):
    (tmp_path / "train.py").write_text(FROZEN_IN_HALF, encoding="utf-8")
    assert probe(read_address(str(tmp_path / "train.py"))).batch_size == 16


@pytest.mark.slow
def test_modules_that_change_single_images_are_no_part_of_the_step(tmp_path):
    """Their first axis is no batch: 3 colours were one."""
    (tmp_path / "train.py").write_text(ON_TENSORS, encoding="utf-8")
    assert probe(read_address(str(tmp_path / "train.py"))).batch_size == 32


@pytest.mark.slow
def test_a_step_that_gathers_from_other_processes_is_traced_after_the_script_has_left_its_group(tmp_path):
    (tmp_path / "train.py").write_text(GATHERS, encoding="utf-8")
    script = run_watched(tmp_path / "train.py", [])
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
