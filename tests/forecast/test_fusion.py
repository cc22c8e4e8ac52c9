"""What torch.compile joins, on kernels written down by hand: each moves 100 bytes of every storage."""

import pytest

from whichdevice.forecast.torch.fusion import Fusion

MEMORY, PRODUCT = ("memory", "half", 0.0), ("product", "half", 1e6)


@pytest.mark.parametrize(
    ("kernels", "joined", "moved"),
    [
        ([(MEMORY, [1], [2]), (MEMORY, [2], [3])], 1, 200 + 100),  # 2 still lives at the end, so it is written
        ([(MEMORY, [1], [2]), (MEMORY, [2], [2])], 1, 200),  # in place
        ([(MEMORY, [1], [2]), (MEMORY, [2], [3]), "free 2"], 1, 200),
        ([(MEMORY, [1], [2]), (PRODUCT, [2], [3]), (MEMORY, [3], [4])], 2, 400),
        # a residual sum waits for the product, so it joins what is made of that and reads the old value once more
        ([(MEMORY, [1], [2]), (PRODUCT, [2], [3]), (MEMORY, [3], [3]), (MEMORY, [2, 3], [3])], 2, 200 + 300),
        ([(MEMORY, [1], [2]), (MEMORY, [3], [4]), (MEMORY, [2, 4], [5]), "free 2", "free 4"], 1, 300),
        ([(MEMORY, [1], [2]), "free 1", "free 2", (MEMORY, [3], [1])], 2, 100 + 200),  # 1 comes back as another storage
    ],
)
def test_kernels_without_products_are_joined(kernels, joined, moved):
    fusion = Fusion()
    for each in kernels:
        if isinstance(each, str):
            fusion.free(int(each.split()[1]))
        else:
            what, reads, writes = each
            fusion.put(*what, reads, writes, dict.fromkeys(reads + writes, 100.0))
    (memory,) = (item for item in fusion.items() if item.kind == "memory")
    assert (memory.count, memory.bytes * memory.count) == (joined, moved)
