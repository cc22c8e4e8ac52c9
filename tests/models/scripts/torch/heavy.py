"""Six batches of a deep network, which keeps its loss, are summed for a step, each the same as the others."""

import torch
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Sequential):
    def forward(self, rows):
        self.loss = super().forward(rows).mean()
        return self.loss


net = Net(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(60)))
optimizer = torch.optim.SGD(net.parameters(), 0.1)
loader = DataLoader(torch.rand(480, 256), batch_size=4)
for epoch in range(2):
    for place, rows in enumerate(loader):
        net(rows)
        (net.loss / 6).backward()
        if place % 6 == 5:
            optimizer.step()
            optimizer.zero_grad()
