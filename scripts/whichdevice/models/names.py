"""Names as people write them: in any case, without the organisation, or nearly right."""

from collections.abc import Iterable
from difflib import get_close_matches


def by_plain_name(names: Iterable[str]) -> dict[str, str]:
    """Return names by themselves and without the organisation, in small letters; the first of two alike counts."""
    known: dict[str, str] = {}
    for name in names:
        plain = name.casefold()
        known.setdefault(plain, name)
        known.setdefault(plain.rpartition("/")[2], name)
    return known


def nearest(name: str, known: Iterable[str], least: float = 0.6) -> str | None:
    """Return the known name that is most like one, if one is so much like it."""
    return next(iter(get_close_matches(name, [*known], 1, least)), None)


def hint(near: object) -> str:
    """Return the end of a message that proposes a name; empty where there is none."""
    return f"; did you mean {near}?" if near else ""
