"""A single operation in PyTorch: dependent steps, launched ahead of the device; short ones as a CUDA graph."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from whichdevice.measure.backends.keras_on_torch import place
from whichdevice.measure.backends.torch_devices import is_out_of_memory
from whichdevice.models.workloads.base import OperationWorkload

STEPS_A_GRAPH = 20
PASSES_A_GRAPH = 200  # over memory: the copy of the state that ends a graph is two thirds of one, and not counted
WARM_UPS = 3  # before a capture, as PyTorch's documentation has it: libraries take their workspace
SHORT = 1e11  # operations; more keep a device busy for longer than a launch takes


class TorchOperation:
    """Dependent steps from the initial state."""

    def __init__(
        self,
        workload: OperationWorkload,
        random: np.random.Generator,
        dtype: str,
        device: str,
        report_steps: Callable[[str], None],
    ) -> None:
        state, operands = workload.operands(random)
        self._step, self._report_steps = workload.step, report_steps
        self._bounded = workload.bounded
        self._length = PASSES_A_GRAPH if workload.bounded else STEPS_A_GRAPH
        self._operands = {name: array.to(getattr(torch, dtype)) for name, array in place(operands, device).items()}
        self._initial = place({"state": state}, device)["state"].to(getattr(torch, dtype))
        self._held = self._initial
        self._captures = device == "cuda" and workload.flops_per_step < SHORT
        self._many: Any = None  # a torch.cuda.CUDAGraph
        self._short_calls = 0
        self._state = self._initial
        report_steps("eager")  # until a graph is replayed

    @torch.no_grad()
    def run(self, steps: int) -> None:
        """Run from the initial state and wait: reading one number of the result back needs all of it.

        Each call starts anew, as rounding to 16 bits lets the chain grow over hundreds of thousands of steps; the graph
        of a bounded one goes on where it was.
        """
        self._state, left = self._initial, steps
        if self._captures:
            left = self._replay(steps)
        for _ in range(left):
            self._state = self._step(self._state, self._operands)
        if not math.isfinite(float(self._state[0, 0])):
            raise FloatingPointError("the chain of products is no longer finite")

    def _replay(self, steps: int) -> int:
        """Replay whole graphs; how many steps are left over.

        The first two calls of several steps decide, as they still are warm-up: where both are shorter than a graph,
        steps are so long that a launch each hides behind them. One alone may be short after a hiccup in the step before
        it. The cold step, and the one after it, have no graph.
        """
        if self._many is None and steps > 1:
            self._short_calls += steps < self._length
            self._captures = self._captured() if steps >= self._length else self._short_calls < 2
        if self._many is None or steps < self._length:
            return steps
        self._report_steps("cuda_graph")
        if not self._bounded:  # a pass over memory that would not be counted
            self._held.copy_(self._initial)
        for _ in range(steps // self._length):
            self._many.replay()
        self._state = self._held
        return steps % self._length

    def _captured(self) -> bool:
        """Make the graph; False where that fails, or where the memory for it is missing beside large operands."""
        try:
            self._held = self._initial.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(WARM_UPS):
                    self._several()
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._several()
            self._many = graph
        except Exception as error:
            if is_out_of_memory(error) and not self._bounded:
                raise
            self._held = self._initial
            self._report_steps(f"eager, as capture failed: {str(error).strip().partition(chr(10))[0]}")
        return self._many is not None

    def _several(self) -> None:
        state = self._held
        for _step in range(self._length):
            state = self._step(state, self._operands)
        self._held.copy_(state)
