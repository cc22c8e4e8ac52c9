"""A detector: images of varying size, and a list of targets that is matched image by image on the host."""

from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, Dataset


class Boxes(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, place):
        side = 64 if place // 8 % 2 else 128
        count = 1 + place % 5
        return torch.zeros(3, side, side), {"boxes": torch.rand(count, 4), "labels": torch.ones(count).long()}


@dataclass(frozen=True)
class Images:
    pixels: torch.Tensor
    mask: torch.Tensor


def collate(items):
    images, targets = zip(*items, strict=True)
    pixels = torch.stack(images)
    return Images(pixels, pixels[:, 0] == 0), list(targets)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = [torch.nn.Conv2d(3, 32, 3, stride=8, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(4)]
        self.body = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(512, 10 * 5))

    def forward(self, images):
        pixels = images.pixels * images.mask.unsqueeze(1)
        output = self.body(pixels).reshape(len(pixels), 10, 5)
        return {"boxes": output[..., :4], "scores": output[..., 4]}


loader = DataLoader(Boxes(), batch_size=8, collate_fn=collate)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.01)
for epoch in range(3):
    for images, targets in loader:
        output = net(images)
        loss = torch.zeros((), device="cuda")
        for boxes, scores, target in zip(output["boxes"], output["scores"], targets, strict=True):
            best = torch.cdist(boxes, target["boxes"], p=1).argmin(0).cpu().numpy()
            loss = loss + (boxes[best] - target["boxes"]).abs().mean() - scores[best].mean()
        optimizer.zero_grad()
        (loss / len(targets)).backward()
        optimizer.step()
