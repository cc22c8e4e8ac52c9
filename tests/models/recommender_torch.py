"""A recommender: two tables of 64 numbers a row, and a small network on a row of each."""

import torch
from torch import nn

USERS, ITEMS = 400_000, 100_000
LOSS, BATCH_SIZE = "binary_cross_entropy_with_logits", 1024


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, 64), nn.Embedding(ITEMS, 64)
        self.score = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, user, item):
        return self.score(torch.cat([self.users(user), self.items(item)], -1)).squeeze(-1)


def model():
    return Net()


def data():
    return {"user": torch.randint(USERS, (2048,)), "item": torch.randint(ITEMS, (2048,))}, torch.rand(2048)


def optimizer(module):
    return torch.optim.Adam(module.parameters())
