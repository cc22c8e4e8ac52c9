"""Tests skip what is not installed; the machine that decides must have everything."""

import importlib.util
import os

import pytest


@pytest.mark.skipif(not os.environ.get("CI"), reason="only where CI is set")
@pytest.mark.parametrize("name", ["tensorflow", "jax", "libtpu", "torch"])
def test_nothing_is_skipped_for_want_of_a_framework(name):
    assert importlib.util.find_spec(name) is not None
