"""The processes of a round train in turns, so that what the host does meanwhile meets each way alike."""

from typing import Self

import pytest
from benchmarks.training_loops import __main__ as training_loops
from benchmarks.training_loops import process


class Told:
    """A process that trains in no time, and says who was asked."""

    asked: list[str]

    def __init__(self, way: str, batch: int, steps: int) -> None:
        self.way, self.turn = way, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        Told.asked.append(f"{self.way} ends")

    def step_time(self) -> float:
        Told.asked.append(self.way)
        self.turn += 1
        return self.turn * (1.0 if self.way == "fit" else 0.5)


def test_they_go_there_and_back_and_count_with_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "Trainer", Told)
    Told.asked = []
    times = training_loops.one_round(["fit", "epoch"], batch=8, steps=2, turns=3)
    assert Told.asked == ["fit", "epoch", "epoch", "fit", "fit", "epoch", "epoch ends", "fit ends"]
    assert times == {"fit": 2.0, "epoch": 1.0}


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(SystemExit, match="KeyError: 'unheard of'"):
        process.Trainer("unheard of", 8, 2)
