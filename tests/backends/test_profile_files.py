"""A kept profile names no host."""

from whichdevice.backends.base import without_host_name

PLANE = b"\x0a\x88\x01" + b"p" * 136  # field 1, longer than one byte can say
HOST = b"\x22\x07my-host"  # field 4
WARNING = b"\x1a\x02ok"  # field 3


def test_the_host_names_go_and_the_rest_stays(tmp_path):
    deep = tmp_path / "plugins" / "profile" / "now"
    deep.mkdir(parents=True)
    (deep / "my-host.xplane.pb").write_bytes(PLANE + HOST + WARNING + HOST)
    (deep / "my-host.trace.json.gz").write_bytes(b"my-host")
    without_host_name(tmp_path)
    assert [path.name for path in deep.iterdir()] == ["host.xplane.pb"]
    assert (deep / "host.xplane.pb").read_bytes() == PLANE + WARNING
