"""Measure the disk that each way to install takes, from this environment's packages: `python docs/sizes.py`.

It writes docs/start/sizes.csv, a row for each extra. One whose packages are not all here, as those of CUDA, keeps the
estimate that the file has. A package takes what its files take here, compiled modules included.
"""

import csv
import datetime as dt
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[1]
TABLE = PROJECT / "docs" / "start" / "sizes.csv"


def main() -> None:
    """Measure what can be measured, and write the table."""
    sys.path.insert(0, str(PROJECT))
    from hatch_build import EXTRAS, extras, requirements

    known = {row["extra"]: row for row in rows()}
    own, added = requirements("base", PROJECT / "envs"), extras(PROJECT / "envs")
    for extra in ["", *EXTRAS]:
        missing, size = measured([*own, *added.get(extra, [])])
        if missing:
            print(f"{extra}: not here: {', '.join(missing)}")
        else:
            known[extra] = {"extra": extra, "gb": f"{size / 1e9:.2g}", "how": f"measured {dt.date.today()}"}
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["extra", "gb", "how"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(known[extra] for extra in ["", *EXTRAS])


def rows() -> list[dict[str, str]]:
    """The table: extra, gigabytes, how they are known."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def measured(wanted: Iterable[str]) -> tuple[list[str], float]:
    """Packages that are not here, and bytes of those that are, with all that they need."""
    names, missing, size = set[str](), [], 0.0
    waiting = [Requirement(each) for each in wanted]
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        extras = {"", *requirement.extras}
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if "+" in found.version:  # a build of its own, as PyTorch's for CPUs: the index has another
            missing.append(f"{name} as the index has it")
        if not {f"{name}[{extra}]" for extra in extras} <= names:
            waiting += list(_needs(found, extras))
        size += 0 if f"{name}[]" in names else sum(map(_bytes, found.files or ()))
        names |= {f"{name}[{extra}]" for extra in extras}
    return sorted(set(missing)), size


def _needs(found: metadata.Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in found.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            requirement.marker = None
            yield requirement


def _bytes(file: metadata.PackagePath) -> int:
    path = Path(str(file.locate()))
    return path.stat().st_size if path.is_file() else 0


if __name__ == "__main__":
    main()
