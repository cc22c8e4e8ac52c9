"""The forecast of a server under a load: what holds, how sure that is, and what is known of it."""

from dataclasses import dataclass, replace

import pytest

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.serving.forecast import (
    LIKE_OTHERS,
    TESTED,
    UNTESTED,
    ServingForecast,
    engine_for,
    serve,
    serve_all,
    slowness,
)
from whichdevice.forecast.serving.server import Server
from whichdevice.models.served import WEIGHT_FORMATS, served_model

ROWS = hardware_rows()
FP8 = WEIGHT_FORMATS["fp8"]
LLAMA = served_model("meta-llama/Llama-3.1-8B")


@dataclass(frozen=True)
class Load:
    """Five requests a second of a usual length."""

    rps: float | None = 5.0
    prompt: float = 1000.0
    answer: float = 300.0
    ttft: float = 1.0
    tpot: float = 0.05


def forecast(device: str, count: int = 1, load: Load | None = None) -> ServingForecast:
    """Return the forecast of a server of Llama 3.1 8B in FP8."""
    return serve(LLAMA, ROWS[device], count, FP8, 16, load or Load())


def test_a_faster_gpu_answers_more_in_time() -> None:
    """Rates, certainty and single users' tokens order devices as their memory and products do."""
    slow, middle, fast = (forecast(device) for device in ("L4", "L40S", "H100 SXM"))
    assert slow.rps.middle < middle.rps.middle < fast.rps.middle
    assert slow.one_user.middle < middle.one_user.middle < fast.one_user.middle
    assert slow.certainty(5) <= middle.certainty(5) <= fast.certainty(5)
    assert fast.certainty(5) == 1


def test_a_stricter_target_allows_fewer_requests() -> None:
    """The largest rate falls with a target, to nothing where one user alone takes longer."""
    wide, narrow = forecast("L40S", load=Load(tpot=0.05)), forecast("L40S", load=Load(tpot=0.02))
    assert narrow.rps.middle < wide.rps.middle <= wide.full.middle
    assert max(forecast("L40S", load=Load(tpot=0.001)).capacity) == 0


def test_certainty_is_the_share_of_draws_that_hold() -> None:
    """It falls as the load grows, and is a half at the median of the largest rate."""
    found = forecast("L40S")
    assert found.certainty(found.rps.low) == pytest.approx(0.9, abs=0.02)
    assert found.certainty(found.rps.middle) == pytest.approx(0.5, abs=0.02)
    assert found.certainty(found.rps.high) == pytest.approx(0.1, abs=0.02)


def test_beyond_full_load_times_are_infinite() -> None:
    """Requests that come faster than they are answered wait for ever; below, the queue is short."""
    found = forecast("L40S", load=Load(rps=1000))
    assert found.ttft == found.tpot == float("inf")
    assert forecast("L40S", load=Load(rps=0.5)).ttft < 1


def test_what_does_not_fit_has_no_rate() -> None:
    """70 billion weights in 16 bits on one L40S: no room, and the memory says why."""
    found = serve(served_model("meta-llama/Llama-3.1-70B"), ROWS["L40S"], 1, WEIGHT_FORMATS["bf16"], 16, Load())
    assert not found.fits
    assert found.memory["cache"] < 0
    assert found.certainty(1) == 0
    assert found.max_context == 0


def test_many_are_forecast_as_one_is() -> None:
    """A server's forecast does not depend on those that are asked about with it."""
    servers = [Server(LLAMA, ROWS[device], count, FP8) for device in ("L4", "H100 SXM") for count in (1, 2)]
    together = serve_all(servers, Load())[2]
    alone = serve_all(servers[2:3], Load())[0]
    assert together.rps == alone.rps
    assert together.times == alone.times


def test_without_a_rate_one_user_is_asked_about() -> None:
    """The times are those of a user alone."""
    found = forecast("H100 SXM", load=Load(rps=None))
    assert found.tpot == pytest.approx(1 / found.one_user.middle, rel=0.1)
    assert found.ttft == pytest.approx(found.first_token, rel=0.3)


def test_the_answer_says_what_it_is_known_by() -> None:
    """Published servers on this chip, on others of its generation, or none: the interval is wider each time."""
    widths = []
    for device, source in (("H100 SXM", TESTED), ("H100 PCIe", LIKE_OTHERS), ("L40S", UNTESTED)):
        found = forecast(device)
        assert found.source == source
        widths.append(found.one_user.high / found.one_user.low)
    assert widths == sorted(widths)


def test_an_unknown_model_is_less_sure() -> None:
    """Sizes that no published server has widen the draws of all devices together."""
    known = Server(LLAMA, ROWS["H100 SXM"], 1, FP8)
    unknown = replace(known, model=replace(LLAMA, layers=33))
    assert slowness(unknown).std() > slowness(known).std()


def test_llama_cpp_is_taken_for_its_own_formats_and_computers() -> None:
    """Other GPUs are asked about with vLLM."""
    assert engine_for(ROWS["RTX 4090"], WEIGHT_FORMATS["q4_k_m"]) == "llama.cpp"
    assert engine_for(ROWS["Apple M4 Max"], WEIGHT_FORMATS["bf16"]) == "llama.cpp"
    assert engine_for(ROWS["L40S"], FP8) == "vllm"


@dataclass(frozen=True)
class Log:
    """Requests of a log: bursts of ten, with pauses between them."""

    arrivals: tuple[float, ...] = tuple(burst * 100.0 + place * 0.01 for burst in range(20) for place in range(10))
    prompts: tuple[int, ...] = (1000,) * 200
    answers: tuple[int, ...] = (300,) * 200


def test_bursts_of_a_log_wait_longer_than_chance() -> None:
    """The same mean rate in bursts makes a longer time to the first token."""
    load = Load(rps=0.1)
    plain = serve(LLAMA, ROWS["L4"], 1, FP8, 16, load)
    bursts = serve(LLAMA, ROWS["L4"], 1, FP8, 16, load, log=Log())
    assert bursts.ttft > 1.5 * plain.ttft
