"""A loop that evaluates at its step number 0, and then seldom."""

import torch

net = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(400):
    loss = net(torch.rand(32, 8)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        with torch.no_grad():
            print(sum(net(torch.rand(500, 8)).mean() for _ in range(30)))
