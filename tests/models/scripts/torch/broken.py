"""It fails in its second step."""

import torch

net = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(100):
    net(torch.rand(24, 8)).mean().backward()
    optimizer.step()
    torch.save(net.state_dict(), names[step])  # noqa: F821  # what is tested
