"""Diffusion models by name: their sizes, their options, and what a step of them trains."""

import pytest
from needs import require

from whichdevice.base.errors import StudyError
from whichdevice.models.address import full_name
from whichdevice.models.diffusion import DIFFUSION, Diffusion, Part, diffusion_name
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

FLUX = DIFFUSION["black-forest-labs/FLUX.1-dev"]
SDXL = DIFFUSION["stabilityai/stable-diffusion-xl-base-1.0"]
TINY = Diffusion(
    "tiny/flux",
    Part(
        "FluxTransformer2DModel", 0,
        {
            "patch_size": 1, "in_channels": 16, "num_layers": 6, "num_single_layers": 12, "attention_head_dim": 16,
            "num_attention_heads": 2, "joint_attention_dim": 32, "pooled_projection_dim": 16, "guidance_embeds": True,
            "axes_dims_rope": (4, 6, 6),
        },
    ),
    (), SDXL.autoencoder, 1, 16, height=64, words=8, text_width=32, pooled=16,
)  # fmt: skip


def linear(inputs, outputs):
    return (inputs + 1) * outputs


def test_sizes_of_flux_add_up_to_its_published_weights():
    width, wide = 3072, 4 * 3072
    double = 2 * linear(width, 6 * width) + 8 * linear(width, width) + 4 * 128
    double += 2 * (linear(width, wide) + linear(wide, width))
    single = linear(width, 3 * width) + linear(width, wide) + linear(width + wide, width)
    single += 3 * linear(width, width) + 2 * 128
    rest = linear(64, width) + linear(4096, width) + 2 * (linear(256, width) + linear(width, width))
    rest += linear(768, width) + linear(width, width) + linear(width, 2 * width) + linear(width, 64)
    fields = FLUX.denoiser.fields
    weights = fields["num_layers"] * double + fields["num_single_layers"] * single + rest
    assert weights == pytest.approx(FLUX.denoiser.parameters, rel=0.01)


def test_parts_of_a_pipeline_in_numbers():
    assert FLUX.parameters["words"] + FLUX.parameters["decoder"] == pytest.approx(4.97e9, rel=0.01)  # T5's, CLIP's


@pytest.mark.parametrize("text", ["FLUX.1-dev", "hf:black-forest-labs/flux.1-dev", "black-forest-labs/FLUX.1-dev"])
def test_a_name_as_people_paste_it(text):
    assert diffusion_name(full_name(text).removeprefix("hf:")) == FLUX.name
    assert Model.read(text).unit == "image"


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 1000}, "size is 1000; it must be a multiple of 16 pixels"),
        ({"tokens": 0}, "tokens is 0; it must be a whole number above 0"),
        ({"tokens": 77, "cached": False}, "tokens is for texts that are made before"),
    ],
)
def test_a_wrong_option_is_one_line(options, message):
    with pytest.raises(StudyError, match=message):
        Model.read("hf:FLUX.1-dev").workload(Options(1, given=options))


def weights(module):
    return sum(parameter.numel() for parameter in module.parameters())


def traced(options, known=TINY, size=1):
    """A step of a small model of FLUX's kind."""
    from whichdevice.forecast.torch.records import step_of
    from whichdevice.forecast.torch.trace import trace_step
    from whichdevice.models.diffusion_training import DiffusionModel, diffusion_adapter
    from whichdevice.models.model_file import Adapter

    adapter = diffusion_adapter(Model.read("hf:FLUX.1-dev").address)
    small = Adapter(adapter.address, adapter.declared, lambda: type("Loaded", (), {"known": known}))
    made = DiffusionModel(small, Options(size, given=options))
    return trace_step(step_of(made, "bfloat16", "train"), size)


@pytest.mark.slow
def test_adapters_are_beside_attention_and_blocks_are_extended():
    require("torch", "diffusers")
    lora, full = traced({"method": "lora", "lora_rank": 4}), traced({})
    # Queries, keys and values of each block, and the output of the first kind; a rank-4 pair for 32 by 32 each.
    assert lora.trained == 4 * (32 + 32) * (6 * 4 + 12 * 3)
    assert full.trained == full.parameters
    assert lora.memory["gradients"] < full.memory["gradients"]


@pytest.mark.slow
def test_checkpointing_and_4_bits_take_less_memory():
    require("torch", "diffusers")
    plain, light, four = (
        traced({"method": method, "size": 128, "gradient_checkpointing": light}).memory
        for method, light in (("lora", False), ("lora", True), ("qlora", True))
    )
    assert light["activations"] < 0.5 * plain["activations"]
    assert four["weights"] < 0.7 * light["weights"]


@pytest.mark.slow
def test_adapters_of_flux_are_as_many_as_published():
    """huggingface.co/blog/flux-qlora prints 4,669,440 trained of 11,906,077,760 at rank 4."""
    require("torch", "diffusers")
    import torch

    with torch.device("meta"):
        made = Model.read("hf:FLUX.1-dev").workload(Options(1, given={"method": "lora", "lora_rank": 4})).made_module()
    trained = sum(parameter.numel() for parameter in made.parameters() if parameter.requires_grad)
    assert (trained, weights(made)) == (4_669_440, 11_906_077_760)
    assert SDXL.blocks == 10
