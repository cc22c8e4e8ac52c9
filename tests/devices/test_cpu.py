"""The CPU as a device."""

from whichdevice.machine import cpu


def test_the_cpu_is_there_with_any_number_of_virtual_replicas() -> None:
    assert cpu.present() == 1
    assert cpu.absent_reason(8) is None


def test_it_is_described_by_model_and_memory() -> None:
    facts = cpu.describe()
    assert facts.name and facts.count == 1
    assert facts.memory and facts.memory > 2**28
