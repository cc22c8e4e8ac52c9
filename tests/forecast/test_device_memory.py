"""The search for the largest batch."""

import numpy as np
import pytest

from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.work import Item, Work
from whichdevice.forecast.xla.device_memory import (
    MOST_COMPILES,
    OutOfDeviceMemoryError,
    largest_batch,
    passes_of,
)

GIBI = 2**30


def test_what_does_not_fit_is_told_with_both_sizes():
    said = str(OutOfDeviceMemoryError(20 * GIBI, 7.48 * GIBI))
    assert said == "needs 20.00 GiB of HBM on each device, 7.48 GiB are available: 12.52 GiB too much"


class Compiler:
    """Needs a constant, so much per example, and nothing per example below what fits on the chip."""

    def __init__(self, per_example: float, on_chip: int = 0, curve: float = 0.0, available: float = 8 * GIBI) -> None:
        self.asked: list[int] = []
        self._per_example, self._on_chip, self._curve = per_example, on_chip, curve
        self._available = available

    def need(self, batch: int) -> float:
        self.asked.append(batch)
        needed = self.of(batch)
        if needed > self._available:
            raise OutOfDeviceMemoryError(needed, self._available)
        return needed

    def of(self, batch: int) -> float:
        return GIBI + (self._per_example * batch * (1 + self._curve * batch) if batch > self._on_chip else 0)


def search(compiler: Compiler, batch: int = 1024):
    return largest_batch(compiler.need, batch, compiler.of(batch), 8 * GIBI, 8)


def test_a_linear_need_takes_two_compiles():
    compiler = Compiler(2**20)
    found = search(compiler)
    assert found.batch_size == 7 * 1024
    assert found.compiles == 2


def test_a_batch_that_fits_on_the_chip_misleads_nobody():
    compiler = Compiler(2**18, on_chip=2048)
    found = search(compiler)
    assert 0.9 * 28 * 1024 < found.batch_size <= 28 * 1024
    assert compiler.of(found.batch_size) <= 8 * GIBI


def test_a_need_that_bends_upwards_steps_back():
    compiler = Compiler(2**19, curve=2e-5)
    found = search(compiler)
    assert compiler.of(found.batch_size) <= 8 * GIBI < compiler.of(round(found.batch_size * 1.1))


def test_from_a_batch_that_does_not_fit():
    found = search(Compiler(2**20), batch=65536)
    assert found.batch_size == 7 * 1024


def test_a_larger_batch_that_needs_less_ends_no_search():
    """As a decoder on v5e: 16 needs less than 15, by how the compiler pads."""
    needed = {64: 50.05, 10: 12.0, 15: 14.9, 16: 14.8}
    compiler = Compiler(0.0, available=15.75 * GIBI)
    compiler.of = lambda batch: GIBI * needed.get(batch, 0.4 + 0.85 * batch)
    found = largest_batch(compiler.need, 64, compiler.of(64), 15.75 * GIBI, 1)
    assert compiler.asked[:3] == [10, 15, 16]
    assert found.batch_size >= 16 and compiler.of(found.batch_size) <= 15.75 * GIBI
    assert len(compiler.asked) == found.compiles <= MOST_COMPILES


@pytest.mark.parametrize("end", [900, 1000, 1250, 2000])
def test_a_need_that_hardly_grows_is_followed_until_a_batch_is_refused(end):
    """A compiler that recomputes rather than store: ResNet-50 on v5e takes 14.72 GiB for 720 images, 14.76 for 860."""
    compiler = Compiler(0.0, available=15.75 * GIBI)
    compiler.of = lambda batch: (
        GIBI
        * float(np.interp(batch, [64, 171, 468, 720, 860, end, 2 * end], [4.8, 8.2, 14.7, 14.72, 14.76, 14.8, 20.0]))
    )
    found = largest_batch(compiler.need, 64, compiler.of(64), 15.75 * GIBI, 1)
    assert found.batch_size > 860
    assert found.reason is None
    refused = min((batch for batch in compiler.asked if batch > found.batch_size), default=10**6)
    assert compiler.of(found.batch_size) >= 0.95 * 15.75 * GIBI or found.batch_size >= 0.95 * refused


def test_a_search_that_met_no_bound_says_so():
    compiler = Compiler(0.0)
    compiler.of = lambda batch: 4.0 * GIBI
    found = search(compiler)
    assert found.batch_size == max(compiler.asked)
    assert "a larger batch may fit" in found.reason and "50 %" in found.reason


def test_a_bound_far_from_what_fits_is_told():
    """Nothing but compiles leads to the bound, and they ran out."""
    compiler = Compiler(0.0)
    compiler.of = lambda batch: GIBI * (4.0 if batch < 20 * 1024 else 20.0)
    found = search(compiler)
    refused = min(batch for batch in compiler.asked if batch > found.batch_size)
    assert found.batch_size < 0.95 * refused
    assert found.reason == f"a larger batch may fit: {refused:,} refused after {MOST_COMPILES} compiles"


def test_only_batches_that_a_compile_confirmed_count():
    compiler = Compiler(2**26)
    found = search(compiler, batch=8)
    assert found.batch_size in [8, *compiler.asked]
    assert compiler.of(found.batch_size) <= 8 * GIBI


def test_batches_that_were_compiled_are_passes_with_the_time_of_an_example():
    asked = ProgramRequest(device="T4", workload="net", module="net", precision="float32", batch_size=32, devices=2)
    target = find_target("T4", 2)
    compiled = {
        size: (size * 1e6, Work("gpu", (Item("product", "float32", size * 1e9, 1e6, 100),))) for size in (32, 64)
    }
    passes = passes_of(asked, target, compiled)
    assert passes["pass_batch"] == 16 and [one.batch for one in passes["passes"]] == [16, 32]
    first, second = (one.time for one in passes["passes"])
    assert first == 1 and 0.9 < second < 1  # launches are shared by more examples
    assert passes_of(asked, target, {64: compiled[64]}) == {}
