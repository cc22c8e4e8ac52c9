"""Environments of reinforcement learning: which values of a script are one, and the frames that they give."""

from types import SimpleNamespace

import numpy as np
import pytest

from whichdevice.models.script.environment import environment_in


class Ball:
    """A script's own environment: no Gym, two balls at once."""

    def reset(self):
        return np.zeros((2, 4))

    def step(self, action):
        return np.zeros((2, 4)), self.rewards(), False

    def rewards(self):
        return np.ones(2)


class Around:
    """Another one around it."""

    def __init__(self, env):
        self.env = env

    def reset(self):
        return self.env.reset()

    def step(self, action):
        return self.env.step(action)


class Mean:
    """A running mean."""

    def reset(self):
        self.total = 0.0

    def step(self, value):
        self.total += value
        return self.total


class Patience:
    """Early stopping that gives three values: its reset gives nothing."""

    def reset(self):
        self.best = None

    def step(self, loss):
        return loss, False, self.best


class Cell:
    """A network that keeps a state: its step gives one value."""

    def reset(self):
        return np.zeros(4)

    def step(self, x):
        return x + 1


def frames(environment):
    """The frames of one step of the environment and one of the optimiser."""
    watched = environment_in([{"environment": environment}])
    assert watched
    environment.step(0)
    assert watched.stepped()
    return watched.frames_per_step


def test_a_step_gives_a_frame_for_each_reward():
    assert frames(Ball()) == 2


@pytest.mark.needs("torch")
def test_rewards_may_be_a_tensor():
    import torch

    ball = Ball()
    ball.rewards = lambda: torch.ones(2, requires_grad=True)
    assert frames(ball) == 2


@pytest.mark.parametrize("other", [Mean(), Patience(), Cell(), Ball], ids=["mean", "patience", "cell", "class"])
def test_what_only_has_such_methods_is_no_environment(other):
    assert environment_in([{"other": other}]) is None


def test_an_environment_is_found_behind_what_is_none():
    assert environment_in([{"mean": Mean()}, {"ball": Ball()}])


def test_the_outermost_of_several_counts():
    inner = Ball()
    outer = Around(inner)
    watched = environment_in([{"inner": inner, "outer": outer}])
    outer.step(0)
    assert watched and watched.stepped()


def test_a_space_of_actions_makes_an_environment_whatever_its_methods_are_made_of():
    assert environment_in([{"gym": SimpleNamespace(step=lambda *_: (), reset=dict, action_space=object())}])
