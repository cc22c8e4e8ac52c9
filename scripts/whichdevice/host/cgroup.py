"""Limits that containers and schedulers set: control groups of version 1 and 2, read from the innermost outwards."""

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/")


def limits(controller: str, v2_file: str, v1_file: str, root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Each file that states a limit of this process, or what came of it, as (path, text).

    A limit of any enclosing group holds too, so all parents are read. In a container the path in
    /proc/self/cgroup may not exist below the mount; its root then is the container's own group.
    """
    for folder, version in _groups(controller, root):
        path = folder / (v2_file if version == 2 else v1_file)
        text = _read(path)
        if text is not None:
            yield path, text


def number(path: Path) -> int | None:
    """The whole number that a control file holds; None where the file is missing or says `max`."""
    text = _read(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    seen: set[Path] = set()
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mounts, version = ("", "unified"), 2
        elif controller in controllers.split(","):
            mounts, version = (controllers, controller), 1
        else:
            continue
        for mount in (root / "sys/fs/cgroup" / name for name in dict.fromkeys(mounts)):
            inner = mount / group.lstrip("/")
            for folder in (inner, *inner.parents):
                if (place := folder.resolve()) not in seen:  # a mount of several controllers has links to it
                    seen.add(place)
                    yield folder, version
                if folder == mount:
                    break


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
