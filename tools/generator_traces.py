"""Traces of models that make images and videos: `python -m tools.generator_traces` writes models/generators.json.

It needs PyTorch, transformers and `pip install diffusers`. Each denoiser's call and each decoder is traced on fake
tensors at its authors' size and at half of it, in 16 bits, as diffusers calls it. A decoder of videos is traced on two
frames of latents.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import torch

from whichdevice.base.files import write_atomically
from whichdevice.forecast.torch.trace import Step, Trace, trace_step
from whichdevice.models.diffusion import DIFFUSION, WORKS, Diffusion

Inputs = Callable[[int], dict[str, Any]]


def _zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16)


def _call_inputs(model: Diffusion, height: int, width: int) -> Inputs:
    """What diffusers gives a denoiser for n passes."""
    fields, kind = model.denoiser.fields, model.denoiser.kind
    tokens = model.tokens(height, width)

    def latents(count: int, channels: int, scale: int) -> tuple[int, ...]:
        frames = (model.latent_frames,) if model.frames > 1 else ()
        return (count, channels, *frames, height // scale, width // scale)

    def inputs(count: int) -> dict[str, Any]:
        time = {"timestep": _zeros(count)}
        if kind == "PixArtTransformer2DModel":
            sizes = {"resolution": None, "aspect_ratio": None}
            return time | {
                "hidden_states": _zeros(*latents(count, 4, 8)), "encoder_hidden_states": _zeros(count, 300, 4096),
                "encoder_attention_mask": _zeros(count, 300), "added_cond_kwargs": sizes,
            }  # fmt: skip
        if kind == "HunyuanDiT2DModel":
            turned = (torch.zeros(tokens, 88), torch.zeros(tokens, 88))
            return time | {
                "hidden_states": _zeros(*latents(count, 4, 8)), "encoder_hidden_states": _zeros(count, 77, 1024),
                "text_embedding_mask": _zeros(count, 77), "encoder_hidden_states_t5": _zeros(count, 256, 2048),
                "text_embedding_mask_t5": _zeros(count, 256), "image_rotary_emb": turned,
            }  # fmt: skip
        if kind == "SD3Transformer2DModel":
            return time | {
                "hidden_states": _zeros(*latents(count, 16, 8)), "encoder_hidden_states": _zeros(count, 333, 4096),
                "pooled_projections": _zeros(count, 2048),
            }  # fmt: skip
        if kind == "FluxTransformer2DModel":
            words = model.encoders[-1].tokens
            guided = {"guidance": _zeros(count)} if fields["guidance_embeds"] else {}
            return guided | time | {
                "hidden_states": _zeros(count, tokens, 64), "encoder_hidden_states": _zeros(count, words, 4096),
                "pooled_projections": _zeros(count, 768), "img_ids": _zeros(tokens, 3), "txt_ids": _zeros(words, 3),
            }  # fmt: skip
        if kind == "SanaTransformer2DModel":
            return time | {
                "hidden_states": _zeros(*latents(count, 32, 32)), "encoder_hidden_states": _zeros(count, 300, 2304)
            }  # fmt: skip
        if kind == "UNet2DConditionModel":
            whole = {"text_embeds": _zeros(count, 1280), "time_ids": _zeros(count, 6)}
            more = {"added_cond_kwargs": whole} if "addition_embed_type" in fields else {}
            words = _zeros(count, 77, fields["cross_attention_dim"])
            return more | time | {"sample": _zeros(*latents(count, 4, 8)), "encoder_hidden_states": words}
        if kind == "HunyuanVideoTransformer3DModel":
            return time | {
                "hidden_states": _zeros(*latents(count, 16, 8)), "encoder_hidden_states": _zeros(count, 256, 4096),
                "encoder_attention_mask": torch.ones(count, 256), "pooled_projections": _zeros(count, 768),
                "guidance": _zeros(count),
            }  # fmt: skip
        if kind == "CogVideoXTransformer3DModel":
            frames = model.latent_frames * fields.get("patch_size_t", 1)
            turned = (torch.zeros(tokens, 64), torch.zeros(tokens, 64))
            rotary = {"image_rotary_emb": turned} if fields.get("use_rotary_positional_embeddings") else {}
            return rotary | time | {
                "hidden_states": _zeros(count, frames, 16, height // 8, width // 8),
                "encoder_hidden_states": _zeros(count, 226, 4096),
            }  # fmt: skip
        if kind == "WanTransformer3DModel":
            channels = fields.get("in_channels", 16)
            hidden = _zeros(*latents(count, channels, model.side // 2))
            return time | {"hidden_states": hidden, "encoder_hidden_states": _zeros(count, 512, 4096)}
        assert kind == "LTXVideoTransformer3DModel", kind
        return time | {
            "hidden_states": _zeros(count, tokens, 128), "encoder_hidden_states": _zeros(count, 128, 4096),
            "encoder_attention_mask": torch.ones(count, 128), "num_frames": model.latent_frames,
            "height": height // model.side, "width": width // model.side,
        }  # fmt: skip

    return inputs


# Pixels of a latent's side, and channels of latents, by decoder.
DECODERS: Mapping[str, tuple[int, int]] = {
    "AutoencoderDC": (32, 32), "AutoencoderKLLTXVideo": (32, 128), "AutoencoderKLCogVideoX": (8, 16),
    "AutoencoderKLWan": (8, 16), "AutoencoderKLHunyuanVideo": (8, 16),
}  # fmt: skip


def _decode_inputs(model: Diffusion, height: int, width: int) -> Inputs:
    decoder = model.autoencoder
    scale, channels = DECODERS.get(decoder.kind, (8, decoder.fields.get("latent_channels", 4)))
    if "z_dim" in decoder.fields:
        scale, channels = 16, decoder.fields["z_dim"]
    frames = (2,) if model.frames > 1 else ()
    return lambda count: {"z": _zeros(count, channels, *frames, height // scale, width // scale)}


def _decoded_frames(model: Diffusion) -> int:
    """Frames that come of what is decoded in a trace."""
    if model.frames == 1:
        return 1
    if model.autoencoder.kind == "AutoencoderKLCogVideoX":
        return 8
    return 1 + (8 if model.autoencoder.kind == "AutoencoderKLLTXVideo" else 4)


def _traced(model: Diffusion, height: int, width: int) -> tuple[Trace, Trace]:
    """A call of the denoiser and of the decoder."""
    calls = _call_inputs(model, height, width)
    call = Step(
        model.denoiser.made, calls, lambda module, given: module(**given, return_dict=False)[0], None, "bfloat16"
    )
    decodes = _decode_inputs(model, height, width)
    decode = Step(model.autoencoder.made, decodes, lambda module, given: module.decode(**given)[0], None, "bfloat16")
    return trace_step(call, model.together), trace_step(decode, 1)


def _by_kind(trace: Trace) -> dict[str, list[float]]:
    """Operations, bytes and kernels by kind and number format."""
    sums: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for item in trace.work.items:
        known = sums[f"{item.kind} {item.precision}"]
        for place, amount in enumerate((item.operations, item.bytes, 1.0)):
            known[place] += amount * item.count
    return sums


def _grown(whole: Trace, half: Trace) -> dict[str, list[Any]]:
    """How operations and bytes by kind grow with the size, from those at 1 and at a half."""
    at_half, grown = _by_kind(half), {}
    for name, (*amounts, count) in sorted(_by_kind(whole).items()):
        parts = []
        for amount, less in zip(amounts, at_half[name], strict=False):
            if name.startswith("attention"):
                square = max(0.0, 2 * amount - 4 * less)
                parts.append([0.0, amount - square, square])
            else:
                grows = 2 * (amount - less)
                parts.append([amount - grows, grows, 0.0])
        grown[name] = [[float(f"{part:.5g}") for part in three] for three in parts] + [count]
    return grown


def _values(whole: Trace, half: Trace) -> list[float]:
    large, small = (trace.memory["peak"] - trace.memory["weights"] for trace in (whole, half))
    return [float(f"{part:.5g}") for part in (2 * small - large, 2 * (large - small))]


def traced(model: Diffusion) -> dict[str, Any]:
    """Return the work and the values of a call and of what is decoded, by the size."""
    height, width = model.height, model.width
    half = (height // 2, width) if height // model.side % 2 == 0 else (height, width // 2)
    assert 2 * model.tokens(*half) == model.tokens(height, width), model.name
    (call, decode), (less, decode_less) = (_traced(model, *size) for size in ((height, width), half))
    return {
        "call": _grown(call, less), "decode": _grown(decode, decode_less), "frames": _decoded_frames(model),
        "values": [_values(call, less), _values(decode, decode_less)],
    }  # fmt: skip


def main() -> None:
    """Trace what is missing, or what is named; one line a model."""
    known = json.loads(WORKS.read_text(encoding="utf-8")) if WORKS.is_file() else {}
    for model in DIFFUSION.values():
        if model.name not in known or model.name in sys.argv[1:]:
            print(model.name, flush=True)
            known[model.name] = traced(model)
            rows = (f'"{name}": {json.dumps(known[name], separators=(",", ":"))}' for name in sorted(known))
            write_atomically("{\n" + ",\n".join(rows) + "\n}\n", WORKS)


if __name__ == "__main__":
    main()
