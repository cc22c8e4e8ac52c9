"""A small convolutional network that stops after so many steps."""

import torch
from torch import nn

TOTAL = 500
net = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(64, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
step = 0
while step < TOTAL:
    images, labels = torch.rand(16, 3, 32, 32), torch.randint(10, (16,))
    loss = nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    step += 1
