"""Models that make images or videos of words, as a server holds them: the work of one image, and weights by part.

    generator("hf:black-forest-labs/FLUX.1-dev").work(steps=28, height=1024, width=1024)
    generator("hf:Wan-AI/Wan2.1-T2V-14B-Diffusers").weights_bytes

Fields are those of each part's config.json, weights are those that diffusers and transformers make of them. The kernels
of a call of the denoiser and of the decoder are traced on their own modules at two sizes (fit/generator_traces.py):
attention grows with tokens and their square, the rest with tokens.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from whichdevice.models.diffusion import (
    CLIP_L,
    DIFFUSION,
    KL_4,
    KL_16,
    T5_XXL,
    T5_XXL_FIELDS,
    Diffusion,
    Part,
)
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


def _part(kind: str, parameters: int, /, library: Literal["diffusers", "transformers"], **fields: Any) -> Part:
    return Part(kind, parameters, fields, library=library)


def _denoiser(kind: str, parameters: int, /, **fields: Any) -> Part:
    return _part(kind, parameters, "diffusers", **fields)


UMT5 = _part("UMT5EncoderModel", 5_680_910_336, "transformers", **{**T5_XXL_FIELDS, "vocab_size": 256384})
MT5_XL = _part(
    "T5EncoderModel", 1_669_958_656, "transformers",
    **{**T5_XXL_FIELDS, "vocab_size": 250112, "d_model": 2048, "d_ff": 5120, "num_heads": 32},
)  # fmt: skip
CHINESE_BERT = _part(
    "BertModel", 352_035_840, "transformers", vocab_size=47020, hidden_size=1024, num_hidden_layers=24,
    num_attention_heads=16, intermediate_size=4096,
)  # fmt: skip
LLAMA_OF_LLAVA = _part(
    "LlamaModel", 7_505_186_816, "transformers", vocab_size=128320, hidden_size=4096, intermediate_size=14336,
    num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8,
)  # fmt: skip
WAN_DECODER = _part("AutoencoderKLWan", 126_892_531, "diffusers")
COG_DECODER = _part("AutoencoderKLCogVideoX", 215_583_907, "diffusers")


def _wan(name: str, parameters: int, heads: int, layers: int, ffn: int, **others: Any) -> Generator:
    fields = {"num_attention_heads": heads, "num_layers": layers, "ffn_dim": ffn} | others.pop("fields", {})
    usual: dict[str, Any] = {"height": 480, "width": 832, "frames": 81, "steps": 50, "decoder": WAN_DECODER} | others
    denoiser = _denoiser("WanTransformer3DModel", parameters, **fields)
    return Generator(name, denoiser, (UMT5,), head=128, together=1, calls=2, **usual)


def _cog(
    name: str, parameters: int, heads: int, layers: int, /, size: tuple[int, int, int], **fields: Any
) -> Generator:
    height, width, frames = size
    denoiser = _denoiser(
        "CogVideoXTransformer3DModel", parameters, num_attention_heads=heads, num_layers=layers, **fields
    )
    return Generator(
        name, denoiser, (T5_XXL,), COG_DECODER, 50, 64, height=height, width=width, frames=frames,
        frames_together=4 * fields.get("patch_size_t", 1),
    )  # fmt: skip


OTHERS = (
    Generator(
        "PixArt-alpha/PixArt-Sigma-XL-2-1024-MS",
        _denoiser(
            "PixArtTransformer2DModel", 610_856_096, num_layers=28, num_attention_heads=16, attention_head_dim=72,
            in_channels=4, out_channels=8, cross_attention_dim=1152, caption_channels=4096, sample_size=128,
            interpolation_scale=2, use_additional_conditions=False,
        ),
        (T5_XXL,), KL_4, 20, 72,
    ),
    Generator(
        "Tencent-Hunyuan/HunyuanDiT-v1.2-Diffusers",
        _denoiser(
            "HunyuanDiT2DModel", 1_499_952_032, num_layers=40, num_attention_heads=16, attention_head_dim=88,
            hidden_size=1408, mlp_ratio=4.3637, in_channels=4, patch_size=2, sample_size=128,
            activation_fn="gelu-approximate", cross_attention_dim=1024, cross_attention_dim_t5=2048,
            pooled_projection_dim=1024, text_len=77, text_len_t5=256, use_style_cond_and_image_meta_size=False,
        ),
        (CHINESE_BERT, MT5_XL), KL_4, 50, 88,
    ),
    Generator(
        "tencent/HunyuanVideo",
        _denoiser("HunyuanVideoTransformer3DModel", 12_821_012_544, guidance_embeds=True),
        (LLAMA_OF_LLAVA, CLIP_L), _part("AutoencoderKLHunyuanVideo", 246_478_803, "diffusers"), 50, 128, together=1,
        height=720, width=1280, frames=129,
    ),
    _cog("zai-org/CogVideoX-2b", 1_693_783_872, 30, 30, (480, 720, 49)),
    _cog("zai-org/CogVideoX-5b", 5_570_283_072, 48, 42, (480, 720, 49), use_rotary_positional_embeddings=True),
    _cog(
        "zai-org/CogVideoX1.5-5B", 5_570_676_352, 48, 42, (768, 1360, 81), use_rotary_positional_embeddings=True,
        patch_size_t=2, patch_bias=False, sample_height=300, sample_width=300, sample_frames=81,
    ),
    _wan("Wan-AI/Wan2.1-T2V-1.3B-Diffusers", 1_418_996_800, 12, 30, 8960),
    _wan("Wan-AI/Wan2.1-T2V-14B-Diffusers", 14_288_491_584, 40, 40, 13824),
    _wan("Wan-AI/Wan2.2-T2V-A14B-Diffusers", 14_288_491_584, 40, 40, 13824, denoisers=2, steps=40),
    _wan(
        "Wan-AI/Wan2.2-TI2V-5B-Diffusers", 4_999_787_712, 24, 30, 14336, fields={"in_channels": 48, "out_channels": 48},
        decoder=_part(
            "AutoencoderKLWan", 704_688_668, "diffusers", base_dim=160, decoder_base_dim=256, z_dim=48,
            is_residual=True, in_channels=12, out_channels=12, patch_size=2,
        ),
        side=32, height=704, width=1280, frames=121,
    ),
    Generator(
        "Lightricks/LTX-Video", _denoiser("LTXVideoTransformer3DModel", 1_923_385_472), (T5_XXL,),
        _part("AutoencoderKLLTXVideo", 419_193_649, "diffusers"), 50, 64, side=32, height=512, width=704, frames=161,
        frames_together=8,
    ),
)  # fmt: skip
STEPS = {
    "FLUX.1-dev": 28,
    "FLUX.1-schnell": 4,
    "Sana": 20,
    "stable-diffusion-3": 28,
}  # of the authors' example, else 50
# The medium model has layers in which images look at themselves apart.
MEDIUM = _denoiser(
    "SD3Transformer2DModel", 2_243_171_520, sample_size=128, patch_size=2, in_channels=16, out_channels=16,
    num_layers=24, attention_head_dim=64, num_attention_heads=24, joint_attention_dim=4096, caption_projection_dim=1536,
    pooled_projection_dim=2048, pos_embed_max_size=384, qk_norm="rms_norm", dual_attention_layers=tuple(range(13)),
)  # fmt: skip


def _of_images(model: Diffusion) -> Generator:
    """The generator of a model of models/diffusion.py."""
    short = model.name.rpartition("/")[2]
    head = HEADS.get(model.name) or model.denoiser.fields["attention_head_dim"]
    steps = next((count for begin, count in STEPS.items() if short.startswith(begin)), 50)
    return Generator(
        model.name, model.denoiser, model.encoders, model.autoencoder, steps, head,
        1 if short.startswith("FLUX") else 2, side=model.scale * model.patch, height=model.size, width=model.size,
    )  # fmt: skip


HEADS = {"stable-diffusion-v1-5/stable-diffusion-v1-5": 80, "stabilityai/stable-diffusion-xl-base-1.0": 64}


@cache
def generators() -> tuple[Generator, ...]:
    """Return every known model."""
    images = [_of_images(model) for model in DIFFUSION.values()]
    large = next(one for one in images if one.name == "stabilityai/stable-diffusion-3.5-large")
    medium = Generator("stabilityai/stable-diffusion-3.5-medium", MEDIUM, large.encoders, KL_16, 28, 64)
    return (*images, medium, *OTHERS)


@cache
def _table() -> Mapping[str, Generator]:
    return {key: one for one in generators() for key in (one.name.casefold(), one.name.casefold().rpartition("/")[2])}


def generator(name: str) -> Generator | None:
    """Return the model of this name; None where it is no known one that makes images or videos."""
    plain = name.removeprefix(PREFIX).casefold()
    return _table().get(plain) or _table().get(f"{plain}-diffusers")
