"""Mini-batches of graphs: 32 of 4 to 12 nodes each."""

import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_mean_pool


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = GCNConv(16, 32), torch.nn.Linear(32, 3)

    def forward(self, x, edge_index, batch):
        return self.last(global_mean_pool(self.first(x, edge_index).relu(), batch))


def graph(i):
    n = 4 + i % 9
    return Data(x=torch.zeros(n, 16), edge_index=torch.randint(0, n, (2, 3 * n)), y=torch.tensor([i % 3]))


loader = DataLoader([graph(i) for i in range(320)], batch_size=32, shuffle=True)
net = Net().to("cuda")
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(5):
    for data in loader:
        data = data.to("cuda")
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(data.x, data.edge_index, data.batch), data.y)
        loss.backward()
        optimizer.step()
