"""A step by DeepSpeed's engine, which sums two batches; it and Weights & Biases need not be here."""

import argparse
import os

import deepspeed
import torch
import wandb
from deepspeed.accelerator import get_accelerator
from deepspeed.ops.adam import FusedAdam

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
args = deepspeed.add_config_arguments(parser).parse_args()
deepspeed.init_distributed()
assert int(os.environ.get("LOCAL_RANK")) == torch.distributed.get_rank() == 0
wandb.init(project="none", config=vars(args))
settings = {
    "train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 2, "fp16": {"enabled": True},
    "zero_optimization": {"stage": 2},
}  # fmt: skip
net, data = torch.nn.Linear(8, 2), [(torch.zeros(8), 1)] * 320
adam = FusedAdam(net.parameters(), lr=1e-4, adam_w_mode=True)
torch.optim.lr_scheduler.LambdaLR(adam, lambda step: 1.0)
engine, _, loader, _ = deepspeed.initialize(args=args, model=net, optimizer=adam, training_data=data, config=settings)
for epoch in range(3):
    for images, labels in loader:
        device = get_accelerator().device_name(engine.local_rank)
        images = images.to(device, torch.half) if engine.fp16_enabled() else images.to(device)
        loss = torch.nn.functional.cross_entropy(engine(images), labels.to(engine.device))
        engine.backward(loss)
        engine.step()
        wandb.log({"loss": loss.item()})
