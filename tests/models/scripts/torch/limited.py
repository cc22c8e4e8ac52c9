"""Epochs that end before their loader does, by a limit that its loop has."""

import torch
from torch.utils.data import DataLoader

net = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loader = DataLoader(torch.rand(640, 8), 64)
for _ in range(3):
    for step, rows in enumerate(loader):
        if step >= 5:
            break
        loss = net(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
