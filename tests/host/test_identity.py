"""A machine is told apart without being named."""

from whichdevice.machine.facts import machine_identity


def test_it_is_the_same_each_time_and_not_the_systems_own_id(tmp_path):
    file = tmp_path / "machine-id"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    first = machine_identity((file,))
    assert first == machine_identity((tmp_path / "none", file))
    assert first is not None and len(first) == 12 and first not in file.read_text()
    file.write_text("f123456789abcdef0123456789abcdef\n")
    assert machine_identity((file,)) != first


def test_a_system_without_an_id_has_no_identity(tmp_path):
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "early").write_text("uninitialized\n")
    assert machine_identity((tmp_path / "none", tmp_path / "empty", tmp_path / "early")) is None
