"""The energy of the steady windows is told apart from that of the warm-up, whichever windows turn out to be which."""

import io
import json
import time
from collections.abc import Callable

from whichdevice.config.model import Study
from whichdevice.machine.energy import Counters, EnergyMeter
from whichdevice.measuring.events import Emitter
from whichdevice.measuring.request import build_request
from whichdevice.measuring.timing import time_steps
from whichdevice.study_cells import study_runs


class Meter(io.StringIO):
    """A supervisor's end of the pipe with a counter that gains a joule for each window run."""

    def __init__(self) -> None:
        super().__init__()
        self.joules = 0.0
        counters = Counters("a counter", lambda: [self.joules], [1e9], 0.001)
        self.meter = EnergyMeter("cpu", find=lambda kind, replicas: {"device": lambda: counters})
        self.meter.start()
        self.steady: dict = {}
        self.warm_up: list = []

    def write(self, text: str) -> int:
        message = json.loads(text)
        if message["event"] == "energy":
            self.meter.take(message)
        if message["event"] == "part" and message["place"] == "steady":
            self.steady = message["value"]
        if message["event"] == "part" and "warm_up" in message["value"]:
            self.warm_up = message["value"]["warm_up"]
        return len(text)

    def prepare(self, steps: int) -> Callable[[], None]:
        def run() -> None:
            time.sleep(0.001)
            self.joules += 1

        return run


def test_each_window_counts_where_it_belongs() -> None:
    study = Study()
    stream = Meter()
    request = build_request(study, study_runs(study)[0]).model_copy(update={"seconds": 0.05, "min_steps": 1})
    time_steps(stream.prepare, request, 1.0, 1.0, 0, Emitter(stream), window=0.002)
    parts = stream.meter.stop().parts
    assert parts["warm_up"].joules == len(stream.warm_up)
    assert parts["steady"].joules == len(stream.steady["windows"])
    assert set(parts) == {"warm_up", "steady"}
