"""A small network of three layers on rows of a table."""

from torch import nn

INPUT, TARGET = {"shape": (32,)}, {"shape": (), "dtype": "int32", "below": 10}
LOSS, OPTIMIZER, BATCH_SIZE = "cross_entropy", "Adam", 64
EXAMPLES = 1024


def model():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
