"""A graph network of PyTorch Geometric, whose input is an object that holds tensors."""

import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = GCNConv(16, 32), GCNConv(32, 3)

    def forward(self, data):
        return self.last(self.first(data.x, data.edge_index).relu(), data.edge_index)


graph = Data(x=torch.zeros(200, 16), edge_index=torch.randint(0, 200, (2, 900)), y=torch.arange(200) % 3)
net = Net().to("cuda")
graph = graph.to("cuda")
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(200):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(graph), graph.y)
    loss.backward()
    optimizer.step()
