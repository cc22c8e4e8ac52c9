"""The work of one image or video, counted from a model's configuration."""

import pytest

from whichdevice.models.generators import generator

FLUX, SDXL = "hf:black-forest-labs/FLUX.1-dev", "hf:stabilityai/stable-diffusion-xl-base-1.0"


@pytest.mark.parametrize(("name", "products"), [(FLUX, 59.52e12), (SDXL, 5.98e12)])
def test_products_of_a_pass_are_those_that_others_counted(name: str, products: float) -> None:
    """Of one image of 1024 by 1024: the benchmarks of diffusers on huggingface.co state them, without attention."""
    model = generator(name)
    assert model is not None
    work = model.work(steps=1, height=1024, width=1024)
    assert work.products / work.passes == pytest.approx(products, rel=0.01)


def test_work_grows_with_steps_and_size() -> None:
    """Twice the steps are twice the passes; an image of half the side has a quarter of the tokens."""
    model = generator(FLUX)
    assert model is not None
    whole, twice, small = model.work(), model.work(steps=2 * model.steps), model.work(height=512, width=512)
    assert twice.products == 2 * whole.products and twice.decode == whole.decode
    assert small.decode == whole.decode / 4
    assert whole.products / small.products == pytest.approx(3) and whole.attention / small.attention == pytest.approx(9)


def test_guidance_takes_a_second_pass_unless_the_model_was_distilled() -> None:
    """SDXL looks at the picture with the words and without; FLUX has the strength of guidance as an input."""
    models = [generator(name) for name in (SDXL, FLUX)]
    assert [model.work(steps=10).passes for model in models if model] == [20, 10]


def test_a_name_needs_neither_its_organisation_nor_its_ending() -> None:
    """Wan's models are published in two forms; a model that writes text is none of these."""
    video = generator("Wan2.1-T2V-14B")
    assert video is not None and video.makes == "video" and video.tokens(480, 832) == 21 * 30 * 52
    assert video.parameters["denoiser"] == pytest.approx(14.3e9, rel=0.01)
    assert generator("hf:meta-llama/Llama-3.1-8B") is None
