"""A generator and a critic, which steps twice for each of the generator's."""

import torch
from torch import nn

generator, critic = nn.Linear(16, 64), nn.Linear(64, 1)
of_generator, of_critic = (torch.optim.Adam(net.parameters()) for net in (generator, critic))
for turn in range(200):
    for _ in range(2):
        with torch.no_grad():
            made = generator(torch.randn(32, 16))
        loss = critic(made).mean() - critic(torch.rand(32, 64)).mean()
        of_critic.zero_grad()
        loss.backward()
        of_critic.step()
    loss = -critic(generator(torch.randn(32, 16))).mean()
    of_generator.zero_grad()
    loss.backward()
    of_generator.step()
