"""Published servers, and the constants that the package has of them."""

from functools import cache

import numpy as np
import pytest
from fit.scores import score
from fit.serving import decode_rows, published_rows, tpu_rows, waits_for_host

published = cache(published_rows)


def test_more_than_three_thousand_rows() -> None:
    """Each has a model, a device and an engine that the package knows."""
    assert len(published()) + len(decode_rows()) > 3000
    assert {row.server.engine for row in published()} == {"vllm", "sglang", "trtllm"}


@pytest.mark.parametrize(("read", "least"), [(published, 500), (decode_rows, 200), (tpu_rows, 60)])
def test_the_constants_are_of_this_code(read, least) -> None:  # type: ignore[no-untyped-def]
    """The package forecasts the servers that its constants were fitted to; on TPUs vLLM is that of its rewrite."""
    some = [row for row in read() if row.kind in ("server", "batch", "decode") and "TPU" not in row.era]
    forecast = [sum(seconds * row.server.factors.get(name, 0.0) for name, seconds in row.parts.items()) for row in some]
    assert len(some) > least
    assert score(np.log([row.seconds for row in some]) - np.log(forecast))["median_error"] < 0.15


def test_gpus_that_idle_wait_for_their_host() -> None:
    """Few rows draw far less power than at a smaller batch; none of those without a power do."""
    waits = waits_for_host(published())
    assert 50 < waits.sum() < 200
    assert all(row.watts for row, wait in zip(published(), waits, strict=True) if wait)
