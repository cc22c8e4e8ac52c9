"""Sizes of well-known diffusion models: the denoiser, what reads the words, what turns pixels into latents and back.

    DIFFUSION["black-forest-labs/FLUX.1-dev"].denoiser.parameters
    DIFFUSION["stabilityai/stable-diffusion-xl-base-1.0"].denoiser.made()     # by diffusers, without values on `meta`

Fields are those of each part's config.json on huggingface.co; what is left out is the library's default. Weights are
counted by the file sizes there, two or four bytes a weight. Nothing is downloaded.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal

from whichdevice.errors import StudyError

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


def _frozen(**fields: Any) -> Mapping[str, Any]:
    return MappingProxyType(fields)


CLIP_L = Part(
    "CLIPTextModel", 123_060_480,
    _frozen(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12), 77, "transformers",
)  # fmt: skip
CLIP_L_PROJECTED = Part(
    "CLIPTextModelWithProjection", 123_650_304, _frozen(**CLIP_L.fields, projection_dim=768), 77, "transformers"
)
CLIP_G = Part(
    "CLIPTextModelWithProjection", 694_659_840,
    _frozen(
        hidden_size=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=20, projection_dim=1280,
        hidden_act="gelu",
    ),
    77, "transformers",
)  # fmt: skip
T5_XXL_FIELDS = _frozen(
    vocab_size=32128, d_model=4096, d_ff=10240, num_layers=24, num_heads=64, d_kv=64, feed_forward_proj="gated-gelu",
    is_encoder_decoder=False,
)  # fmt: skip
T5_XXL = Part("T5EncoderModel", 4_762_310_656, T5_XXL_FIELDS, 512, "transformers")
GEMMA_2 = Part(
    "Gemma2Model", 2_614_341_888,
    _frozen(
        vocab_size=256000, hidden_size=2304, intermediate_size=9216, num_hidden_layers=26, num_attention_heads=8,
        num_key_value_heads=4, head_dim=256,
    ),
    300, "transformers",
)  # fmt: skip
SHORT_T5 = Part("T5EncoderModel", 4_762_310_656, T5_XXL_FIELDS, 256, "transformers")


def _autoencoder(channels: int, parameters: int, **others: Any) -> Part:
    """Return the autoencoder of Stable Diffusion, with so many channels of its latents."""
    fields = _frozen(
        block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=channels,
        down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4, sample_size=1024,
        **others,
    )  # fmt: skip
    return Part("AutoencoderKL", parameters, fields)


KL_4 = _autoencoder(4, 83_653_863)
KL_16 = _autoencoder(16, 83_819_683, use_quant_conv=False, use_post_quant_conv=False)
DEEP = Part(
    "AutoencoderDC", 312_250_275,
    _frozen(
        latent_channels=32, attention_head_dim=32,
        encoder_block_types=("ResBlock",) * 3 + ("EfficientViTBlock",) * 3,
        decoder_block_types=("ResBlock",) * 3 + ("EfficientViTBlock",) * 3,
        encoder_block_out_channels=(128, 256, 512, 512, 1024, 1024),
        decoder_block_out_channels=(128, 256, 512, 512, 1024, 1024),
        encoder_layers_per_block=(2, 2, 2, 3, 3, 3), decoder_layers_per_block=(3, 3, 3, 3, 3, 3),
        encoder_qkv_multiscales=((), (), (), (5,), (5,), (5,)), decoder_qkv_multiscales=((), (), (), (5,), (5,), (5,)),
        downsample_block_type="conv", upsample_block_type="interpolate",
    ),
)  # fmt: skip


def _flux(name: str, guided: bool, parameters: int) -> Diffusion:
    fields = _frozen(
        patch_size=1, in_channels=64, num_layers=19, num_single_layers=38, attention_head_dim=128,
        num_attention_heads=24, joint_attention_dim=4096, pooled_projection_dim=768, guidance_embeds=guided,
    )  # fmt: skip
    denoiser = Part("FluxTransformer2DModel", parameters, fields)
    encoders = (CLIP_L, T5_XXL if guided else SHORT_T5)
    return Diffusion(
        name, denoiser, encoders, KL_16, encoders[1].tokens, 4096, 768, channels=16, patch=2, guided=guided
    )


def _sd3(name: str, layers: int, heads: int, parameters: int, **others: Any) -> Diffusion:
    fields = _frozen(
        sample_size=128, patch_size=2, in_channels=16, out_channels=16, num_layers=layers, attention_head_dim=64,
        num_attention_heads=heads, joint_attention_dim=4096, caption_projection_dim=64 * heads,
        pooled_projection_dim=2048, pos_embed_max_size=192, **others,
    )  # fmt: skip
    denoiser = Part("SD3Transformer2DModel", parameters, fields)
    encoders = (CLIP_L_PROJECTED, CLIP_G, SHORT_T5)
    return Diffusion(name, denoiser, encoders, KL_16, 77 + 256, 4096, 2048, channels=16, patch=2)


def _sana(name: str, layers: int, heads: int, cross_heads: int, cross_width: int, parameters: int) -> Diffusion:
    fields = _frozen(
        in_channels=32, out_channels=32, num_attention_heads=heads, attention_head_dim=32, num_layers=layers,
        num_cross_attention_heads=cross_heads, cross_attention_head_dim=cross_width,
        cross_attention_dim=cross_heads * cross_width, caption_channels=2304, mlp_ratio=2.5, sample_size=32,
        patch_size=1,
    )  # fmt: skip
    denoiser = Part("SanaTransformer2DModel", parameters, fields)
    return Diffusion(name, denoiser, (GEMMA_2,), DEEP, 300, 2304, scale=32, channels=32)


SD_15 = Diffusion(
    "stable-diffusion-v1-5/stable-diffusion-v1-5",
    Part(
        "UNet2DConditionModel", 859_520_964,
        _frozen(
            sample_size=64, in_channels=4, out_channels=4, block_out_channels=(320, 640, 1280, 1280),
            layers_per_block=2, cross_attention_dim=768, attention_head_dim=8,
            down_block_types=("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
            up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        ),
    ),
    (CLIP_L,), KL_4, 77, 768, size=512,
)  # fmt: skip
SDXL = Diffusion(
    "stabilityai/stable-diffusion-xl-base-1.0",
    Part(
        "UNet2DConditionModel", 2_567_463_684,
        _frozen(
            sample_size=128, in_channels=4, out_channels=4, block_out_channels=(320, 640, 1280), layers_per_block=2,
            cross_attention_dim=2048, attention_head_dim=(5, 10, 20), transformer_layers_per_block=(1, 2, 10),
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
            addition_embed_type="text_time", addition_time_embed_dim=256, projection_class_embeddings_input_dim=2816,
            use_linear_projection=True,
        ),
    ),
    (CLIP_L, CLIP_G), KL_4, 77, 2048, 1280,
)  # fmt: skip
DIFFUSION: Mapping[str, Diffusion] = MappingProxyType(
    {
        model.name: model
        for model in (
            SD_15,
            SDXL,
            _sd3("stabilityai/stable-diffusion-3-medium-diffusers", 24, 24, 2_028_328_000),
            _sd3("stabilityai/stable-diffusion-3.5-large", 38, 38, 8_056_627_520, qk_norm="rms_norm"),
            _flux("black-forest-labs/FLUX.1-dev", True, 11_901_408_320),
            _flux("black-forest-labs/FLUX.1-schnell", False, 11_891_178_560),
            _sana("Efficient-Large-Model/Sana_1600M_1024px_diffusers", 20, 70, 20, 112, 1_604_462_752),
            _sana("Efficient-Large-Model/Sana_600M_1024px_diffusers", 28, 36, 16, 72, 591_747_872),
        )
    }
)


@cache
def _names() -> Mapping[str, str]:
    """Names by themselves and without the organisation, in small letters."""
    return {key: name for name in DIFFUSION for key in (name.casefold(), name.casefold().rpartition("/")[2])}


def diffusion_name(text: str) -> str | None:
    """Return the model's name in DIFFUSION; None where it is none of these."""
    return _names().get(text.casefold())
