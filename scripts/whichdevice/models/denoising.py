"""One step of a diffusion model: latents with noise, the denoiser's guess, its squared error.

Denoising(SDXL, denoiser, None)                # latents and vectors of the text come with the batch
Denoising(SDXL, denoiser, (encoders, autoencoder))
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils import ModelOutput

from whichdevice.models.diffusion import Diffusion
from whichdevice.models.lora import adapt
from whichdevice.models.tuning import Tuning


class Denoising(nn.Module):
    """A denoiser with the loss of a batch of images, and frozen parts that make its inputs."""

    def __init__(self, known: Diffusion, denoiser: nn.Module, frozen: tuple[list[nn.Module], nn.Module] | None) -> None:
        super().__init__()
        self.known, self.denoiser, self.encoders, self.autoencoder = known, denoiser, None, None
        if frozen is not None:
            encoders, autoencoder = frozen
            self.encoders = nn.ModuleList(encoders).requires_grad_(False).bfloat16()
            self.autoencoder = autoencoder.requires_grad_(False).bfloat16()

    def gradient_checkpointing_enable(self, *_: Any, **__: Any) -> None:
        """Let blocks compute their activations again, by the name that Hugging Face's models have."""
        self.denoiser.enable_gradient_checkpointing()

    @property
    def trains_all(self) -> bool:
        """Return whether all weights of the denoiser are trained."""
        return all(parameter.requires_grad for parameter in self.denoiser.parameters())

    def adapted(self, tuning: Tuning) -> nn.Module:
        """Return it with a frozen denoiser that has adapters beside its attention."""
        adapt(self.denoiser, replace(tuning, lora_layers="attention"), "LoRA")
        return self

    def forward(self, time: Tensor, noise: Tensor | None = None, **given: Tensor) -> ModelOutput:
        """The guess for a batch, and its loss where the noise is known."""
        if "latents" in given:
            latents, text, pooled = given["latents"], given["text"], given.get("pooled")
        else:
            latents, text, pooled = self._made(**given)
        noisy = latents if noise is None else torch.lerp(latents, noise, time[:, None, None, None].to(latents.dtype))
        guess = CALLS[type(self.denoiser).__name__](self.denoiser, noisy, time, text, pooled)
        if noise is None:
            return ModelOutput(logits=guess)
        loss = nn.functional.mse_loss(guess.float(), (noise - latents).float())
        return ModelOutput(loss=loss, logits=guess)

    @torch.no_grad()
    def _made(self, image: Tensor, **words: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Latents of images; vectors of their texts, of each word and perhaps of the whole."""
        assert self.encoders is not None and self.autoencoder is not None
        encoded = self.autoencoder.encode(image.bfloat16())
        latents = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latent
        read = [encoder(words[f"words_{place}"]) for place, encoder in enumerate(self.encoders)]
        by_length: dict[int, list[Tensor]] = defaultdict(list)
        for output in read:
            by_length[output.last_hidden_state.shape[1]].append(output.last_hidden_state)
        texts = [_padded(torch.cat(vectors, -1), self.known.text_width) for vectors in by_length.values()]
        text = torch.cat(texts, 1)[:, -self.known.words :]
        wholes = [output.get("text_embeds", output.get("pooler_output")) for output in read]
        summaries = [whole for whole in wholes if whole is not None]
        pooled = torch.cat(summaries, -1)[:, -self.known.pooled :] if self.known.pooled else None
        return latents.to(image.dtype), text.to(image.dtype), None if pooled is None else pooled.to(image.dtype)


def _padded(vectors: Tensor, width: int) -> Tensor:
    return nn.functional.pad(vectors, (0, width - vectors.shape[-1]))


def _unet(denoiser: nn.Module, noisy: Tensor, time: Tensor, text: Tensor, pooled: Tensor | None) -> Tensor:
    """The guess of a Stable Diffusion; a later one also knows the whole text, and six sizes of the image."""
    conditions = {} if pooled is None else {"text_embeds": pooled, "time_ids": pooled.new_zeros(len(pooled), 6)}
    return denoiser(noisy, time, text, added_cond_kwargs=conditions or None).sample


def _flux(denoiser: nn.Module, noisy: Tensor, time: Tensor, text: Tensor, pooled: Tensor | None) -> Tensor:
    """The guess of FLUX, which sees two by two latents as one token."""
    count, channels, side, _ = noisy.shape
    half = side // 2
    tokens = noisy.view(count, channels, half, 2, half, 2).permute(0, 2, 4, 1, 3, 5).reshape(count, half**2, -1)
    places, words = noisy.new_zeros(half**2, 3), noisy.new_zeros(text.shape[1], 3)
    guided = torch.ones_like(time) if denoiser.config.guidance_embeds else None
    guess = denoiser(tokens, text, pooled, time, places, words, guided).sample
    back = guess.view(count, half, half, channels, 2, 2).permute(0, 3, 1, 4, 2, 5)
    return back.reshape(noisy.shape)


CALLS: Mapping[str, Callable[..., Tensor]] = {
    "UNet2DConditionModel": _unet,
    "FluxTransformer2DModel": _flux,
    "SD3Transformer2DModel": lambda denoiser, noisy, time, text, pooled: denoiser(noisy, text, pooled, time).sample,
    "SanaTransformer2DModel": lambda denoiser, noisy, time, text, _: denoiser(noisy, text, time).sample,
}
