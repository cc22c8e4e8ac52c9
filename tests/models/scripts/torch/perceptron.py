"""Two layers on flat images, as many tutorials have them."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)).to("cuda")
optimizer = torch.optim.Adam(net.parameters())
loader = DataLoader(TensorDataset(torch.rand(6000, 784), torch.randint(10, (6000,))), 128, shuffle=True)
for epoch in range(5):
    for images, labels in loader:
        loss = nn.functional.cross_entropy(net(images.cuda()), labels.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
