"""A network that is given a list of graphs and makes one tensor of their nodes."""

import torch


class Graph:
    def __init__(self, nodes):
        self.nodes = torch.rand(nodes, 8)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 4)

    def forward(self, graphs):
        return self.layer(torch.cat([graph.nodes for graph in graphs]))


graphs = [Graph(10) for _ in range(100)]
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(3):
    for start in range(0, 100, 20):
        optimizer.zero_grad()
        net(graphs[start : start + 20]).pow(2).mean().backward()
        optimizer.step()
