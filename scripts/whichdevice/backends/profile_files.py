"""Profiles without the name of the host that they were taken on: results name no host."""

from pathlib import Path

HOST_NAMES = 4  # field of XSpace, in tsl/profiler/protobuf/xplane.proto
LENGTH_DELIMITED = 2


def without_host_name(folder: Path) -> None:
    """Keep the profile below a folder as `host.xplane.pb` and without the host's name; no other file stays."""
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        if file.name.endswith(".xplane.pb"):
            file.write_bytes(_without_host_names(file))
            file.rename(file.with_name("host.xplane.pb"))
        else:
            file.unlink()  # a second form of the same, named after the host


def _without_host_names(profile: Path) -> bytes:
    """The message without one of its fields, which needs no protobuf class."""
    content = profile.read_bytes()
    kept, place = bytearray(), 0
    while place < len(content):
        start = place
        tag, place = _number(content, place)
        if tag & 7 != LENGTH_DELIMITED:
            raise ValueError(f"{profile.name}: not an XSpace, whose fields are messages and strings only")
        length, place = _number(content, place)
        place += length
        if tag >> 3 != HOST_NAMES:
            kept += content[start:place]
    return bytes(kept)


def _number(content: bytes, place: int) -> tuple[int, int]:
    """A varint and the place behind it."""
    value = shift = 0
    while content[place] & 0x80:
        value |= (content[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
    return value | content[place] << shift, place + 1
