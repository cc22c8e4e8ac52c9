"""Diffusion models of Hugging Face by name, as diffusers' scripts train them, with random weights.

    hf:black-forest-labs/FLUX.1-dev            sizes in models/diffusion.py; needs diffusers and transformers

An image is turned into latents and its text into vectors once, before the training (`cached`, the default), or in each
step by the frozen autoencoder and text encoders beside the denoiser. Options: `size` (pixels of a side), `tokens` (of a
text), `cached`, and the options of models/tuning.py; LoRA adapts queries, keys, values and outputs of attention.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.models.address import Address
from whichdevice.models.declaration import Declaration
from whichdevice.models.diffusion import DIFFUSION, Diffusion, diffusion_name
from whichdevice.models.framework import TORCH
from whichdevice.models.hugging_face import TUNING, NamedModel
from whichdevice.models.model_file import Adapter
from whichdevice.models.shapes import Array, Tree
from whichdevice.models.workloads.base import Options

LARGE = 4e9  # weights of a denoiser from which on scripts hold them all in bfloat16


def diffusion_adapter(address: Address) -> Adapter:
    """Return the adapter of a diffusion model's address."""
    known = DIFFUSION[diffusion_name(address.function) or ""]
    declared = Declaration(
        input=_cached_inputs(known, known.height, known.words),
        target=_noise(known, known.height),
        optimizer="AdamW",
        batch_size=1,
        unit="image",
        source=f"hf:{known.name}, models/diffusion.py",
        functions=frozenset({"model"}),
        framework=TORCH,
        tuning={"precision": "bfloat16"} if known.denoiser.parameters >= LARGE else {},
    )
    return Adapter(address, declared, lambda: SimpleNamespace(known=known))


def _noise(known: Diffusion, size: int) -> dict[str, Array]:
    """Return the noise in the latents of an image of this side in pixels."""
    return {"noise": Array((known.channels, size // known.scale, size // known.scale))}


def _cached_inputs(known: Diffusion, size: int, tokens: int) -> Tree:
    """Return what the denoiser gets for an image, made before the training."""
    latents, text = _noise(known, size)["noise"], Array((tokens, known.text_width))
    inputs = {"latents": latents, "time": Array(()), "text": text}
    return inputs | ({"pooled": Array((known.pooled,))} if known.pooled else {})


class DiffusionModel(NamedModel):
    """A diffusion model as a workload."""

    option_names = (*TUNING, "size", "tokens", "cached")

    def __init__(self, adapter: Adapter, options: Options) -> None:
        super().__init__(adapter, options)
        self.known: Diffusion = adapter.load().known
        size, tokens = self._whole("size", self.known.height), self._whole("tokens", self.known.words)
        if size % self.known.side:
            raise StudyError(f"{self.address.text}: size is {size}; it must be a multiple of {self.known.side} pixels")
        inputs = _cached_inputs(self.known, size, tokens)
        if not self.cached:
            if tokens != self.known.words:
                raise StudyError(f"{self.address.text}: tokens is for texts that are made before: cached=true")
            read = [Array((part.tokens,), "int32", 1000) for part in self.known.encoders]
            words = {f"words_{place}": array for place, array in enumerate(read)}
            inputs = {"image": Array((3, size, size)), "time": Array(()), **words}
        targets = _noise(self.known, size)
        optimizer = self._stated().get("optimizer", self.declared.optimizer)
        self._shapes = inputs, targets
        self.declared = replace(self.declared, input=inputs, target=targets, optimizer=optimizer)
        self.layers = self.known.blocks

    def _whole(self, name: str, usual: int) -> int:
        value = self.options.get(name, None)
        if value is None:
            return usual
        if type(value) is not int or value < 1:
            raise StudyError(f"{self.address.text}: {name} is {value!r}; it must be a whole number above 0")
        return value

    @property
    def usual(self) -> dict[str, Any]:
        """Adapters beside attention alone."""
        return {"lora_layers": "attention"}

    @property
    def cached(self) -> bool:
        """Return whether latents and texts are made before the training."""
        return bool(self.options.get("cached", True))

    def made_module(self, *layers: int) -> Any:
        """Return the denoiser as it is trained, perhaps of fewer blocks, with the frozen parts that a step runs."""
        from whichdevice.models.denoising import Denoising
        from whichdevice.models.lora import adapt

        known, tuning = self.known, self.tuning
        denoiser = known.denoiser.made(**(known.with_blocks(layers[0]) if layers else {}))
        if tuning.method != "full":
            adapt(denoiser, tuning, self.address.text)
        frozen = None if self.cached else ([one.made() for one in known.encoders], known.autoencoder.made())
        module = Denoising(known, denoiser, frozen)
        if tuning.gradient_checkpointing:
            module.gradient_checkpointing_enable()
        return module
