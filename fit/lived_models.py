"""Models of fit/data/lived.csv that libraries have: timm's by name, and texts and images of Transformers.

`lived_model(name, size)` returns what makes a module, its inputs and a loss, for a batch and a size of an example; no
weights are loaded. Models of the other reports are not kept: their traces are, and fit/README.md says where they were.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Lived:
    """A module, its batch of n examples, and its loss."""

    build: Callable[[], nn.Module]
    batch: Callable[[int], Any]
    loss: Callable[[Any, Any], Any]


def lived_model(name: str, size: tuple[int, ...]) -> Lived:
    """Return the model of a row, of examples of `size`; raises KeyError where it is not known."""
    library, _, model = name.partition(":")
    return _classifier(model, size) if library == "timm" else MODELS[model](size)


def images(n: int, size: tuple[int, ...], channels: int = 3) -> Tensor:
    """Return images of [n, channels, height, width]."""
    return torch.zeros(n, channels, size[0], size[-1])


def labels(*shape: int) -> Tensor:
    """Return classes or words."""
    return torch.zeros(*shape, dtype=torch.long)


def _classifier(name: str, size: tuple[int, ...]) -> Lived:
    import timm

    sized = {"img_size": size[0]} if re.match("vit|deit|swin", name) else {}
    return Lived(
        lambda: timm.create_model(name, **sized),
        lambda n: (images(n, size), labels(n)),
        lambda module, batch: functional.cross_entropy(module(batch[0]), batch[1]),
    )


def _config(name: str, **fields: Any) -> Any:
    """Return a configuration of Transformers, whose attention is written out where nothing else is said."""
    import transformers

    return getattr(transformers, f"{name}Config")(**{"attn_implementation": "eager", **fields})


def _bert(heads: str, **fields: Any) -> Callable[[tuple[int, ...]], Lived]:
    """An encoder with a head, on sequences of the row's length."""

    def made(size: tuple[int, ...]) -> Lived:
        import transformers

        length = size[0]

        def build() -> Any:
            return getattr(transformers, f"BertFor{heads}")(_config("Bert", **fields))

        def loss(module: Any, batch: Any) -> Any:
            words, of_each = batch
            given: dict[str, Any] = {"attention_mask": torch.ones_like(words)}
            if heads == "QuestionAnswering":
                return module(words, start_positions=of_each, end_positions=of_each, **given).loss
            return module(words, labels=words if heads == "MaskedLM" else of_each, **given).loss

        return Lived(build, lambda n: (labels(n, length), labels(n)), loss)

    return made


def _decoder(kind: str, attention: str = "sdpa", **fields: Any) -> Callable[[tuple[int, ...]], Lived]:
    """A language model of Transformers; GPT-2 has as many places as the row's sequences."""

    def made(size: tuple[int, ...]) -> Lived:
        from transformers import AutoModelForCausalLM

        places = {"n_positions": size[0]} if kind == "GPT2" else {}
        config = _config(kind, attn_implementation=attention, use_cache=False, **places, **fields)
        return Lived(
            lambda: AutoModelForCausalLM.from_config(config),
            lambda n: labels(n, size[0]),
            lambda module, words: module(words, labels=words).loss,
        )

    return made


def _mae(**fields: Any) -> Callable[[tuple[int, ...]], Lived]:
    def made(size: tuple[int, ...]) -> Lived:
        from transformers import ViTMAEForPreTraining

        config = _config("ViTMAE", **fields, image_size=size[0])
        return Lived(
            lambda: ViTMAEForPreTraining(config), lambda n: images(n, size), lambda module, x: module(x).loss
        )

    return made


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
CASED = {"vocab_size": 28996}
GPT2 = {"vocab_size": 50304}
MODELS: Mapping[str, Callable[[tuple[int, ...]], Lived]] = {
    "bert-base-cased": _bert("SequenceClassification", **CASED),
    "bert-large-cased": _bert("SequenceClassification", **CASED, **LARGE),
    "bert-base-multilingual": _bert("SequenceClassification", vocab_size=119547),
    "bert-base-squad": _bert("QuestionAnswering"),
    "bert-large-squad": _bert("QuestionAnswering", **LARGE),
    "bert-base-mlm": _bert("MaskedLM"),
    "roberta-base-mlm": _bert("MaskedLM", vocab_size=50265, max_position_embeddings=514),
    "gpt2": _decoder("GPT2", **GPT2),
    "gpt2_plain": _decoder("GPT2", "eager", **GPT2),
    "baby_gpt": _decoder("GPT2", **GPT2, n_layer=6, n_head=6, n_embd=384),
    "tinyllama": _decoder(
        "Llama", hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
        num_key_value_heads=4,
    ),
    "mae_base": _mae(),
    "mae_large": _mae(**LARGE),
}  # fmt: skip
