"""Valid inputs made wrong: bytes cut, doubled, swapped, flipped, and values of JSON and YAML replaced by odd ones."""

import csv
import io
import json
import random
from collections.abc import Callable
from typing import Any

import yaml

ODD = [
    "",
    " ",
    "\x00",
    "../../x",
    "-1",
    "1e999",
    "nan",
    "<script>",
    "ß",
    "9" * 400,
    "%s",
    "{0}",
    "~",
    "null",
    "[",
    "!!python/object:os.system",
]
NUMBERS: list[Any] = [-1, 0, -0.0, 5e-324, 1e308, float("nan"), float("inf"), 2**31, 2**63, -(2**63), 10**30, 10**400]
TEXTS = ["", "\r", "\n", "\x00", "\x1b[2J", "\x85", "\u2028", "../x", "<b>", "NA", "$x$", "x" * 2000]
VALUES: list[Any] = [None, True, *NUMBERS, *TEXTS, [], {}, [[]], {"": ""}]


def mutated(valid: bytes, name: str, draw: random.Random) -> bytes:
    """One to four random changes of a valid input."""
    content = valid
    if name.endswith(".csv") and draw.random() < 0.5:
        return _other_cell(content, draw)
    if name.endswith((".json", ".yaml")) and draw.random() < 0.5:
        content = _other_value(content, name, draw)
        if draw.random() < 0.8:
            return content
    for _ in range(draw.randint(1, 4)):
        content = draw.choice(CHANGES)(content, draw)
    return content


def _cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randint(0, len(content))]


def _flip(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content or b"\0")
    changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _remove(content: bytes, draw: random.Random) -> bytes:
    start = draw.randint(0, len(content))
    return content[:start] + content[start + draw.randint(1, 40) :]


def _double(content: bytes, draw: random.Random) -> bytes:
    start = draw.randint(0, len(content))
    end = start + draw.randint(1, 200)
    return content[:end] + content[start:end] + content[end:]


def _insert(content: bytes, draw: random.Random) -> bytes:
    start = draw.randint(0, len(content))
    odd = draw.choice(ODD).encode() if draw.random() < 0.7 else draw.randbytes(draw.randint(1, 12))
    return content[:start] + odd + content[start:]


def _swap_token(content: bytes, draw: random.Random) -> bytes:
    """Another token of the same text in the place of one: the right words in the wrong place."""
    tokens = content.split(b" ")
    first, second = draw.randrange(len(tokens)), draw.randrange(len(tokens))
    tokens[first] = tokens[second]
    return b" ".join(tokens)


CHANGES: list[Callable[[bytes, random.Random], bytes]] = [_cut, _flip, _remove, _double, _insert, _swap_token]


def _other_value(content: bytes, name: str, draw: random.Random) -> bytes:
    """One value anywhere in the tree replaced, removed or renamed."""
    tree = json.loads(content) if name.endswith(".json") else yaml.safe_load(content)
    node, key = tree, draw.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
    while isinstance(node[key], dict | list) and node[key] and draw.random() < 0.8:
        node = node[key]
        key = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
    if draw.random() < 0.2 and isinstance(node, dict):
        node[draw.choice(ODD)] = node.pop(key)
    elif draw.random() < 0.2:
        del node[key]
    else:
        # Odd values of the same kind pass where wrong kinds are refused.
        kind = next(
            (values for kind, values in ((str, TEXTS), (float, NUMBERS)) if isinstance(node[key], kind)), VALUES
        )
        node[key] = draw.choice(kind if draw.random() < 0.7 else VALUES)
    return (json.dumps(tree) if name.endswith(".json") else yaml.safe_dump(tree)).encode()


def _other_cell(content: bytes, draw: random.Random) -> bytes:
    """One cell of a sheet replaced, its row cut short, or doubled."""
    rows = list(csv.reader(io.StringIO(content.decode())))
    row = draw.choice([row for row in rows if row])
    if (change := draw.random()) < 0.7:
        row[draw.randrange(len(row))] = str(draw.choice([*NUMBERS[:-1], *TEXTS, "1e999", "0x10", "1_000", "٣"]))
    elif change < 0.85:
        del row[draw.randrange(len(row)) :]
    else:
        rows.append(list(row))
    held = io.StringIO()
    csv.writer(held).writerows(rows)
    return held.getvalue().encode()
