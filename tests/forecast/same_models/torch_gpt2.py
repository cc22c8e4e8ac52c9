"""GPT-2 of Hugging Face in the shape of the built-in `decoder`, with its options, without dropout."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTH, VOCABULARY = 1024, 50257
INPUT = {"input_ids": {"shape": (None,), "dtype": "int32", "below": VOCABULARY}}
TARGET = {"labels": {"shape": (None,), "dtype": "int32", "below": VOCABULARY}}
BATCH_SIZE = 8
SEQUENCE_LENGTH = LENGTH


def model(options):
    config = GPT2Config(
        vocab_size=VOCABULARY, n_layer=options.get("layers", 12), n_embd=options.get("width", 768),
        n_head=options.get("heads", 12), n_positions=options.sequence_length or LENGTH, resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
    )  # fmt: skip
    return GPT2LMHeadModel(config)


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=0.1, betas=(0.9, 0.95))
