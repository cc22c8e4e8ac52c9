"""Models that make images or videos of words, as a server holds them: the work of one image, and weights by part.

    generator("hf:black-forest-labs/FLUX.1-dev").work(steps=28, height=1024, width=1024)
    generator("hf:Wan-AI/Wan2.1-T2V-14B-Diffusers").weights_bytes

Counted from each part's configuration: products by the weights that a token meets, attention by pairs of tokens. Sizes
of most models of images are those of models/diffusion.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

from whichdevice.models.diffusion import DIFFUSION, Diffusion
from whichdevice.models.hugging_face import PREFIX

T5, UMT5, MT5_XL, LLAVA = 4.762e9, 5.68e9, 1.67e9, 8.03e9  # weights of what reads the words
DECODE_MACS = 4.8e6  # products for a pixel of Stable Diffusion's decoder, by its layers' sizes
VALUES = 30.0  # of its width that a layer writes and reads for a token, apart from products


class Attention(NamedTuple):
    """Equal layers in which tokens look at each other: how many, how wide, and how many latents are one token there.

    Where it is linear, a token takes so many products with each value, whatever the number of tokens.
    """

    layers: int
    width: int
    merged: int = 1
    linear: int = 0


class Work(NamedTuple):
    """The work of one image or video."""

    products: float  # operations
    attention: float
    decode: float
    values: float  # that pass through memory beside products
    passes: float  # of the denoiser, each of which reads its weights


@dataclass(frozen=True)
class Generator:
    """One model. `per_token` are the weights that each token meets in a pass; `side` pixels are a token's side."""

    name: str
    parameters: Mapping[str, float]  # denoiser, words, decoder
    per_token: float
    attention: tuple[Attention, ...]
    words: int  # tokens that stand among those of the image
    steps: int  # of its authors' example
    passes: int = 2  # a step: with the words and without
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
    def weights_bytes(self) -> float:
        """Bytes of all weights in 16 bits."""
        return 2.0 * sum(self.parameters.values())

    def tokens(self, height: int, width: int) -> float:
        """Tokens of an image or video."""
        latents = 1 + (self.frames - 1) // self.frames_together
        return float((height // self.side) * (width // self.side) * latents)

    def work(self, steps: int | None = None, height: int | None = None, width: int | None = None) -> Work:
        """Return the work of one image or video; by default as its authors make it."""
        height, width, passes = height or self.height, width or self.width, self.passes * (steps or self.steps)
        tokens = self.tokens(height, width)
        seen = tokens + self.words
        pairs = sum(
            one.layers * one.width * seen / one.merged * (one.linear or seen / one.merged) for one in self.attention
        )
        values = VALUES * sum(one.layers * one.width * seen / one.merged for one in self.attention)
        decode = 2 * DECODE_MACS * height * width * self.frames
        return Work(2 * self.per_token * seen * passes, 4 * pairs * passes, decode, values * passes, passes)


def _stack(name: str, layers: int, size: int, each: float, **others: Any) -> Generator:
    """A transformer of equal layers of this width, in each of which a token meets `each` times width² weights."""
    return replace(Generator(name, {}, layers * each * size**2, (Attention(layers, size),), 0, 50), **others)


def _parts(denoiser: float, words: float, decoder: float = 0.084e9) -> dict[str, float]:
    return {"denoiser": denoiser, "words": words, "decoder": decoder}


# Sizes as the models' papers and cards state them, weights rounded, without tables of positions. A token
# meets 4 widths² of attention, 2 where words stand apart, and feed-forward's two or three matrices.
OTHERS = (
    _stack("PixArt-alpha/PixArt-Sigma-XL-2-1024-MS", 28, 1152, 14, steps=20, parameters=_parts(0.61e9, T5)),
    _stack("Tencent-Hunyuan/HunyuanDiT-v1.2-Diffusers", 40, 1408, 15.7, parameters=_parts(1.5e9, MT5_XL + 0.35e9)),
    Generator(
        "stabilityai/stable-diffusion-3.5-medium", _parts(2.24e9, T5 + 0.82e9), (24 * 12 + 13 * 4) * 1536.0**2,
        (Attention(37, 1536),), 333, 28,
    ),
    _stack(
        "tencent/HunyuanVideo", 60, 3072, 12, words=256, passes=1, height=720, width=1280, frames=129,
        parameters=_parts(12.8e9, LLAVA, 0.25e9),
    ),
    _stack(
        "zai-org/CogVideoX-2b", 30, 1920, 12, words=226, height=480, width=720, frames=49,
        parameters=_parts(1.69e9, T5, 0.22e9),
    ),
    _stack(
        "zai-org/CogVideoX1.5-5B", 42, 3072, 12, words=226, height=768, width=1360, frames=81, frames_together=8,
        parameters=_parts(5.57e9, T5, 0.22e9),
    ),
    _stack(
        "Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 30, 1536, 6 + 2 * 8960 / 1536, height=480, width=832, frames=81,
        parameters=_parts(1.42e9, UMT5, 0.127e9),
    ),
    _stack(
        "Wan-AI/Wan2.1-T2V-14B-Diffusers", 40, 5120, 6 + 2 * 13824 / 5120, height=480, width=832, frames=81,
        parameters=_parts(14.29e9, UMT5, 0.127e9),
    ),
)  # fmt: skip
STEPS = {
    "FLUX.1-dev": 28,
    "FLUX.1-schnell": 4,
    "Sana": 20,
    "stable-diffusion-3": 28,
}  # of the authors' example, else 50
UNET = {  # products for a latent with its words, by the layers' sizes, and layers that look at 1, 4 or 16 of them
    "stable-diffusion-v1-5/stable-diffusion-v1-5": (
        0.339e12 / 64**2, (Attention(5, 320), Attention(5, 640, 4), Attention(6, 1280, 16)),
    ),
    "stabilityai/stable-diffusion-xl-base-1.0": (
        2.99e12 / 128**2, (Attention(10, 640, 4), Attention(60, 1280, 16)),
    ),
}  # fmt: skip


def _of_images(model: Diffusion) -> Generator:
    """The generator of a model of models/diffusion.py."""
    fields, short = model.denoiser.fields, model.name.rpartition("/")[2]
    parameters = _parts(
        model.denoiser.parameters, sum(part.parameters for part in model.encoders), model.autoencoder.parameters
    )
    steps = next((count for begin, count in STEPS.items() if short.startswith(begin)), 50)
    made = Generator(
        model.name, parameters, 0.0, (), model.tokens, steps, 1 if short.startswith("FLUX") else 2,
        model.scale * model.patch, model.size, model.size,
    )  # fmt: skip
    if model.name in UNET:
        per_token, attention = UNET[model.name]
        return replace(made, per_token=per_token, attention=attention, words=0)
    width = fields["num_attention_heads"] * fields["attention_head_dim"]
    layers = fields["num_layers"] + fields.get("num_single_layers", 0)
    if model.denoiser.kind.startswith("Sana"):  # whose words stand apart, and whose attention is linear
        linear = Attention(layers, width, linear=2 * fields["attention_head_dim"])
        each = 6 + 3 * fields["mlp_ratio"]
        return replace(made, words=0, per_token=layers * each * width**2, attention=(linear,))
    return replace(made, per_token=layers * 12.0 * width**2, attention=(Attention(layers, width),))


@cache
def _table() -> Mapping[str, Generator]:
    every = [*(_of_images(model) for model in DIFFUSION.values()), *OTHERS]
    return {key: one for one in every for key in (one.name.casefold(), one.name.casefold().rpartition("/")[2])}


def generator(name: str) -> Generator | None:
    """Return the model of this name; None where it is no known one that makes images or videos."""
    plain = name.removeprefix(PREFIX).casefold()
    return _table().get(plain) or _table().get(f"{plain}-diffusers")
