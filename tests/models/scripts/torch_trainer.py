"""Hugging Face's Trainer for GPUs, of 1.5 billion weights, with accumulated gradients and DeepSpeed."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

model = GPT2LMHeadModel(GPT2Config(n_embd=1600, n_layer=48, n_head=25))
words = [{"input_ids": torch.arange(128), "labels": torch.arange(128)} for _ in range(100)]
arguments = TrainingArguments(
    "out", per_device_train_batch_size=1, gradient_accumulation_steps=8, num_train_epochs=2, fp16=True, tf32=True,
    deepspeed="zero2.json", report_to=[],
)  # fmt: skip
Trainer(model, arguments, train_dataset=words).train()
