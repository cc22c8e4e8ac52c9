"""Two records are of one machine where nothing known of it differs."""

import pytest

from whichdevice.records.schema import Machine
from whichdevice.records.store import describe_machine, same_machine

ONE = Machine(cpu="CPU", memory=16 * 2**30, operating_system="Linux 6.1", identity="aabbccddeeff")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"memory": 16 * 2**30 + 2**20}, True),  # as a kernel that keeps some more for itself
        ({"operating_system": "Linux 6.12"}, True),  # an update, by the identity
        ({"identity": "001122334455"}, False),
        ({"cpu": "Other"}, False),
        ({"memory": 32 * 2**30}, False),
        ({"identity": None}, True),
        ({"identity": None, "operating_system": "Linux 6.12"}, False),
    ],
)
def test_same_machine(changes, same):
    assert same_machine(ONE, ONE.model_copy(update=changes)) is same


def test_a_message_shows_what_differs():
    assert describe_machine(ONE) == "CPU, 16 GiB, machine aabbcc"
    assert describe_machine(Machine()) == "unknown"
