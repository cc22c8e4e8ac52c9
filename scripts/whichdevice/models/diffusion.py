"""Sizes of well-known diffusion models: the denoiser, what reads the words, what turns pixels into latents and back.

    DIFFUSION["black-forest-labs/FLUX.1-dev"].denoiser.parameters
    DIFFUSION["stabilityai/stable-diffusion-xl-base-1.0"].denoiser.made()     # by diffusers, without values on `meta`

They are in diffusion_models.json. Fields are those of each part's config.json on huggingface.co; what is left out is
the library's default. Weights are counted by the file sizes there, two or four bytes a weight. Nothing is downloaded.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from whichdevice.base.errors import StudyError

SIZES = Path(__file__).with_name("diffusion_models.json")
Library = Literal["diffusers", "transformers"]


@dataclass(frozen=True)
class Part:
    """One network of a pipeline: the class that makes it, its sizes, its weights as published."""

    kind: str
    parameters: int
    fields: Mapping[str, Any]
    tokens: int = 0  # that a text encoder reads
    library: Library = "diffusers"

    def made(self, **other: Any) -> Any:
        """Return the module with random weights, or `other` fields; raises StudyError where its library is missing."""
        if find_spec(self.library) is None:
            raise StudyError(f"{self.kind} needs {self.library}, not installed here: pip install {self.library}")
        kind, fields = getattr(import_module(self.library), self.kind), {**self.fields, **other}
        return kind(**fields) if self.library == "diffusers" else kind(kind.config_class(**fields))


@dataclass(frozen=True)
class Diffusion:
    """A model that makes images of words.

    `size` is the side of a square image that it was made for, `scale` the pixels of a side of a latent, `channels` its
    values. Every token of `tokens` reaches the denoiser, as a vector of `width`. A transformer sees `patch` by `patch`
    latents as one token of an image.
    """

    name: str
    denoiser: Part
    encoders: tuple[Part, ...]
    autoencoder: Part
    tokens: int
    width: int
    pooled: int = 0  # values of the whole text, beside its tokens
    size: int = 1024
    scale: int = 8
    channels: int = 4
    patch: int = 1
    guided: bool = False  # by a number among the denoiser's inputs

    @property
    def parameters(self) -> int:
        """Weights of all parts."""
        return self.denoiser.parameters + self.frozen

    @property
    def frozen(self) -> int:
        """Weights that training leaves as they are: of the text encoders and the autoencoder."""
        return sum(part.parameters for part in (*self.encoders, self.autoencoder))

    @property
    def blocks(self) -> int | None:
        """How many equal blocks the denoiser has, SDXL at its lowest resolution; None: they are not equal."""
        depths = self.denoiser.fields.get("transformer_layers_per_block")
        return depths[-1] if depths else self.denoiser.fields.get("num_layers")

    def with_blocks(self, count: int) -> dict[str, Any]:
        """Return the denoiser's fields with so many equal blocks; a FLUX has twice as many of a second kind."""
        fields, times = self.denoiser.fields, count / (self.blocks or 1)
        if depths := fields.get("transformer_layers_per_block"):
            return {"transformer_layers_per_block": (*depths[:-1], count)}
        names = ("num_layers", "num_single_layers")
        return {name: round(fields[name] * times) for name in names if name in fields}

    def latents(self, size: int | None = None) -> int:
        """Return the side of the latents of an image of this side in pixels."""
        return (size or self.size) // self.scale


@cache
def read_sizes() -> Mapping[str, Any]:
    """Return what the file of sizes holds."""
    return dict(json.loads(SIZES.read_text(encoding="utf-8")))


def part_of(given: str | Mapping[str, Any]) -> Part:
    """Return a part of the file of sizes: one that models share, by its name there, or one of a model alone."""
    known = read_sizes()["parts"][given] if isinstance(given, str) else given
    fields = {name: _fixed(value) for name, value in known["fields"].items()}
    return Part(**{**known, "fields": MappingProxyType(fields)})


def _fixed(value: Any) -> Any:
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


def _diffusion(name: str, denoiser: Any, encoders: Any, autoencoder: Any, **sizes: Any) -> Diffusion:
    return Diffusion(name, part_of(denoiser), tuple(map(part_of, encoders)), part_of(autoencoder), **sizes)


DIFFUSION: Mapping[str, Diffusion] = MappingProxyType(
    {name: _diffusion(name, **sizes) for name, sizes in read_sizes()["trained"].items()}
)


@cache
def _names() -> Mapping[str, str]:
    """Names by themselves and without the organisation, in small letters."""
    return {key: name for name in DIFFUSION for key in (name.casefold(), name.casefold().rpartition("/")[2])}


def diffusion_name(text: str) -> str | None:
    """Return the model's name in DIFFUSION; None where it is none of these."""
    return _names().get(text.casefold())
