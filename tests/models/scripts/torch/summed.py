"""Gradients of four batches are summed for a step."""

import torch
from torch.utils.data import DataLoader, TensorDataset

SUMS = 4
net = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 64))
optimizer = torch.optim.AdamW(net.parameters())
loader = DataLoader(TensorDataset(torch.rand(3200, 64)), batch_size=8)
for epoch in range(3):
    for place, (rows,) in enumerate(loader):
        ((net(rows) - rows).pow(2).mean() / SUMS).backward()
        if (place + 1) % SUMS == 0:
            optimizer.step()
            optimizer.zero_grad()
