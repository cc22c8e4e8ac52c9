"""The answers that a server writes in each step of training, on the same GPUs: time and memory.

    beside = served_beside(workload.rollout, "Qwen/Qwen2.5-7B", target, completions=64)
    beside.seconds, beside.bytes, beside.log_sd

The server is vLLM as serving/ forecasts it, awake all the time with weights of its own in 16 bits, as TRL's `vllm_mode
= "colocate"`. Each GPU writes its part of the answers; weights that take much of a GPU are split over all of them. Each
prompt is read once for all of its answers. As many are written at once as MAX_SHARE of the memory holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.forecast.serving.server import Server, memory_of
from whichdevice.models.served import served_model

if TYPE_CHECKING:
    from whichdevice.forecast.targets import Target
    from whichdevice.forecast.torch.trace import Trace
    from whichdevice.models.objectives import Rollout

MAX_SHARE = 0.3  # of a GPU's memory, that a server takes: TRL's default
MAX_PARTS = 8
POINTS = 9  # of an answer's length, at which an iteration's time is looked at


@dataclass(frozen=True)
class Beside:
    """A server's part of a step on one device: seconds, their spread, bytes of its weights and cache."""

    seconds: float
    log_sd: float
    bytes: float


def served_beside(rollout: Rollout, model: str, target: Target, completions: int) -> Beside:
    """Return what so many answers take on a target; raises StudyError where vLLM has no forecast there."""
    if target.kind != "gpu":
        raise StudyError("answers are written by a server on a GPU")
    served, parts = served_model(model), 1
    if Server(served, target.row).weights_bytes > MAX_SHARE * memory_of(target.row):
        parts = min(target.devices, MAX_PARTS)
    server = Server(served, target.row, parts)
    requests = -(-completions * parts // target.devices)
    length = rollout.prompt + rollout.completion
    cache = server.cache_of(length)
    room = MAX_SHARE * memory_of(target.row) - server.weights_bytes
    together = max(min(requests, int(room / cache)), min(requests, rollout.generations))
    prompts = -(-requests // rollout.generations)
    written = np.linspace(0, rollout.completion, POINTS)
    tokens = np.mean([server.seconds(together, together * (rollout.prompt + count)) for count in written])
    pairs = prompts * rollout.prompt**2 / 2
    reading = server.seconds(0, 0, prompts * rollout.prompt, pairs) - server.seconds(0, 0)
    spread = server.fitted["sd"]["rest"]["experts" if served.experts else "dense"]
    seconds = float(tokens) * rollout.completion * requests / together + float(reading)
    return Beside(seconds, float(spread), server.weights_bytes + cache * together)


def with_server(trace: Trace, nbytes: float) -> Trace:
    """Return a step with so many bytes of a server beside it all the time."""
    if not nbytes:
        return trace
    memory = dict(trace.memory)
    memory |= {name: memory[name] + nbytes for name in ("passes", "early", "late", "peak", "working")}
    return replace(trace, memory=memory | {"rollout": nbytes})
