"""BERT base of Hugging Face as a classifier, from its configuration: nothing is downloaded."""

import torch
from transformers import BertConfig, BertForSequenceClassification

WORDS, LENGTH = 30522, 128
INPUT = {
    "input_ids": {"shape": (LENGTH,), "dtype": "int32", "below": WORDS},
    "token_type_ids": {"shape": (LENGTH,), "dtype": "int32", "below": 2},
}
TARGET = {"shape": (), "dtype": "int32", "below": 3}  # given to the model as `labels`
METRIC = "accuracy"
BATCH_SIZE = 8
EXAMPLES = 64
UNIT = "sequence"


def model(options):
    return BertForSequenceClassification(BertConfig(num_hidden_layers=options.get("layers", 12), num_labels=3))


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=5e-5)
