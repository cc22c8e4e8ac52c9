"""The queue of a server: simulated requests meet what queueing theory says of them."""

import numpy as np
import pytest

from whichdevice.forecast.serving.queue import SIZES, Engines, Requests, simulate

STEP = 0.01  # seconds of an iteration, whatever its batch


def engines(limit: float = 32, rows: int = 1, reading: float = 0.0) -> Engines:
    """Return a server whose iteration takes STEP, and `reading` seconds more for a thousand tokens of prompts."""
    flat = np.full((rows, len(SIZES)), STEP)
    prefill = np.tile(reading * SIZES / 1000, (rows, 1))
    none = np.zeros(rows)
    first = np.tile([0.0, 1.0, 0.0], (rows, 1))
    return Engines(flat, prefill, none, none, np.full(rows, float(limit)), np.full(rows, 8192.0), first)


def test_a_user_alone_waits_for_nobody() -> None:
    """At a small rate a first token takes one iteration and the reading, each further one an iteration."""
    requests = Requests.drawn(100, 1000, 50)
    times = simulate(engines(reading=0.2), np.array([0.01]), requests)
    assert times.ttft[0] == pytest.approx(STEP + 0.2, rel=0.01)
    assert times.tpot[0] == pytest.approx(STEP, rel=0.01)


def test_full_load_is_what_the_rate_says() -> None:
    """With no reading, so many requests at once end each as many iterations as an answer has tokens."""
    requests = Requests.drawn(300, 10, 100)
    full = engines(limit=16).full_rate(requests)
    assert full[0] == pytest.approx(16 / (100 * STEP), rel=0.01)
    times = simulate(engines(limit=16), 2 * full, requests)
    assert times.first[0, -1] == pytest.approx(300 / full[0] - 300 / (2 * full[0]), rel=0.1)


def test_in_flight_follows_littles_law() -> None:
    """Requests in flight are the rate times the time of an answer."""
    requests = Requests.drawn(400, 10, 100)
    assert engines().in_flight(requests, np.array([8.0]))[0] == pytest.approx(8, rel=0.01)


def test_a_longer_queue_waits_longer() -> None:
    """Times to the first token grow with the rate; a prompt that is read delays the answers in flight."""
    requests = Requests.drawn(200, 1000, 50)
    rows = engines(rows=4, limit=8, reading=0.02)
    times = simulate(rows, rows.full_rate(requests) * [0.1, 0.5, 0.8, 1.2], requests)
    assert np.all(np.diff(times.ttft) > 0)
    assert np.all(np.diff(np.nanmedian(times.next, axis=1)) > 0)


def test_rows_are_simulated_apart() -> None:
    """A row's times do not depend on the rows beside it."""
    requests = Requests.drawn(150, 500, 60)
    rates = np.array([1.0, 5.0, 20.0])
    together = simulate(engines(rows=3, reading=0.05), rates, requests)
    alone = simulate(engines(reading=0.05), rates[1:2], requests)
    assert together.ttft[1] == pytest.approx(alone.ttft[0])
    assert together.tpot[1] == pytest.approx(alone.tpot[0])


def test_so_many_under_way() -> None:
    """Where the next request comes when one ends, half of six wait for a place among three: for a whole answer."""
    times = simulate(engines(limit=3), np.ones(1), Requests.drawn(200, 10, 40), np.array([6.0]))
    assert times.first[0, 6:] == pytest.approx((40 + 1) * STEP)


def test_draws_are_the_same_each_time() -> None:
    """A fixed seed makes the same requests, with one a second on average."""
    one, two = Requests.drawn(500, 10, 10), Requests.drawn(500, 10, 10)
    assert np.array_equal(one.arrivals, two.arrivals)
    assert one.arrivals[-1] == pytest.approx(500, rel=0.03)


@pytest.mark.filterwarnings("error")
def test_answers_of_one_token_have_the_time_of_an_iteration() -> None:
    """No token follows their first one."""
    times = simulate(engines(), np.array([0.5]), Requests.drawn(60, 50, 1))
    assert times.tpot[0] == pytest.approx(STEP)
