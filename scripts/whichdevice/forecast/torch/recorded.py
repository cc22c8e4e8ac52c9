"""Steps of a PyTorch script: as it was recorded, and in other conditions by running it again.

    plan = Recordings(address, found, "mixed_bfloat16")
    plan.trace(32), plan.trace(32, ("gradient checkpointing",))

A batch that GPUs share is recorded in a run on so many. Any other one lies on the line through two, which a run
records: the script's own and one with half of its loader's.
"""

from collections.abc import Mapping
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.forecast.torch.memory import AFTERWARDS, HALF, LIGHT, Plan
from whichdevice.forecast.torch.step import Step, Trace, forward_of, trace_between
from whichdevice.models.address import Address
from whichdevice.models.script.found import Found
from whichdevice.models.script.look import recording

CONDITIONS: Mapping[str, Mapping[str, Any]] = {LIGHT: {"checkpointing": True}, HALF: {"precision": "bfloat16"}}
NO_OTHER = "its batch is not its loader's alone: give another one by the script's own arguments, after --"
NOT_OF_SCRIPT = "this change is not tried in a script"


class Recordings(Plan):
    """The recorded steps of a script by their batch size and by what is changed, each recorded once."""

    shallow = None  # a script's blocks are recorded whole

    def __init__(self, address: Address, found: Found, precision: str, mode: str = "train") -> None:
        step = Step(_none, _none, _none, _none, "float32")  # of its weights, whichever format its products have
        super().__init__(step)
        self._address, self._found, self._predicts, self._own = address, found, mode == "predict", dict[str, Any]()
        if (mixed := precision.startswith("mixed")) != (found.precision == "mixed"):  # it is not the script's own
            self._own["precision"] = "mixed" if mixed else "float32"

    @property
    def takes_bfloat16(self) -> bool:
        """Whether the script itself multiplies in bfloat16."""
        return not self._own and bool(recording(self._address)[1].get("takes_bfloat16"))

    @property
    def shares_weights(self) -> bool:
        """Whether the script's GPUs share its weights out."""
        return bool(recording(self._address)[1].get("shares_weights"))

    def trace(self, size: int, ways: tuple[str, ...] = (), like: int | None = None) -> Trace:
        """Return the step of so many examples on one GPU; raises StudyError where the script fails so."""
        if (size, ways) not in self._traces:
            ahead = tuple(way for way in ways if way not in AFTERWARDS)
            trace = self._recorded(size, ahead) if ahead == ways else self.trace(size, ahead)
            if self._predicts:
                trace = forward_of(trace)
            for way in ways[len(ahead) :]:
                trace = AFTERWARDS[way](trace)
            self._traces[size, ways] = trace
        return self._traces[size, ways]

    def _recorded(self, size: int, ways: tuple[str, ...]) -> Trace:
        changes = dict(self._own)
        for way in ways:
            if way not in CONDITIONS:
                raise StudyError(NOT_OF_SCRIPT)
            changes |= CONDITIONS[way]
        found, record = recording(self._address, **changes)
        batch, trace = found.batch_size, Trace.from_dict(record["trace"])
        if size == batch:
            return trace
        if self._found.keeps == "batch" and record["counts_gpus"] and batch % size == 0:
            shared, of_part = recording(self._address, **changes, gpus=batch // size * self._found.conditions.gpus)
            if shared.batch_size == size:
                return Trace.from_dict(of_part["trace"])
        if record["other"] is None:
            raise StudyError(f"{self._address.label}: {NO_OTHER}")
        examples, digest = record["other"]
        return trace_between((batch, trace), (examples, Trace.from_dict(digest)), size)


def _none(*_: Any) -> Any:
    raise StudyError(NOT_OF_SCRIPT)
