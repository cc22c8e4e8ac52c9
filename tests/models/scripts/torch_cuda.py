"""Names of CUDA as older scripts have them: tensors' types, generators, streams, marks for a profiler, assertions.

It gives up where the version of CUDA is too old, or where a loss is no number or too large.
"""

import torch

assert int(torch.version.cuda.split(".")[0]) >= 11
torch.cuda.manual_seed_all(0)
torch.set_default_device("cuda")
net = torch.nn.DataParallel(torch.nn.Linear(8, 2), device_ids=[0, 1]).cuda()
optimizer, scaler = torch.optim.SGD(net.module.parameters(), lr=0.1), torch.cuda.amp.GradScaler()
data = torch.utils.data.TensorDataset(torch.zeros(640, 8, device="cpu"), torch.zeros(640, device="cpu").long())
loader = torch.utils.data.DataLoader(data, 64, shuffle=True, pin_memory=True, generator=torch.Generator(device="cuda"))
stream = torch.cuda.Stream()
for epoch in range(3):
    torch.cuda.nvtx.range_push("epoch")
    for images, labels in loader:
        with torch.cuda.stream(stream):
            images, labels = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        assert images.is_cuda and images.get_device() == 0
        with torch.cuda.amp.autocast():
            loss = torch.nn.functional.cross_entropy(net(images), labels)
        diverged = (loss != loss).any() or loss != loss or not torch.isfinite(loss) or (~torch.isfinite(loss)).any()
        assert not diverged and not loss > 1e4 and loss < 1e4
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        torch.cuda.FloatTensor([loss.item()])
