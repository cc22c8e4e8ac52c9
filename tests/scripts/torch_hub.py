"""An encoder of Hugging Face, compiled, with its own loss, arguments, a schedule, autocast, accumulated gradients."""

import argparse

import torch
from transformers import BertConfig, BertForSequenceClassification

parser = argparse.ArgumentParser()
parser.add_argument("--num_train_epochs", type=int, default=3)
parser.add_argument("--batch", type=int, default=16)
args = parser.parse_args()
sizes = BertConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, intermediate_size=128, vocab_size=100)
model, words, labels = (
    BertForSequenceClassification(sizes),
    torch.arange(256 * 32).reshape(256, 32) % 100,
    torch.arange(256) % 2,
)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
model.train()
model.compile()
for _ in range(args.num_train_epochs):
    order = torch.randperm(256)
    for start in range(0, 256, args.batch):
        rows = order[start : start + args.batch]
        with torch.autocast("cuda", dtype=torch.bfloat16):
            output = model(input_ids=words[rows], labels=labels[rows])
        (output.loss / 2).backward()
        optimizer.step()
        schedule.step()
