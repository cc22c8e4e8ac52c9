"""What fits: timm's training table of an RTX 3090 names the largest batch of LADDER that ran; the next one did not."""

from needs import require

require("torch")

from fit.fitting import TRACES, read_gzip

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.torch.memory import RESERVE, ends, need
from whichdevice.forecast.torch.trace import Trace
from whichdevice.forecast.work import Work

LADDER = (512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
TABLE = "train-amp-nchw-pt112-cu113-rtx3090"


def cases():
    """Traced memory of each batch, and whether it ran; what grows with the batch is scaled from the traced one."""
    document = read_gzip(TRACES)
    for _, table, number, _, _, batch, *_ in document["rows"]:
        if table == TABLE:
            traced, (weights, optimizer, _, peak) = document["questions"][number][5], document["questions"][number][7]
            larger = LADDER[LADDER.index(batch) - 1] if batch < LADDER[0] else None
            for size in filter(None, (batch, larger)):
                lasting = weights + optimizer
                memory = {"weights": weights, "optimizer": optimizer}
                memory["peak"] = lasting + (peak - lasting) * size / traced
                yield Trace(Work("gpu", ()), Work("gpu", ()), memory, 0, 0), size == batch


def test_batches_that_ran_fit_and_the_next_larger_ones_do_not():
    available = hardware_rows()["RTX 3090"].mem_bytes - RESERVE
    found = [(need(trace), ran) for trace, ran in cases()]
    sure = [(needed, ran) for needed, ran in found if not ends(needed)[0] <= available < ends(needed)[1]]
    decided = [(needed <= available) == ran for needed, ran in sure]
    assert len(found) > 450
    assert sum(decided) / len(decided) >= 0.96
    assert 1 - len(decided) / len(found) <= 0.10
