"""What a script's text shows of several GPUs: whether they share its steps."""

import pytest

from whichdevice.models.script.several import ALL_BATCHES, GPU_COUNT, divides_steps

OF_GPUS = [
    ("num_steps = len(data) // (batch_size * world_size)", True),
    ("steps = total_steps // torch.cuda.device_count()", True),
    ("args.max_iters = math.ceil(args.samples / (64 * num_gpus))", True),
    ("steps = len(data) // batch_size", False),
    ("steps = len(data) // batch_per_gpu", False),
    ("lr = base / world_size", False),
    ("max_steps = 1000", False),
]


@pytest.mark.parametrize(("line", "divides"), OF_GPUS)
def test_more_gpus_make_fewer_steps_where_the_text_divides_them_by_their_number(line: str, divides: bool) -> None:
    assert divides_steps([line], GPU_COUNT) is divides


def test_where_one_batch_is_that_of_all_devices_its_size_divides_the_steps() -> None:
    assert divides_steps(["pass", "num_steps = images // batch_size * epochs"], ALL_BATCHES)
    assert not divides_steps(["num_steps = 10_000", "rate = lr / batch_size"], ALL_BATCHES)
