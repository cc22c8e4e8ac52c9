"""The work of one image or video, traced on the parts of a model's configuration."""

from collections.abc import Mapping

import pytest

from whichdevice.models.diffusion import DIFFUSION, Diffusion, Kernels, generator

FLUX, SDXL = "hf:black-forest-labs/FLUX.1-dev", "hf:stabilityai/stable-diffusion-xl-base-1.0"


def model(name: str) -> Diffusion:
    """A model that is known."""
    found = generator(name)
    assert found is not None
    return found


def operations(kernels: Mapping[str, Kernels], kind: str = "") -> float:
    """Operations of all kernels, or of those of a kind."""
    return sum(one.operations for name, one in kernels.items() if name.startswith(kind))


def attention(kernels: Mapping[str, Kernels]) -> float:
    """Operations of attention."""
    return operations(kernels, "attention")


@pytest.mark.parametrize(("name", "products"), [(FLUX, 59.52e12), (SDXL, 5.98e12)])
def test_products_of_a_pass_are_those_that_others_counted(name: str, products: float) -> None:
    """Of one image of 1024 by 1024: the benchmarks of diffusers on huggingface.co state them, without attention."""
    one = model(name)
    call = one.work(height=1024, width=1024).call
    assert (operations(call) - attention(call)) / one.together == pytest.approx(products, rel=0.02)


# Self-attention of a call, counted by hand: 4 × layers × width × (tokens of image and words)².
BY_HAND = {
    "FLUX.1-dev": 4 * 57 * 3072 * (4096 + 512) ** 2,
    "HunyuanVideo": 4 * 60 * 3072 * (33 * 45 * 80 + 256) ** 2,
    "CogVideoX-2b": 2 * 4 * 30 * 1920 * (13 * 30 * 45 + 226) ** 2,
    "stable-diffusion-3.5-large": 2 * 4 * 38 * 2432 * (4096 + 333) ** 2,
    "Wan2.1-T2V-14B": 4 * 40 * 5120 * (21 * 30 * 52) * (21 * 30 * 52 + 512),  # words are looked at apart
}


@pytest.mark.parametrize("name", BY_HAND)
def test_attention_is_that_of_the_sizes(name: str) -> None:
    """Tokens look at each other, in videos at those of all frames."""
    assert attention(model(name).work().call) == pytest.approx(BY_HAND[name], rel=0.02)


@pytest.mark.parametrize("one", DIFFUSION.values(), ids=lambda one: one.name.rpartition("/")[2])
def test_every_model_is_traced_and_has_weights_by_part(one: Diffusion) -> None:
    """At half of the size attention has between a quarter and a half of the work, the rest a half and constants."""
    whole, half = one.work(), one.work(height=one.height // 2)
    assert whole.calls == half.calls == one.calls * one.steps
    share = attention(half.call) / attention(whole.call)
    assert 0.24 < share < 0.51
    assert 0.4 < operations(half.decode) / operations(whole.decode) < 0.51
    assert min(one.parameters.values()) > 5e7
    assert 0.3e9 < one.values_bytes(one.height, one.width) < 60e9


def test_work_grows_with_steps_and_images() -> None:
    """Twice the steps are twice the calls; images of a batch share what a call does once."""
    one = model(FLUX)
    whole, twice, two = one.work(), one.work(steps=2 * one.steps), one.work(images=2)
    assert twice.calls == 2 * whole.calls and twice.call == whole.call
    assert [kind.kernels for kind in two.call.values()] == [kind.kernels for kind in whole.call.values()]
    assert operations(two.call) == pytest.approx(2 * operations(whole.call))
    read = [sum(kind.nbytes for kind in work.call.values()) for work in (whole, two)]
    assert read[1] == pytest.approx(2 * read[0] - 2 * one.denoiser.parameters)  # its weights are read once


def test_guidance_takes_a_second_pass_unless_the_model_was_distilled() -> None:
    """SDXL looks at the picture with the words and without, Wan one after the other; FLUX has guidance as an input."""
    assert [(model(name).calls, model(name).together) for name in (SDXL, "Wan2.1-T2V-14B", FLUX)] == [
        (1, 2), (2, 1), (1, 1),
    ]  # fmt: skip


def test_a_name_needs_neither_its_organisation_nor_its_ending() -> None:
    """Wan's models are published in two forms; a model that writes text is none of these."""
    video = model("Wan2.1-T2V-14B")
    assert video.makes == "video" and video.tokens(480, 832) == 21 * 30 * 52
    assert generator("hf:meta-llama/Llama-3.1-8B") is None
    assert model("Wan2.2-T2V-A14B").parameters["denoiser"] == 2 * video.parameters["denoiser"]


@pytest.mark.needs("torch", "diffusers")
@pytest.mark.slow
@pytest.mark.parametrize("one", DIFFUSION.values(), ids=lambda one: one.name.rpartition("/")[2])
def test_a_part_has_as_many_weights_as_its_configuration_makes(one: Diffusion) -> None:
    """By diffusers and transformers."""
    import torch

    for part in (one.denoiser, *one.encoders, one.autoencoder):
        with torch.device("meta"):
            made = part.made()
        assert sum(weight.numel() for weight in made.parameters()) == pytest.approx(part.parameters, rel=2e-3)
