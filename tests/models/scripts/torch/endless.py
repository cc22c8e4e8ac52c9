"""Batches that never end: how long it trains does not show."""

import torch

net = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.1)


def batches():
    while True:
        yield torch.rand(24, 8)


for rows in batches():
    loss = net(rows).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < 1e-9:
        break
