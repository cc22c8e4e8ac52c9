"""ResNet-18 in plain PyTorch, on generated images."""

import torch
from torch import nn

INPUT = {"shape": (3, 224, 224)}  # of one example; PyTorch has the channels first
TARGET = {"shape": (), "dtype": "int32", "below": 1000}  # a class from 0 to 999
LOSS = "cross_entropy"  # of torch.nn.functional
METRIC = "accuracy"
BATCH_SIZE = 16
EXAMPLES = 64
UNIT = "image"


class Block(nn.Module):
    def __init__(self, taken, given, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(taken, given, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(given)
        self.conv2 = nn.Conv2d(given, given, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(given)
        self.shortcut = nn.Identity()
        if stride > 1 or taken != given:
            self.shortcut = nn.Sequential(nn.Conv2d(taken, given, 1, stride, bias=False), nn.BatchNorm2d(given))

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def model():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    taken = 64
    for given, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(taken, given, stride), Block(given, given, 1)]
        taken = given
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
