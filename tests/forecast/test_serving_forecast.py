"""The forecast of a server under a load: what holds, how sure that is, and what is known of it."""

from dataclasses import replace

import numpy as np
import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.serving.forecast import (
    LIKE_OTHERS,
    TESTED,
    UNTESTED,
    Load,
    ServingForecast,
    serve_all,
    slowness,
)
from whichdevice.forecast.serving.server import Server
from whichdevice.models.served import WEIGHT_FORMATS, served_model

ROWS = hardware_rows()
FP8 = WEIGHT_FORMATS["fp8"]
LLAMA = served_model("meta-llama/Llama-3.1-8B")


LOAD = Load(rps=5.0, prompt=1000.0, answer=300.0, ttft=1.0, tpot=0.05)


def forecast(device: str, count: int = 1, load: Load = LOAD) -> ServingForecast:
    """Return the forecast of a server of Llama 3.1 8B in FP8."""
    [one] = serve_all([Server(LLAMA, ROWS[device], count, FP8)], load)
    return one


def rates(found: ServingForecast) -> list[float]:
    """Return the largest requests a second in time that nine, five and one in ten draws reach."""
    return [float(rate) for rate in np.quantile(found.capacity, (0.1, 0.5, 0.9))]


def test_a_faster_gpu_answers_more_in_time() -> None:
    """Rates and single users' tokens order devices as their memory and products do."""
    slow, middle, fast = (forecast(device) for device in ("L4", "L40S", "H100 SXM"))
    assert rates(slow) < rates(middle) < rates(fast)
    assert slow.one_user < middle.one_user < fast.one_user
    assert min(fast.capacity) > 5


def test_a_stricter_target_allows_fewer_requests() -> None:
    """The largest rate falls with a target, to nothing where one user alone takes longer."""
    wide, narrow = (forecast("L40S", load=replace(LOAD, tpot=tpot)) for tpot in (0.05, 0.02))
    assert rates(narrow) < rates(wide)
    assert max(forecast("L40S", load=replace(LOAD, tpot=0.001)).capacity) == 0


def test_beyond_full_load_times_are_infinite() -> None:
    """Requests that come faster than they are answered wait for ever; below, the queue is short."""
    found = forecast("L40S", load=replace(LOAD, rps=1000))
    assert found.ttft == found.tpot == float("inf")
    assert forecast("L40S", load=replace(LOAD, rps=0.5)).ttft < 1


def test_what_does_not_fit_has_no_rate() -> None:
    """70 billion weights in 16 bits on one L40S: no room, and the memory says why."""
    [found] = serve_all([Server(served_model("meta-llama/Llama-3.1-70B"), ROWS["L40S"])], LOAD)
    assert not found.fits
    assert found.memory["cache"] < 0
    assert not found.capacity


def test_without_a_rate_one_user_is_asked_about() -> None:
    """The times are those of a user alone."""
    found = forecast("H100 SXM", load=replace(LOAD, rps=None))
    assert found.tpot == pytest.approx(1 / found.one_user[1], rel=0.1)
    assert found.ttft == pytest.approx(found.first_token, rel=0.3)


def test_the_answer_says_what_it_is_known_by() -> None:
    """Published servers on this chip, on others of its generation, or none: the interval is wider each time."""
    widths = []
    for device, source in (("H100 SXM", TESTED), ("H100 PCIe", LIKE_OTHERS), ("L40S", UNTESTED)):
        found = forecast(device)
        assert found.source == source
        widths.append(found.one_user[2] / found.one_user[0])
    assert widths == sorted(widths)


def test_an_unknown_model_is_less_sure() -> None:
    """Sizes that no published server has widen the draws of all devices together."""
    known = Server(LLAMA, ROWS["H100 SXM"], 1, FP8)
    unknown = replace(known, model=replace(LLAMA, layers=33))
    assert slowness(unknown).std() > slowness(known).std()
