"""A graph network: messages along 64 edges are added up at 20 nodes, in each of 32 graphs."""

import torch
from torch import nn

LOSS, OPTIMIZER, BATCH_SIZE = "cross_entropy", "Adam", 32
INPUT = {
    "nodes": {"shape": (20, 16)},
    "start": {"shape": (64,), "dtype": "int64", "below": 20},
    "end": {"shape": (64,), "dtype": "int64", "below": 20},
}
TARGET = {"shape": (), "dtype": "int64", "below": 3}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList([nn.Linear(16, 16) for _ in range(2)]), nn.Linear(16, 3)

    def forward(self, nodes, start, end):
        start, end = (each.long()[..., None].expand(-1, -1, 16) for each in (start, end))
        for layer in self.layers:
            messages = layer(nodes).gather(1, start)
            nodes = torch.zeros_like(messages).scatter_add(1, end, messages).relu()
        return self.head(nodes.mean(1))


def model():
    return Net()
