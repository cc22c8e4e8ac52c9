"""GPT-2 small of Hugging Face, from its configuration: nothing is downloaded. The model has a loss of its own."""

from transformers import GPT2Config, GPT2LMHeadModel

WORDS, LENGTH = 50257, 128
INPUT = {"input_ids": {"shape": (LENGTH,), "dtype": "int32", "below": WORDS}}  # the model's arguments by name
TARGET = {"labels": {"shape": (LENGTH,), "dtype": "int32", "below": WORDS}}
OPTIMIZER = "AdamW"  # of torch.optim
BATCH_SIZE = 4
EXAMPLES = 64
UNIT = "sequence"


def model(options):
    return GPT2LMHeadModel(GPT2Config(n_layer=options.get("layers", 12), use_cache=False))
