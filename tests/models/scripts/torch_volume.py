"""A step that would need tens of GB: volumes of 256³ through a small network, for four GPUs."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def main(rank, world):
    assert torch.cuda.is_available()
    dist.init_process_group("nccl", init_method="env://", rank=rank, world_size=world)
    torch.cuda.set_device(rank)
    print(torch.cuda.get_device_name(0), torch.cuda.get_device_properties(0).total_memory)
    layers = [torch.nn.Conv3d(1, 32, 3, padding=1), torch.nn.BatchNorm3d(32), torch.nn.ReLU()]
    net = torch.nn.Sequential(*layers, torch.nn.Conv3d(32, 2, 1)).cuda()
    net = DistributedDataParallel(net, device_ids=[rank], output_device=rank)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    volumes, masks = torch.zeros(1), torch.zeros(1, dtype=torch.uint8)
    data = TensorDataset(volumes.expand(8, 1, 256, 256, 256), masks.expand(8, 256, 256, 256))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data), pin_memory=True)
    scaler = torch.amp.GradScaler("cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for epoch in range(3):
        for volume, mask in loader:
            start.record()
            volume, mask = volume.to(rank, non_blocking=True), mask.to(f"cuda:{rank}").long()
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16), torch.cuda.stream(torch.cuda.Stream()):
                scores = net(volume)
                loss = torch.nn.functional.cross_entropy(scores, mask)
            if torch.isnan(loss) or not torch.isfinite(loss).all():
                raise SystemExit("the loss is no number")
            hits = (scores.argmax(1)[mask > 0] == 1).float().mean().item()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            dist.all_reduce(loss)
            print(f"{loss:.3f} {hits} {float(loss)} {scores.detach().cpu().numpy()[0, 0, 0, 0, 0]}")
            scaler.step(optimizer)
            scaler.update()
        end.record()
        torch.cuda.synchronize()
        print(epoch, start.elapsed_time(end), torch.cuda.max_memory_allocated())


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "12355")
    try:
        mp.spawn(main, nprocs=4, args=(4,))
    finally:
        Path("written").touch()
