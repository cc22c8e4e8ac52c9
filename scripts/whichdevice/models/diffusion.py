"""Well-known models that make images or videos of words: their parts, what training one takes, the work of an image.

    DIFFUSION["black-forest-labs/FLUX.1-dev"].denoiser.made()     # by diffusers, without values on `meta`
    generator("hf:black-forest-labs/FLUX.1-dev").work(steps=28, height=1024, width=1024)

Sizes are in diffusion_models.json: fields are copied from each part's config.json on huggingface.co; what is left out
is the library's default. Weights are counted by the file sizes there, two or four bytes a weight, or are those that
diffusers and transformers make. The kernels of a call of the denoiser and of the decoder are traced on their own
modules at two sizes (tools/generator_traces.py): attention grows with tokens and their square, the rest with tokens.
Nothing is downloaded.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from whichdevice.base.errors import StudyError

SIZES = Path(__file__).with_name("diffusion_models.json")
WORKS = Path(__file__).with_name("generators.json")  # traced
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


class Kernels(NamedTuple):
    """Kernels of a kind: operations and bytes of all, and how many they are."""

    operations: float
    nbytes: float
    kernels: float


class Made(NamedTuple):
    """The work of a batch of images or videos: a call of the denoiser, how many, and the decoder's.

    Kernels are by kind and number format, as forecast/work.py names them.
    """

    call: Mapping[str, Kernels]
    calls: float
    decode: Mapping[str, Kernels]


@dataclass(frozen=True)
class Diffusion:
    """One model; a step is `calls` calls, each of `together` passes at once. `side` pixels are a token's side.

    What can be trained has `words`: tokens of a text that reach the denoiser, as vectors of `text_width`. Its images
    are squares of `height`; a side of a latent stands for `scale` pixels, and a latent has `channels` values.
    """

    name: str
    denoiser: Part
    encoders: tuple[Part, ...]
    autoencoder: Part
    steps: int  # of its authors' example
    head: int  # values of a head of attention
    together: int = 2  # with the words and without
    calls: int = 1
    denoisers: int = 1  # of which each step runs one
    side: int = 16
    height: int = 1024
    width: int = 1024
    frames: int = 1
    frames_together: int = 4  # of a video, in one latent
    words: int = 0
    text_width: int = 0
    pooled: int = 0  # values of the whole text, beside its tokens
    scale: int = 8
    channels: int = 4

    @property
    def blocks(self) -> int | None:
        """The number of equal blocks of the denoiser, of SDXL at its lowest resolution; None: they differ."""
        depths = self.denoiser.fields.get("transformer_layers_per_block")
        return depths[-1] if depths else self.denoiser.fields.get("num_layers")

    def with_blocks(self, count: int) -> dict[str, Any]:
        """Return the denoiser's fields with so many equal blocks; a FLUX has twice as many of a second kind."""
        fields, times = self.denoiser.fields, count / (self.blocks or 1)
        if depths := fields.get("transformer_layers_per_block"):
            return {"transformer_layers_per_block": (*depths[:-1], count)}
        names = ("num_layers", "num_single_layers")
        return {name: round(fields[name] * times) for name in names if name in fields}

    @property
    def makes(self) -> Literal["image", "video"]:
        """Image or video."""
        return "video" if self.frames > 1 else "image"

    @property
    def parameters(self) -> dict[str, int]:
        """Weights by part."""
        return {
            "denoiser": self.denoisers * self.denoiser.parameters,
            "words": sum(part.parameters for part in self.encoders),
            "decoder": self.autoencoder.parameters,
        }

    @property
    def latent_frames(self) -> int:
        """Frames of latents."""
        return 1 + (self.frames - 1) // self.frames_together

    def tokens(self, height: int, width: int) -> int:
        """Tokens of an image or video."""
        return (height // self.side) * (width // self.side) * self.latent_frames

    @cached_property
    def _traced(self) -> Mapping[str, Any]:
        return dict(_read(WORKS)[self.name])

    def _times(self, height: int, width: int) -> float:
        """Return how many times larger than the authors' an image is."""
        return self.tokens(height, width) / self.tokens(self.height, self.width)

    def work(
        self, steps: int | None = None, height: int | None = None, width: int | None = None, images: int = 1
    ) -> Made:
        """Return the work of one image or video, or of several together; by default as its authors make it."""
        height, width = height or self.height, width or self.width
        size, traced = self._times(height, width), self._traced
        frames = images * self.frames / traced["frames"]
        return Made(
            dict(_grown(traced["call"], size, images, 2.0 * self.denoiser.parameters)),
            self.calls * (steps or self.steps),
            dict(_grown(traced["decode"], size, frames)),
        )

    def values_bytes(self, height: int, width: int) -> float:
        """Return bytes of the values that are alive at once: in a call, or of what is decoded, few frames at once."""
        size = self._times(height, width)
        return max(fixed + grows * size for fixed, grows in self._traced["values"])


def _grown(
    kinds: Mapping[str, Sequence[Any]], size: float, times: float, shared: float = 0.0
) -> Iterator[tuple[str, Kernels]]:
    """Kernels by kind: operations and bytes are a constant, and parts that grow with the size and with its square.

    Images of a batch share so many bytes of weights, which products read.
    """
    for name, (*amounts, count) in kinds.items():
        operations, nbytes = (times * (fixed + grows * size + square * size**2) for fixed, grows, square in amounts)
        if name.startswith("product"):
            nbytes = max(nbytes - (times - 1) * shared, nbytes / times)
        yield name, Kernels(operations, nbytes, count)


@cache
def _read(path: Path) -> Mapping[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _part(given: str | Mapping[str, Any]) -> Part:
    """A part of the file of sizes: one that models share, by its name there, or one of a model alone."""
    known = _read(SIZES)["parts"][given] if isinstance(given, str) else given
    fields = {name: _fixed(value) for name, value in known["fields"].items()}
    return Part(**{**known, "fields": MappingProxyType(fields)})


def _fixed(value: Any) -> Any:
    return tuple(map(_fixed, value)) if isinstance(value, list) else value


def _diffusion(name: str, denoiser: Any, encoders: Any, autoencoder: Any, **sizes: Any) -> Diffusion:
    return Diffusion(name, _part(denoiser), tuple(map(_part, encoders)), _part(autoencoder), **sizes)


def by_plain_name(names: Iterable[str]) -> dict[str, str]:
    """Return names by themselves and without the organisation, in small letters; the first of two equal ones counts."""
    known: dict[str, str] = {}
    for name in names:
        plain = name.casefold()
        known.setdefault(plain, name)
        known.setdefault(plain.rpartition("/")[2], name)
    return known


DIFFUSION: Mapping[str, Diffusion] = MappingProxyType(
    {name: _diffusion(name, **sizes) for name, sizes in _read(SIZES)["models"].items()}
)
_NAMES = by_plain_name(DIFFUSION)
SISTERS = {  # of the same sizes
    "stable-diffusion-v1-4": "stable-diffusion-v1-5", "stable-diffusion-2": "stable-diffusion-2-1",
    "stable-diffusion-2-1-base": "stable-diffusion-2-base", "sd-turbo": "stable-diffusion-2-base",
    "sdxl-turbo": "stable-diffusion-xl-base-1.0",
}  # fmt: skip


def _known(text: str) -> str | None:
    """Return the name of a model of these sizes, whoever published it."""
    plain = text.casefold().rpartition("/")[2]
    return _NAMES.get(SISTERS.get(plain, plain))


def diffusion_name(text: str) -> str | None:
    """Return the name of a model that can be trained; None where no such model is known."""
    name = _known(text)
    return name if name and DIFFUSION[name].words else None


def generator(name: str) -> Diffusion | None:
    """Return the model of this name; None where it is no known one that makes images or videos."""
    plain = name.removeprefix("hf:")
    known = _known(plain) or _known(f"{plain}-diffusers")
    return DIFFUSION[known] if known else None
