"""Joules of a run and of its parts, reasons where there are none."""

import math
import threading
from collections.abc import Callable, Iterator

import pytest

from whichdevice.machine import energy
from whichdevice.machine.energy import Counters, MeterError
from whichdevice.records.schema import Energy


class Counter:
    """A counter that a test turns by hand."""

    def __init__(self, joules: float, full: float = math.inf) -> None:
        self.joules, self.full, self.broken = joules, full, False

    def found(self) -> Counters:
        return Counters("a counter", self._read, [self.full], 0.001)

    def _read(self) -> list[float]:
        if self.broken:
            raise MeterError("it is gone")
        return [self.joules]


def meter_of(**counters: Counter) -> energy.EnergyMeter:
    finders = {name: counter.found for name, counter in counters.items()}
    return energy.EnergyMeter("cpu", find=lambda kind, replicas: finders)


def test_a_counter_that_wraps_goes_on() -> None:
    counter = Counter(900, full=1000)
    meter = meter_of(device=counter)
    meter.start()
    for counter.joules in (100, 800, 200):
        meter.sample()
    assert meter.stop().joules == pytest.approx(200 + 700 + 400)


def test_start_begins_at_zero() -> None:
    counter = Counter(100)
    meter = meter_of(device=counter)
    meter.start()
    counter.joules = 300
    meter.enter("steady")
    meter.start()
    counter.joules = 310
    found = meter.stop()
    assert (found.joules, found.parts) == (pytest.approx(10), {})


def test_parts_get_their_own_joules_and_the_whole_run_all_of_them() -> None:
    counter = Counter(0)
    meter = meter_of(device=counter)
    meter.start()
    for part, joules in ((None, 5), ("steady", 100), (None, 7), ("epoch 1", 40), (None, 1), ("steady", 3)):
        meter.enter(part)
        counter.joules += joules
    found = meter.stop()
    assert found.joules == 156
    assert {name: part.joules for name, part in found.parts.items()} == {"steady": 103, "epoch 1": 40}


def test_windows_add_up_to_the_steady_state_once_that_is_known() -> None:
    counter = Counter(0)
    meter = meter_of(device=counter)
    meter.start()
    for number, joules in enumerate((9, 5, 6), 1):
        meter.take({"event": "energy", "part": f"window {number}"})
        counter.joules += joules
    meter.take({"event": "energy", "part": None})
    counter.joules += 100
    for part, of in (("warm_up", ["window 1"]), ("steady", ["window 2", "window 3"]), ("nothing", ["window 4"])):
        meter.take({"event": "energy", "part": part, "of": of})
    found = meter.stop().parts
    assert {name: part.joules for name, part in found.items()} == {"warm_up": 9, "steady": 11}


def test_a_part_knows_the_time_between_its_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    clock: Iterator[float] = iter([10.0, 12.0, 15.5, 20.0])
    monkeypatch.setattr(energy.time, "monotonic", lambda: next(clock))
    meter = meter_of(device=Counter(0))
    meter.start()
    meter.enter("steady")
    meter.sample()
    assert meter.stop().parts["steady"].seconds == pytest.approx(8.0)


def test_the_host_of_a_gpu_and_its_memory_stand_beside_it() -> None:
    device, host = Counter(0), Counter(0)
    meter = meter_of(device=device, host=host)
    meter.start()
    meter.enter("steady")
    device.joules, host.joules = 90, 20
    found = meter.stop()
    assert (found.joules, found.beside["host"].joules, found.beside["host"].parts["steady"].joules) == (90, 20, 20)


def test_a_missing_counter_says_nothing_against_the_others() -> None:
    def missing() -> Counters:
        raise MeterError("no RAPL counter")

    finders: dict[str, Callable[[], Counters]] = {"device": Counter(3).found, "host": missing}
    meter = energy.EnergyMeter("gpu", find=lambda kind, replicas: finders)
    meter.start()
    found = meter.stop()
    assert (found.joules, found.meter) == (0, "a counter")
    assert found.beside == {"host": Energy(reason="no meter: no RAPL counter")}


def test_a_counter_that_fails_during_the_run_gives_no_joules() -> None:
    counter = Counter(100)
    meter = meter_of(device=counter)
    meter.start()
    counter.broken = True
    assert meter.stop() == Energy(reason="no meter: a counter failed: it is gone")


def test_a_counter_that_never_wraps_but_went_back_gives_no_joules() -> None:
    counter = Counter(10)
    meter = meter_of(device=counter)
    meter.start()
    counter.joules = 3
    assert meter.stop() == Energy(reason="no meter: a counter was reset during the run")


def test_samples_from_two_threads_count_nothing_twice() -> None:
    """The supervisor samples once a minute in one thread and takes the run's messages in another."""
    counter = Counter(0)
    meter = meter_of(device=counter)
    meter.start()

    def work() -> None:
        for _ in range(300):
            counter.joules += 1
            meter.sample()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.stop().joules == counter.joules


@pytest.mark.parametrize(
    ("kind", "names"), [("cpu", {"memory"}), ("gpu", {"host", "memory"}), ("tpu", {"host", "memory"})]
)
def test_each_kind_is_watched_with_its_host(kind: str, names: set[str]) -> None:
    assert set(energy.counters_of(kind)) == {"device", *names}


def test_a_tpu_has_no_counter() -> None:
    assert energy.EnergyMeter("tpu").stop().reason == "no meter: a TPU has no energy counter that a program can read"
