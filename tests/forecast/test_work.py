"""The work of a step at another batch, and on images in another layout."""

from whichdevice.forecast.work import Item, Work


def test_another_batch_has_as_many_kernels_each_of_so_many_times_the_work() -> None:
    work = Work("gpu", (Item("product", "half", 100.0, 10.0, 3), Item("memory", "", 0.0, 8.0, 5)))
    larger = work.scaled(4.0)
    assert (larger.operations, larger.bytes, larger.kernels) == (4 * work.operations, 4 * work.bytes, work.kernels)


def test_the_other_layout_of_images_moves_their_kernels_alone() -> None:
    work = Work("gpu", (Item("convolution", "half", 100.0, 10.0, 3), Item("product", "half", 1.0, 1.0, 1)))
    last = work.in_other_layout()
    assert [item.kind for item in last.items] == ["channels-last convolution", "product"]
    assert last.in_other_layout() == work and last.has_channels_last and not work.has_channels_last
