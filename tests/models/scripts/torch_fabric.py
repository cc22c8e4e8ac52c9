"""Lightning's Fabric on two GPUs."""

import torch
from lightning.fabric import Fabric

fabric = Fabric(accelerator="cuda", devices=[0, 1], strategy="ddp", precision="bf16-mixed")
fabric.launch()
net = torch.nn.Linear(8, 2)
net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))
data = torch.utils.data.TensorDataset(torch.zeros(640, 8), torch.zeros(640, dtype=torch.long))
loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(data, batch_size=64))
for _ in range(3):
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        fabric.backward(loss)
        optimizer.step()
