"""Models that make images or videos of words, as a server holds them: the work of one image, and weights by part.

    generator("hf:black-forest-labs/FLUX.1-dev").work(steps=28, height=1024, width=1024)
    generator("hf:Wan-AI/Wan2.1-T2V-14B-Diffusers").weights_bytes

Sizes are in diffusion_models.json: fields of each part's config.json, and weights, which are those that diffusers and
transformers make of them. The kernels of a call of the denoiser and of the decoder are traced on their own modules at
two sizes (fit/generator_traces.py): attention grows with tokens and their square, the rest with tokens.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from whichdevice.models.diffusion import DIFFUSION, Part, part_of, read_sizes
from whichdevice.models.hugging_face import PREFIX

WORKS = Path(__file__).with_name("generators.json")  # traced


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
class Generator:
    """One model. `side` pixels are a token's side; a step is `calls` calls, each of `together` passes at once."""

    name: str
    denoiser: Part
    encoders: tuple[Part, ...]
    decoder: Part
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

    @property
    def makes(self) -> Literal["image", "video"]:
        """Image or video."""
        return "video" if self.frames > 1 else "image"

    @property
    def parameters(self) -> dict[str, int]:
        """Weights by part."""
        words = sum(part.parameters for part in self.encoders)
        return {
            "denoiser": self.denoisers * self.denoiser.parameters, "words": words, "decoder": self.decoder.parameters
        }  # fmt: skip

    @property
    def weights_bytes(self) -> float:
        """Bytes of all weights in 16 bits."""
        return 2.0 * sum(self.parameters.values())

    @property
    def latents(self) -> int:
        """Frames of latents."""
        return 1 + (self.frames - 1) // self.frames_together

    def tokens(self, height: int, width: int) -> int:
        """Tokens of an image or video."""
        return (height // self.side) * (width // self.side) * self.latents

    @cached_property
    def _traced(self) -> Mapping[str, Any]:
        return _traces()[self.name]

    def size(self, height: int, width: int) -> float:
        """Return how many times larger than the authors' an image is."""
        return self.tokens(height, width) / self.tokens(self.height, self.width)

    def work(
        self, steps: int | None = None, height: int | None = None, width: int | None = None, images: int = 1
    ) -> Made:
        """Return the work of one image or video, or of several together; by default as its authors make it."""
        height, width = height or self.height, width or self.width
        size, traced = self.size(height, width), self._traced
        frames = images * self.frames / traced["frames"]
        return Made(
            dict(_grown(traced["call"], size, images, 2.0 * self.denoiser.parameters)),
            self.calls * (steps or self.steps),
            dict(_grown(traced["decode"], size, frames)),
        )

    def values_bytes(self, height: int, width: int) -> float:
        """Return bytes of the values that are alive at once: in a call, or of what is decoded, few frames at once."""
        size = self.size(height, width)
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
def _traces() -> Mapping[str, Any]:
    return dict(json.loads(WORKS.read_text(encoding="utf-8")))


@cache
def generators() -> tuple[Generator, ...]:
    """Return every known model: one of DIFFUSION has its parts and sizes."""
    return tuple(_generator(name, **sizes) for name, sizes in read_sizes()["generators"].items())


def _generator(name: str, **sizes: Any) -> Generator:
    if (model := DIFFUSION.get(name)) is not None:
        side = model.scale * model.patch
        sizes |= {"side": side, "height": model.size, "width": model.size}
        return Generator(name, model.denoiser, model.encoders, model.autoencoder, **sizes)
    denoiser, decoder = part_of(sizes.pop("denoiser")), part_of(sizes.pop("decoder"))
    return Generator(name, denoiser, tuple(map(part_of, sizes.pop("encoders"))), decoder, **sizes)


@cache
def _table() -> Mapping[str, Generator]:
    return {key: one for one in generators() for key in (one.name.casefold(), one.name.casefold().rpartition("/")[2])}


def generator(name: str) -> Generator | None:
    """Return the model of this name; None where it is no known one that makes images or videos."""
    plain = name.removeprefix(PREFIX).casefold()
    return _table().get(plain) or _table().get(f"{plain}-diffusers")
