"""A recurrent layer that takes time steps first: 20 of them, of 8 examples."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(10, 32), nn.Linear(32, 5)

    def forward(self, rows):
        return self.head(self.lstm(rows)[0][-1])


net = Net()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(100):
    loss = net(torch.rand(20, 8, 10)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
