"""The reported number beside the one timed by hand: window by window, of the windows that count."""

import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def framework() -> ModuleType:
    spec = spec_from_file_location("framework", ROOT / "benchmarks" / "peak" / "framework.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("by_hand", [0.02, 0.04])
def test_each_is_timed_by_a_clock_that_the_other_does_not_move(
    framework: ModuleType, monkeypatch: pytest.MonkeyPatch, by_hand: float
) -> None:
    clock, calls = [0.0], []

    def takes(name: str, first: float, later: float):
        def run(steps: int) -> None:
            calls.append(name)
            clock[0] += steps * (first if calls.count(name) <= 5 else later)  # slow at first: warm-up

        return run

    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    loop = SimpleNamespace(run=takes("loop", 0.03, 0.02), ends=np.ones(1))
    backend = SimpleNamespace(operation_loop=lambda workload, random: loop)
    request = framework.request_for("tensorflow", "float32", "matmul", 512, 4.0)  # windows of .2 s
    rates = framework.reported_and_by_hand(backend, request, takes("hand", 2 * by_hand, by_hand), 1.0)
    assert rates == pytest.approx((1 / 0.02, 1 / by_hand))
    assert calls[:2] == ["hand", "loop"] and calls[2:6] == ["loop", "hand"] * 2
