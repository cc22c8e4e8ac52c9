"""Two networks and two optimisers: a step is the discriminator's and the generator's."""

import torch
from torch import nn

make = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 32))
judge = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
optimizers = [torch.optim.Adam(each.parameters(), lr=2e-4, betas=(0.5, 0.999)) for each in (make, judge)]
criterion, data, num_epochs = nn.BCEWithLogitsLoss(), torch.randn(1000, 32), 7
for _ in range(num_epochs):
    for start in range(0, 1000, 50):
        real, fake = data[start : start + 50], make(torch.randn(50, 16))
        optimizers[1].zero_grad()
        label = torch.ones(50, 1)
        criterion(judge(real), label).backward()
        criterion(judge(fake.detach()), label.fill_(0.0)).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        criterion(judge(fake), label.fill_(1.0)).backward()
        optimizers[0].step()
