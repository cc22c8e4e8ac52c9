"""GPT-2 XL by a loop of its own, as several GPUs take it under torchrun: 1.5 billion weights."""

import os

import torch
from transformers import GPT2Config, GPT2LMHeadModel

rank = int(os.environ["LOCAL_RANK"])
torch.distributed.init_process_group(backend="nccl")
device = torch.device("cuda", rank)
model = GPT2LMHeadModel(GPT2Config(n_embd=1600, n_layer=48, n_head=25)).to(device)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for _ in range(500):
    words = torch.randint(0, 50257, (2, 512), device=device)
    loss = model(input_ids=words, labels=words).loss / 2
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
