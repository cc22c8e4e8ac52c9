"""ResNet of bottleneck blocks as the built-in `resnet50`, in PyTorch. Options: `width`, `size` and blocks a stage."""

import torch
from torch import nn

INPUT = {"shape": (3, 224, 224), "dtype": "uint8"}
TARGET = {"shape": (), "dtype": "int32", "below": 1000}
LOSS = "cross_entropy"
METRIC = "accuracy"
BATCH_SIZE = 64
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))


def convolution(taken, given, size, stride=1):
    layers = nn.Conv2d(taken, given, size, stride, size // 2, bias=False), nn.BatchNorm2d(given)
    nn.init.kaiming_normal_(layers[0].weight)
    return nn.Sequential(*layers)


class Block(nn.Module):
    def __init__(self, taken, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            convolution(taken, width, 1), nn.ReLU(), convolution(width, width, 3, stride), nn.ReLU(),
            convolution(width, 4 * width, 1),
        )  # fmt: skip
        whole = stride > 1 or taken != 4 * width
        self.shortcut = convolution(taken, 4 * width, 1, stride) if whole else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, taken = [], 64
        for stage, (width, count) in enumerate(STAGES):
            for number in range(count):
                blocks.append(Block(taken, width, 2 if stage and not number else 1))
                taken = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(taken, 1000)

    def forward(self, pixels):
        x = self.blocks(self.stem(pixels.float() / 127.5 - 1))
        return self.head(x.mean((2, 3)))


def model():
    return ResNet()


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
