"""Trains for the script beside this folder; a network that chooses by values and reads them on the host."""

import torch


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.mask = torch.nn.Linear(8, 2), None

    def forward(self, x):
        scores = self.layer(x)
        if self.mask is None:
            self.mask = torch.ones_like(scores)  # kept of the first call
        assert scores.max().item() < 1e9
        return (scores * self.mask)[scores[:, 0] > -1e9]


def train(epochs):
    net = Detector()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(epochs):
        for _ in range(40):
            optimizer.zero_grad()
            net(torch.zeros(16, 8)).square().mean().backward()
            optimizer.step()
            raise SystemExit("it trained")
