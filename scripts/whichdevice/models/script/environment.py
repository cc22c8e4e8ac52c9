"""The environment of reinforcement learning that a script steps between its optimiser's steps: frames and their time.

watched = environment_in(scopes)      # of the script's variables; None: it has none
...                                     # the script goes on
watched.frames_per_step, watched.frames_per_second()
"""

import ast
import inspect
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from textwrap import dedent
from typing import Any

import numpy as np

from whichdevice.base.code_hash import parsed
from whichdevice.models.script.amounts import attribute

TIMED_SECONDS = 1.5
LEAST_PARTS = 3  # of what a step gives: an observation, a reward, whether it is over


class Environment:
    """Counts the frames that a script collects: those between the first steps of its optimiser and the next ones."""

    def __init__(self, environment: Any) -> None:
        self._environment, self._step = environment, environment.step
        self._steps, self._frames, self._seconds = 1, 0, 0.0
        self.is_on_gpu = str(attribute(environment, "device")).startswith("cuda")
        self.count = int(getattr(environment, "num_envs", 1))
        environment.step = self._counted

    def _counted(self, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        result = self._step(*args, **kwargs)
        self._seconds += time.perf_counter() - began
        if not hasattr(self._environment, "num_envs") and isinstance(result, tuple) and len(result) > 1:
            self.count = math.prod(np.shape(result[1]))  # a reward for each
        self._frames += self.count
        return result

    def stepped(self) -> bool:
        """The optimiser steps again: return whether frames were collected since it did first."""
        if self._frames:
            return True
        self._steps += 1
        return False

    @property
    def frames_per_step(self) -> float | None:
        """Frames for each step of the optimiser; None: none were collected after the first."""
        return self._frames / self._steps if self._frames else None

    def frames_per_second(self) -> float | None:
        """Return how many frames it gives on this machine; None where it does not show.

        With actions at random where it has a space of them, else as the script stepped it.
        """
        space = getattr(self._environment, "action_space", None)
        if space is None:
            return self._frames / self._seconds if self._seconds else None
        several = hasattr(self._environment, "step_wait")  # of Stable-Baselines: one action for each; it resets each

        def action() -> Any:
            return np.array([space.sample() for _ in range(self.count)]) if several else space.sample()

        with suppress(Exception):  # of the script's own environment
            self._environment.reset()
            frames, began = 0, time.perf_counter()
            while (taken := time.perf_counter() - began) < TIMED_SECONDS:
                result = self._step(action())
                frames += self.count
                if self.count == 1 and not several and any(part is True or part is np.True_ for part in result[2:4]):
                    self._environment.reset()
            return frames / taken
        return None


def environment_in(scopes: Iterable[Mapping[str, Any]]) -> Environment | None:
    """Return the environment among a script's variables, the outermost of several around one another."""
    environments = [value for scope in scopes for value in scope.values() if is_environment(value)]
    inner = {id(attribute(value, name)) for value in environments for name in ("env", "venv", "envs")}
    return next((Environment(value) for value in environments if id(value) not in inner), None)


def is_environment(value: Any) -> bool:
    """Whether a value is an environment as Gym and Gymnasium have them, or one like it.

    One without a space of actions shows it by what its methods return: `reset` something, `step` a tuple of an
    observation, a reward and whether it is over, or what another one's step gives.
    """
    step, reset, space = (inspect.getattr_static(value, name, None) for name in ("step", "reset", "action_space"))
    if isinstance(value, type) or step is None or reset is None:
        return False
    return space is not None or (bool(_returned(reset)) and any(map(_is_frame, _returned(step))))


def _is_frame(given: ast.AST) -> bool:
    if isinstance(given, ast.Call):
        return isinstance(given.func, ast.Attribute) and given.func.attr == "step"
    return isinstance(given, ast.Tuple) and len(given.elts) >= LEAST_PARTS


def _returned(function: Any) -> list[ast.AST]:
    """The expressions that a function of Python returns; none where its text cannot be read."""
    with suppress(OSError, TypeError, SyntaxError):
        nodes = ast.walk(parsed(dedent(inspect.getsource(function))))
        return [node.value for node in nodes if isinstance(node, ast.Return) and node.value is not None]
    return []
