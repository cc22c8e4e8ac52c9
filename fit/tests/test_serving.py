"""Published servers, and the constants that the package has of them."""

import numpy as np
import pytest
from fit.scores import score
from fit.serving import FirstTokens, decode_rows, offsets, published_rows, tpu_rows, waits_for_host

from whichdevice.forecast.serving.server import read_constants


@pytest.fixture(scope="module")
def rows() -> list:  # type: ignore[type-arg]
    """All published servers."""
    return published_rows()


def test_more_than_three_thousand_rows(rows: list) -> None:  # type: ignore[type-arg]
    """Each has a model, a device and an engine that the package knows."""
    assert len(rows) + len(decode_rows()) > 3000
    assert {row.server.engine for row in rows} == {"vllm", "sglang", "trtllm"}


def test_the_constants_are_of_this_code(rows: list) -> None:  # type: ignore[type-arg]
    """The package forecasts a sample of the servers that its constants were fitted to, and llama.cpp's users."""
    servers = [row for row in rows if row.kind in ("server", "batch")][::20]
    users = [row for row in decode_rows() if row.kind == "decode"][::4]
    for some, most in ((servers, 0.15), (users, 0.15)):
        forecast = [
            sum(seconds * row.server.factors.get(name, 0.0) for name, seconds in row.parts.items()) for row in some
        ]
        assert score(np.log([row.seconds for row in some]) - np.log(forecast))["median_error"] < most


def test_servers_of_tpus_are_forecast_by_constants_of_their_own() -> None:
    """Those of the engines that are forecast; vLLM before its rewrite for TPUs was slower."""
    some = [row for row in tpu_rows() if not row.era and row.kind != "prefill"]
    forecast = [sum(seconds * row.server.factors[name] for name, seconds in row.parts.items()) for row in some]
    missed = np.log([row.seconds for row in some]) - np.log(forecast)
    assert len(some) > 60 and len({row.system for row in some}) == 3
    assert score(missed)["median_error"] < 0.15


def test_a_first_token_waits_for_the_tokens_that_are_sent_with_it_and_for_the_next_look() -> None:
    """A stream that sends fifty tokens together, of an engine that looks for requests after thirty iterations."""
    none, both = np.zeros((1, 3)), np.array([[50.0, 30.0, 0.0]])
    plain, late = (FirstTokens([], np.array([0.1]), np.array([0.1]), np.array([0.01]), more) for more in (none, both))
    logs = np.log([0.01, 1.0, 1.0, 0.1, 0.5, 0.02])
    assert np.exp(plain.forecast(logs))[0] == pytest.approx(0.12)
    assert np.exp(late.forecast(logs))[0] == pytest.approx(0.12 + (0.1 * 50 + 0.5 * 30) * 0.01)


def test_gpus_that_idle_wait_for_their_host(rows: list) -> None:  # type: ignore[type-arg]
    """Few rows draw far less power than at a smaller batch; none of those without a power do."""
    waits = waits_for_host(rows)
    assert 50 < waits.sum() < 200
    assert all(row.watts for row, wait in zip(rows, waits, strict=True) if wait)


def test_a_slow_chip_has_an_offset(rows: list) -> None:  # type: ignore[type-arg]
    """Where all servers of one chip take a tenth longer, its offset says so, shrunk towards none."""
    some = [row for row in rows if row.kind == "server"][::10]
    slow = np.array([np.log(1.1) if row.system == "H200 SXM" else 0.0 for row in some])
    known = offsets(some, slow)
    assert 0.03 < known.chips["H200 SXM"] < np.log(1.1)
    assert abs(known.chips["B200 SXM"]) < 0.03


def test_spreads_widen_with_what_is_unknown() -> None:
    """An unknown generation is at least as unsure as an unknown chip of a known one."""
    for engine in ("servers", "llama.cpp"):
        spread = read_constants()[engine]["sd"]
        assert spread["unseen generation"] >= spread["unseen chip"] > 0
        assert 0 < spread["rest"]["dense"] < 0.5
