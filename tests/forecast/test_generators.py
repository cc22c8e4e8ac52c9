"""Seconds of images and videos on a GPU, and what is in its memory."""

import numpy as np
import pytest
from models.test_generators import model

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.serving.generators import Generating, capacity


def test_memory_is_by_part_and_flux_needs_more_than_24_gb() -> None:
    """The denoiser, what reads the words, the decoder and the values that are alive."""
    sheet, flux = hardware_rows(), model("FLUX.1-dev")
    one = Generating(flux, sheet["RTX 4090"])
    assert list(one.memory()) == ["denoiser", "words", "decoder", "values"]
    assert one.memory()["denoiser"] == pytest.approx(23.8e9, rel=0.01)
    assert not one.fits and Generating(flux, sheet["L40S"]).fits
    assert Generating(model("stable-diffusion-xl-base-1.0"), sheet["RTX 4090"]).fits


def test_a_chip_without_published_times_has_a_wider_range() -> None:
    """Draws are the same each time, and a chip of its own adds to the spread of the model."""
    sheet, flux = hardware_rows(), model("FLUX.1-dev")
    known, new = (np.log(Generating(flux, sheet[name]).slowness(400)) for name in ("H100 SXM", "L40S"))
    assert 0 < known.std() < new.std() < 0.6
    assert (known == np.log(Generating(flux, sheet["H100 SXM"]).slowness(400))).all()


@pytest.mark.parametrize("name", ["MI300X", "GTX 1080 Ti"])
def test_only_chips_with_fast_products_of_16_bits_by_nvidia_run_them(name: str) -> None:
    """Nobody's times of others are known here."""
    assert not Generating(model("FLUX.1-dev"), hardware_rows()[name]).runs


def test_more_are_in_time_where_more_time_is_given_and_never_more_than_one_after_the_other() -> None:
    """Of one that takes ten seconds; none is in time in nine, and twice as slow is half the rate at twice the time."""
    most = [float(capacity(10.0, within, np.ones(1))[0]) for within in (9.0, 15.0, 50.0, 10_000.0)]
    assert most[0] == 0.0 < most[1] < most[2] < most[3] <= 0.1
    assert capacity(10.0, 100.0, np.array([2.0])) == pytest.approx(most[2] / 2)
