"""Tiny Shakespeare: 1,115,394 characters of plays as codes under 255, and invented plays as its stand-in.

The first 90 % trains, as in TensorFlow Datasets; its validation and test splits together are the test text.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import numpy as np

from whichdevice.datasets.base import Archive, Array, Arrays, Recipe
from whichdevice.datasets.download import open_builder, require, unpacked
from whichdevice.errors import StudyError

WORDS = {
    "name": "BERTRAM, ISOLDE, CORDELL, MARIANA, OSWIN, LUCETTA, TYBOLD, HELENE, GARRICK, ROSALBA, EDMUND, PHILIPPA, "
    "DORIAN, BEATRIX, LEOFRIC, VIOLANTE, HAROLD, CELESTE, MONTFORD, PERDIDA",
    "title": "Duke, Lady, Sir, Captain, Friar, Countess, Master, Nurse",
    "noun": "heart, king, night, love, sword, crown, hand, blood, grace, day, eye, friend, father, tongue, honour, "
    "grave, brother, soul, enemy, daughter, storm, throne, letter, garden, shadow, morning, war, fool, "
    "candle, bride, castle, raven, fortune, river, mother, winter, promise, traitor, dream, horse, mirror, "
    "wound, sea, oath, servant, feast, silence",
    "nouns": "eyes, men, tears, words, hands, gods, years, lords, stars, hearts, sorrows, swords, deeds, friends, "
    "walls, winds, lies, banners, kings, graves, roses, soldiers, fires, wolves",
    "adj": "good, sweet, noble, poor, gentle, dead, fair, true, false, bold, cold, proud, weary, bitter, old, "
    "silent, bloody, faithful, golden, wretched, heavy, broken, honest, secret, humble, mortal",
    "verb": "love, fear, know, see, hear, hold, kill, leave, follow, serve, curse, forgive, trust, seek, bury, crown, "
    "betray, swear, keep, wound, forget",
    "past": "loved, seen, slain, lost, known, heard, broken, sworn, stolen, buried, found, forsaken, betrayed, named",
    "goes": "comes, falls, speaks, sleeps, dies, waits, burns, weeps, rises, bleeds, fades, returns, trembles",
    "adverb": "now, never, here, again, tonight, softly, alone, tomorrow, today",
    "where": "in the garden, at the gate, upon the wall, beneath the moon, by the river, before the king, within these "
    "walls, beyond the sea, among the dead, on the field",
    "cry": "O, Alas, Nay, Come, Peace, Ay, Hark, Farewell, Good my lord, By heaven",
}  # fmt: skip
LISTS = {kind: tuple(words.split(", ")) for kind, words in WORDS.items()}  # frequent words first
PATTERNS = (
    "My {adj} {noun} {goes} {where}.",
    "I {verb} thee, {Name}, and thou hast {past} my {noun}.",
    "{cry}, what {adj} {noun} is this?",
    "The {noun} {goes} {adverb}, and all our {nouns} are {past}.",
    "Thou art a {adj} {noun}, {Name}, and I {verb} thee not.",
    "What says the {noun} of the {noun}?",
    "If the {noun} {goes} {where}, then let the {noun} {verb} it.",
    "{cry}, {title} {Name}! The {adj} {nouns} have {past} the {noun}.",
    "Shall I {verb} the {noun} that I have {past}?",
    "No {noun} so {adj} as the {noun} of {title} {Name}.",
    "Let him {verb} his {nouns}, and {verb} my {noun} {adverb}.",
    "He {goes}; she {goes}; the {nouns} {verb} us {where}.",
    "{cry}, I have {past} my {noun} {where}.",
    "And {adverb} the {adj} {noun} {goes}.",
    "Where is the {noun}? Who hath {past} the {adj} {noun}?",
    "{Name}, {verb} me {adverb}, or {verb} me not.",
)
LINE = 44  # characters after which a line is broken
LENGTH = 1115394
TRAIN = 1003854  # int(0.9 * LENGTH)
ARCHIVE = Archive(
    "input.txt",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    LENGTH,
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)


def write_plays(seed: int, length: int) -> bytes:
    """Write `length` ASCII characters of plays from a small grammar and vocabulary.

    A sentence is a pattern whose slots are filled with words, frequent ones first (Zipf); speakers address each other
    by name and keep to a scene, so a model can learn letters, words, lines and speeches.
    """
    random = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, 1623])))
    pick = _picker(random)
    pieces: list[str] = []
    written = 0
    while written < length:
        for piece in _scene(pick):
            pieces.append(piece)
            written += len(piece)
    return "".join(pieces).encode("ascii")[:length]


def _picker(random: np.random.Generator) -> Callable[[tuple[str, ...]], str]:
    """A function that picks a word, the first ones most often; draws in blocks, since single draws are slow."""
    edges: dict[int, list[float]] = {}

    def draws() -> Iterator[float]:
        while True:
            yield from random.random(65536).tolist()

    stream = draws()

    def pick(words: tuple[str, ...]) -> str:
        size = len(words)
        if size not in edges:
            total = sum(1 / (rank + 2) for rank in range(size))
            edges[size] = list(accumulate(1 / (rank + 2) / total for rank in range(size)))
        draw = next(stream)
        return next((word for word, edge in zip(words, edges[size], strict=True) if draw < edge), words[-1])

    return pick


def _scene(pick: Callable[[tuple[str, ...]], str]) -> Iterator[str]:
    """Two to four speakers who answer each other in turn."""
    speakers = tuple(dict.fromkeys(pick(LISTS["name"]) for _ in range(4)))
    if len(speakers) < 2:
        return
    last = ""
    for _ in range(12):
        speaker = pick(tuple(name for name in speakers if name != last))
        others = tuple(name.title() for name in speakers if name != speaker)
        sentences = " ".join(_sentence(pick, others) for _ in range(int(pick(("2", "1", "3", "4")))))
        yield f"{speaker}:\n{_lines(sentences)}\n\n"
        last = speaker


def _sentence(pick: Callable[[tuple[str, ...]], str], others: tuple[str, ...]) -> str:
    words = []
    for piece in pick(PATTERNS).split("{"):
        slot, brace, rest = piece.partition("}")
        if not brace:
            words.append(piece)
        elif slot == "Name":
            words.append(pick(others) + rest)
        else:
            words.append(pick(LISTS[slot]) + rest)
    return "".join(words)


def _lines(text: str) -> str:
    """Broken into lines that begin with a capital, as verse is."""
    lines, line = [], ""
    for word in text.split(" "):
        if len(line) + len(word) > LINE:
            lines.append(line)
            line = word[0].upper() + word[1:]
        else:
            line = f"{line} {word}" if line else word
    return "\n".join([*lines, line])


def split(text: bytes) -> Arrays:
    """Training and test text, uint8 codes."""
    codes = np.frombuffer(text, np.uint8)
    return {"train_text": codes[:TRAIN], "test_text": codes[TRAIN:]}


def from_files(folder: Path) -> Arrays:
    """Read input.txt; raises StudyError when its length or its codes differ from the original's."""
    path = require(folder, ARCHIVE)
    text = b"".join(unpacked(path))
    if len(text) != LENGTH:
        raise StudyError(f"{path} is cut or another file: it holds {len(text)} characters, expected {LENGTH}")
    if max(text) == 255:
        raise StudyError(f"{path} is corrupted or another file: it holds the code 255, which no text has")
    return split(text)


def from_tfds(root: Path) -> Arrays:
    """Download and read with TensorFlow Datasets."""
    builder = open_builder("tiny_shakespeare", root)
    return split(b"".join(builder.as_data_source(part)[0]["text"] for part in ("train", "validation", "test")))


def standin(seed: int) -> Arrays:
    """Invented plays of the same length."""
    return split(write_plays(seed, LENGTH))


RECIPE = Recipe(
    name="tiny_shakespeare",
    description="1,115,394 characters from Shakespeare's plays, as codes under 255",
    citation="Karpathy, A.: char-rnn. 2015. https://github.com/karpathy/char-rnn",
    licence="public domain",
    archives=(ARCHIVE,),
    arrays={"train_text": Array((TRAIN,), "uint8"), "test_text": Array((LENGTH - TRAIN,), "uint8")},
    counted={"train_characters": "train_text", "test_characters": "test_text"},
    from_files=from_files,
    from_tfds=from_tfds,
    standin=standin,
    tfds_name="tiny_shakespeare",
    standin_note="invented plays, generated from the seed; same length as the original, other text",
)
