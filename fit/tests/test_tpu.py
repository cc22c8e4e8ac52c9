"""Memory of a TPU, by libtpu's own programs."""

import gzip
import json

import pytest
from fit.tpu import PROGRAMS

from whichdevice.forecast import tpu
from whichdevice.forecast.work import Work


@pytest.mark.parametrize(("least", "share"), [(1e9, 0.95), (0.0, 0.9)])
def test_what_is_not_tight_is_on_the_right_side_of_any_memory_by_the_compilers_own_programs(least, share):
    """40 programs of libtpu for v5e and v6e, beside memories from a quarter to four times of what they need."""
    right = []
    for known in json.loads(gzip.decompress(PROGRAMS.read_bytes())):
        gpu, work = known["memory"], tpu.of_program(Work.from_dict(known["gpu"]))
        lasting = gpu["arguments"] + gpu["outputs"] - gpu["aliased"]
        estimate = tpu.memory_needed(work, lasting, gpu["temporary"])
        for program in known["tpu"].values():
            needed = program["memory"]["total"]
            memories = [needed * 4 ** (step / 10) for step in range(-10, 11) if needed >= least]
            low, high = tpu.ends(estimate)
            right += [(estimate <= one) == (needed <= one) for one in memories if not low <= one < high]
    assert len(right) >= 300 and sum(right) >= share * len(right)
