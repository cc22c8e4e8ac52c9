"""An agent that collects 64 frames of an environment, and then steps twice for each of two epochs over them."""

from types import SimpleNamespace

import numpy as np
import torch


class Environment:
    action_space = SimpleNamespace(sample=lambda: 0)

    def reset(self):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        return np.zeros(4, np.float32), 1.0, False, False, {}


environment, agent = Environment(), torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(agent.parameters())
total_timesteps, seen = 6400, 0
while seen < total_timesteps:
    frames, (frame, _) = [], environment.reset()
    for _ in range(64):
        with torch.no_grad():
            action = agent(torch.from_numpy(frame)).argmax().item()
        frame, reward, _, _, _ = environment.step(action)
        frames.append(torch.from_numpy(frame))
        seen += 1
    frames = torch.stack(frames)
    for epoch in range(2):
        for start in range(0, 64, 32):
            loss = agent(frames[start : start + 32]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
