"""The work of small programs whose answer is known: recorded texts of the compiler, see small_programs.py."""

import itertools
import json

import pytest
from forecast.small_programs import MEBI, text

from whichdevice.base.errors import StudyError
from whichdevice.forecast.work import Work
from whichdevice.forecast.xla.hlo_operations import Window, _places, read_work

CONVOLUTION = 2 * 8 * 64 * 128  # operations for one pair of kernel and output place: 8 images, 64 to 128 channels
PLACES = 94  # such pairs along one axis of 32 with a kernel of 3 and padding 1
STRIDED = 47  # with a stride of 2


def work(name: str) -> Work:
    return read_work(text(name), "gpu")


def kinds(found: Work) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Operations, bytes and kernels by kind and precision."""
    sums: dict[tuple[str, str], tuple[float, float, float]] = {}
    for item in found.items:
        more = item.operations * item.count, item.bytes * item.count, item.count
        before = sums.get((item.kind, item.precision), (0.0, 0.0, 0.0))
        sums[item.kind, item.precision] = tuple(a + b for a, b in zip(before, more, strict=True))
    return sums


@pytest.mark.parametrize(
    ("name", "precision", "size", "parts"),  # the third is split: four sums in float32, which a second kernel adds
    [("product-V100", "float32", 4, 1), ("product-A100", "tf32", 4, 1), ("product_half-H100", "half", 2, 4)],
)
def test_a_product_of_a_gpu_counts_its_operands_and_result_and_no_workspace(name, precision, size, parts):
    operations, nbytes, kernels = kinds(work(name))["product", precision]
    assert operations == 2 * 1024 * 512 * 256
    assert nbytes == (1024 * 512 + 512 * 256) * size + parts * 1024 * 256 * 4
    assert kernels == 1


def test_a_convolution_counts_no_places_on_its_padding():
    found = kinds(work("convolution-V100"))
    assert found["convolution", "tf32"][0] == CONVOLUTION * PLACES**2


def test_gradients_of_a_convolution_are_as_much_work_as_the_convolution():
    (operations, _, kernels) = kinds(work("convolution_gradients-A100"))["convolution", "half"]
    assert kernels == 3
    assert operations == 3 * CONVOLUTION * STRIDED**2


def test_depthwise_convolutions_are_a_kind_of_their_own():
    found = work("depthwise-A100")
    assert found.grouped
    assert kinds(found)["grouped convolution", "half"][0] == 2 * 8 * 64 * PLACES**2
    assert kinds(work("depthwise_gradients-T4"))["grouped convolution", "half"][2] == 3


def test_a_gather_counts_the_rows_that_it_reads_and_not_the_table():
    rows, index = 4096 * 512 * 4, 4096 * 4
    assert kinds(work("gather-H100"))["gather and scatter", ""] == (0, 2 * rows + index, 1)


def test_an_update_in_place_counts_the_update():
    assert work("update-H100").bytes == pytest.approx(2 * 4096 * 4, rel=0.01)


def test_a_loop_counts_its_body_as_often_as_it_runs():
    found = work("loop-A100")
    assert kinds(found)["product", "half"][::2] == (7 * 2 * 512**3, 7)
    assert found.unknown_loops == 0


def test_nested_loops_multiply():
    assert kinds(work("nested_loops-A100"))["product", "half"][::2] == (7 * 5 * 2 * 512**3, 35)


def test_a_reversed_scan_moves_slices_and_not_the_stack_in_each_step():
    step = 5 * 4 * MEBI  # a slice read and written; the carry read twice and written
    assert work("reversed_scan-A100").bytes == pytest.approx(64 * step + 256 * MEBI + 2 * 4 * MEBI, rel=1e-3)


def test_a_loop_of_unknown_length_counts_once():
    found = work("unknown_loop-A100")
    assert found.unknown_loops == 1
    assert found.operations == 2 * 1024**3


def test_of_two_branches_the_longer_counts():
    assert work("conditional-A100").operations == 3 * 2 * 1024**3


def test_an_all_reduce_has_its_bytes_and_its_devices():
    (found,) = (item for item in work("all_reduce-A100").items if item.kind == "collective")
    assert (found.bytes, found.devices, found.count) == (1024 * 1024 * 4, 2, 1)


def test_a_batched_product_counts_no_place_between_its_matrices():
    assert work("batched_matmul-A100").operations == 16 * 2 * 512 * 256 * 128


def test_a_digest_is_json_and_reads_back_as_the_same_work():
    found = work("depthwise_gradients-T4")
    assert Work.from_dict(json.loads(json.dumps(found.digest()))) == found
    with pytest.raises(StudyError, match="digest"):
        Work.from_dict({"platform": "gpu"})


def test_layers_are_added_to_the_work_of_two():
    one, two = work("product_half-H100"), work("loop-A100")
    assert one.deepened(two, 1).operations == one.operations
    assert one.deepened(two, 2).kernels == two.kernels
    assert one.deepened(two, 5).bytes == pytest.approx(one.bytes + 4 * (two.bytes - one.bytes))


@pytest.mark.parametrize("size", [1, 2, 7, 10])
@pytest.mark.parametrize("out", [1, 5, 12])
@pytest.mark.parametrize("kernel", [1, 3, 8])
def test_places_are_counted_as_one_by_one(size, out, kernel):
    for stride, low, dilate, spread in itertools.product((1, 2, 3), (-1, 0, 2), (1, 2, 4), (1, 3)):
        window = Window(kernel, stride, low, dilate, spread)
        assert _places(size, out, window) == counted(size, out, window), window


def counted(size: int, out: int, window: Window) -> int:
    """Every pair of output and kernel element that meets a true input element."""
    met = 0
    for place, element in itertools.product(range(out), range(window.size)):
        position = place * window.stride + element * window.spread - window.low
        met += position % window.dilate == 0 and 0 <= position // window.dilate < size
    return met
