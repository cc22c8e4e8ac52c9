"""The usual loop over a loader, with a loss of several terms, after a first call to look at shapes."""

import torch
import torch.nn.functional as F  # noqa: N812
from torch.utils.data import DataLoader, TensorDataset


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = torch.nn.Conv2d(1, 8, 3), torch.nn.Linear(8 * 26 * 26, 10)

    def forward(self, x):
        return self.head(F.relu(self.conv(x)).flatten(1))


def main():
    data = TensorDataset(torch.zeros(512, 1, 28, 28), torch.arange(512) % 10)
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model, epochs = Net(), 5
    print(model(torch.zeros(2, 1, 28, 28)).shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            output = model(x)
            loss = F.cross_entropy(output, y) + 0.01 * output.pow(2).mean()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
