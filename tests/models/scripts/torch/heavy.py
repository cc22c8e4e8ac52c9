"""Six batches of a deep network are summed for a step, each the same as the others."""

import torch
from torch import nn
from torch.utils.data import DataLoader

net = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(60)))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loader = DataLoader(torch.rand(480, 256), batch_size=4)
for epoch in range(2):
    for place, rows in enumerate(loader):
        (net(rows).mean() / 6).backward()
        if place % 6 == 5:
            optimizer.step()
            optimizer.zero_grad()
