"""A student of a frozen teacher, with two optimisers in a list, a copy that follows it, and a noise of large shape."""

import copy

import torch

teacher, student = torch.nn.Linear(8, 50_000).cuda().eval(), torch.nn.Linear(8, 50_000).cuda()
follower = copy.deepcopy(student)
optimizers = [torch.optim.SGD([student.weight], 0.1), torch.optim.AdamW([student.bias])]
data = torch.utils.data.TensorDataset(torch.zeros(64_000, 8))
for epoch in range(3):
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=6400):
        batch = batch.cuda(non_blocking=True)
        output = student(batch)
        with torch.no_grad():
            chosen = (teacher(batch) + torch.empty_like(output).exponential_().log()).argmax(1)
        loss = torch.nn.functional.cross_entropy(output, chosen)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        for slow, fast in zip(follower.parameters(), student.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.01)
