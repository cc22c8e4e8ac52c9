"""Python source is read the same by one thread and by many."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from whichdevice.python_source import parsed

SOURCE = b"def model(options):\n    return [[name, (name, {name: name})] for name in options if name]\n" * 20


@pytest.fixture
def threads_change_within_a_tree():
    """Garbage collection, which runs within the building of a tree, lets another thread go on."""
    threshold = gc.get_threshold()

    def another(phase, facts):
        time.sleep(0)

    gc.callbacks.append(another)
    gc.set_threshold(50)
    yield
    gc.callbacks.remove(another)
    gc.set_threshold(*threshold)


def test_threads_read_source_at_once(threads_change_within_a_tree):
    with ThreadPoolExecutor(5) as pool:
        trees = list(pool.map(parsed, [SOURCE] * 100))
    assert {len(tree.body) for tree in trees} == {20}


def test_what_is_no_python_raises_as_ever():
    with pytest.raises(SyntaxError):
        parsed("def model(:")
