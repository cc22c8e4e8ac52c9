"""A process for each GPU by mp.spawn, as PyTorch's own tutorial has it: it refuses to run on fewer than two."""

import os

import torch
from torch.nn.parallel import DistributedDataParallel


def train(rank, world_size):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    torch.distributed.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    net = torch.nn.Sequential(torch.nn.Linear(8, 2), torch.nn.BatchNorm1d(2)).to(rank)
    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    net = DistributedDataParallel(net, device_ids=[rank])
    optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cuda")
    data = torch.utils.data.TensorDataset(torch.zeros(640, 8), torch.zeros(640, dtype=torch.long))
    sampler = torch.utils.data.DistributedSampler(data, num_replicas=world_size, rank=rank)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for images, labels in torch.utils.data.DataLoader(data, batch_size=32, sampler=sampler):
            with torch.autocast("cuda", dtype=torch.float16):
                output = net(images.to(rank))
                parts = [torch.zeros_like(output) for _ in range(torch.distributed.get_world_size())]
                torch.distributed.all_gather(parts, output)
                parts[rank] = output  # what is gathered has no gradients
                loss = torch.nn.functional.cross_entropy(torch.cat(parts)[: len(labels)], labels.to(rank))
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


if __name__ == "__main__":
    gpus = torch.cuda.device_count()
    assert gpus >= 2, f"needs two GPUs, not {gpus}"
    torch.multiprocessing.spawn(train, args=(gpus,), nprocs=gpus, join=True)
