"""Valid inputs with values of their own kind or of a wrong one in a few places, as Hypothesis strategies."""

import copy
import csv
import io
import json
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import strategies as st

TEXTS = st.text(max_size=20) | st.sampled_from(
    ["\r", "\n", "\x00", "\x1b[2J", "\x85", "\u2028", "../x", "<b>", "NA", "$x$"]
)
INTEGERS = st.integers() | st.sampled_from([-1, 0, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400])
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1e308])
VALUES = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Odd values of the same kind: those pass where wrong kinds are refused."""
    if isinstance(value, bool) or value is None:
        return VALUES
    if isinstance(value, str):
        return TEXTS
    if isinstance(value, int):
        return INTEGERS
    return FLOATS if isinstance(value, float) else VALUES


def _places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to everything in a tree of JSON."""
    if place:
        yield place
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from _places(tree[key], (*place, key))


@st.composite
def mutated_json(draw: st.DrawFn, valid: bytes) -> bytes:
    """A document of JSON with one to three values replaced, most by others of their kind, or keys added."""
    tree = json.loads(valid)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(list(_places(tree))))
        node = tree
        for key in place[:-1]:
            node = node[key]
        change = draw(st.sampled_from(["like", "like", "like", "other", "copy", "key"]))
        if change == "key" and isinstance(node, dict):
            node[draw(TEXTS)] = draw(VALUES)
        elif change == "copy" and isinstance(node[place[-1]], list):
            node[place[-1]] *= draw(st.integers(0, 50))
        else:
            node[place[-1]] = draw(_like(node[place[-1]]) if change == "like" else VALUES)
    return json.dumps(tree).encode()


@st.composite
def mutated_sheet(draw: st.DrawFn, valid: bytes) -> bytes:
    """A CSV file with one to three cells replaced, rows cut short, or doubled."""
    rows = list(csv.reader(io.StringIO(valid.decode())))
    numbers = st.floats().map(str) | INTEGERS.map(str) | st.sampled_from(["1e999", "-0", "nan", "0x10", "1_000", "٣"])
    for _ in range(draw(st.integers(1, 3))):
        row = draw(st.sampled_from(rows))
        change = draw(st.sampled_from(["cell", "cell", "cell", "cut", "double"]))
        if change == "cut" and row:
            del row[draw(st.integers(0, len(row) - 1)) :]
        elif change == "double":
            rows.append(list(row))
        elif row:
            row[draw(st.integers(0, len(row) - 1))] = draw(numbers | TEXTS)
    held = io.StringIO()
    csv.writer(held).writerows(rows)
    return held.getvalue().encode("utf-8", "surrogatepass")


NAMES = st.sampled_from(
    ["a", "../a", "/a", "a/../../b", "r1/a.npy", ".", "..", "a" * 300, "a\\..\\b", "\u202e", "C:a", ""]
)
KINDS = [
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.DIRTYPE,
    tarfile.CHRTYPE,
    tarfile.FIFOTYPE,
    b"x",
    b"S",
]


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """A tar of a few members of any kind, whose names and targets may leave the folder and whose sizes may lie."""
    held = io.BytesIO()
    for _ in range(draw(st.integers(1, 4))):
        member = tarfile.TarInfo(draw(NAMES))
        member.type = draw(st.sampled_from(KINDS))
        member.linkname, member.mode = draw(NAMES), draw(st.integers(0, 0o7777))
        content = draw(st.binary(max_size=50))
        member.size = draw(st.sampled_from([len(content), len(content), 0, 2**40]))
        held.write(member.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape") + content.ljust(512, b"\0"))
    return held.getvalue()


@st.composite
def programs(draw: st.DrawFn, valid: bytes) -> bytes:
    """A TPU program with lines lost, doubled or moved, and operands, shapes and numbers of one in another."""
    lines = valid.decode().splitlines()
    for _ in range(draw(st.integers(1, 5))):
        first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        change = draw(st.sampled_from(["lose", "double", "move", "word", "number"]))
        words, others = lines[first].split(" "), lines[second].split(" ")
        if change == "lose" and len(lines) > 1:
            del lines[first]
        elif change == "double":
            lines.insert(second, lines[first])
        elif change == "move":
            lines[first], lines[second] = lines[second], lines[first]
        elif change == "word":
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(others))
            lines[first] = " ".join(words)
        else:
            digits = [place for place, letter in enumerate(lines[first]) if letter.isdigit()]
            if digits:
                place = draw(st.sampled_from(digits))
                lines[first] = lines[first][:place] + str(draw(INTEGERS)) + lines[first][place + 1 :]
    return "\n".join(lines).encode()


DTYPES = ["f8", "i8", "u1", "U3", "S3", "M8[s]", "c8", "?"]


@st.composite
def mutated_arrays(draw: st.DrawFn, valid: dict[str, Any]) -> dict[str, Any]:
    """Arrays of which one to three are missing, cut, of another type or shape, or hold an odd value."""
    arrays = {name: np.array(copy.deepcopy(value)) for name, value in valid.items()}
    for name in draw(st.lists(st.sampled_from(sorted(arrays)), min_size=1, max_size=3, unique=True)):
        array = arrays[name]
        change = draw(st.sampled_from(["missing", "cut", "type", "shape", "value", "value"]))
        if change == "missing":
            del arrays[name]
        elif change == "cut":
            arrays[name] = array[: draw(st.integers(0, 2))] if array.ndim else array[None]
        elif change == "type":
            arrays[name] = np.zeros(
                array.shape, draw(st.sampled_from(["f8", "i8", "u1", "U3", "S3", "M8[s]", "c8", "?"]))
            )
        elif change == "shape":
            arrays[name] = draw(st.sampled_from([array[None], array.ravel(), array.T, array[..., None]]))
        elif array.size:
            odd = {"U": TEXTS, "f": FLOATS}.get(array.dtype.kind, st.integers(-(2**63), 2**63 - 1))
            flat = array.astype({"U": "U20", "f": "f8"}.get(array.dtype.kind, "i8")).ravel()
            flat[draw(st.integers(0, flat.size - 1))] = draw(odd)
            arrays[name] = flat.reshape(array.shape)
    return arrays
