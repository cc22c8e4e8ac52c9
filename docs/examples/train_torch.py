"""An ordinary training script whose images are augmented on the processor, one by one."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """Generated images, resized and flipped as they are asked for."""

    def __len__(self):
        return 20_000

    def __getitem__(self, place):
        random = torch.Generator().manual_seed(place)
        image = torch.rand(1, 3, 96, 96, generator=random)
        image = nn.functional.interpolate(image, 128, mode="bicubic")[0]
        return image.flip(2) if place % 2 else image, place % 10


def block(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2))


model = nn.Sequential(
    block(3, 64), block(64, 128), block(128, 256), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 10)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(Images(), batch_size=64, shuffle=True)

for _ in range(20):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
