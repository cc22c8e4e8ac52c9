"""Tiny Shakespeare: 1,115,394 characters of plays as codes under 255, and random words as its stand-in.

The first 90 % trains, as in TensorFlow Datasets; its validation and test splits together are the test text.
"""

from pathlib import Path

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.base import Archive, Array, Arrays, Recipe
from whichdevice.models.datasets.download import open_builder, require, unpacked

SPEAKERS = ("BERTRAM", "ISOLDE", "CORDELL", "MARIANA", "OSWIN", "LUCETTA")
VOCABULARY = (
    "the", "my", "thy", "a", "good", "noble", "sweet", "false", "heart", "king", "night", "love", "sword", "crown",
    "hand", "blood", "friend", "father", "grave", "storm", "comes", "falls", "speaks", "waits", "never", "again",
)  # fmt: skip
TEXT_LENGTH = 1115394
TRAIN = 1003854  # int(0.9 * TEXT_LENGTH)
ARCHIVE = Archive(
    "input.txt",
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    TEXT_LENGTH,
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)


def write_plays(seed: int, length: int) -> bytes:
    """Write `length` ASCII characters of speeches in random words, frequent ones first (Zipf)."""
    random = np.random.default_rng([seed, 1623])
    share = 1 / np.arange(2, len(VOCABULARY) + 2)
    pieces: list[str] = []
    written = 0
    while written < length:
        words = random.choice(VOCABULARY, 8, p=share / share.sum())
        pieces.append(f"{random.choice(SPEAKERS)}:\n{' '.join(words).capitalize()}.\n\n")
        written += len(pieces[-1])
    return "".join(pieces).encode("ascii")[:length]


def split(text: bytes) -> Arrays:
    """Training and test text, uint8 codes."""
    codes = np.frombuffer(text, np.uint8)
    return {"train_text": codes[:TRAIN], "test_text": codes[TRAIN:]}


def from_files(folder: Path) -> Arrays:
    """Read input.txt; raises StudyError when its length or its codes differ from the original's."""
    path = require(folder, ARCHIVE)
    text = b"".join(unpacked(path))
    if len(text) != TEXT_LENGTH:
        raise StudyError(f"{path} is cut or another file: it holds {len(text)} characters, expected {TEXT_LENGTH}")
    if max(text) == 255:
        raise StudyError(f"{path} is corrupted or another file: it holds the code 255, which no text has")
    return split(text)


def from_tfds(root: Path) -> Arrays:
    """Download and read with TensorFlow Datasets."""
    builder = open_builder("tiny_shakespeare", root)
    return split(b"".join(builder.as_data_source(part)[0]["text"] for part in ("train", "validation", "test")))


def standin(seed: int) -> Arrays:
    """Return random words of the same length."""
    return split(write_plays(seed, TEXT_LENGTH))


RECIPE = Recipe(
    name="tiny_shakespeare",
    description="1,115,394 characters from Shakespeare's plays, as codes under 255",
    citation="Karpathy, A.: char-rnn. 2015. https://github.com/karpathy/char-rnn",
    licence="public domain",
    archives=(ARCHIVE,),
    arrays={"train_text": Array((TRAIN,), "uint8"), "test_text": Array((TEXT_LENGTH - TRAIN,), "uint8")},
    counted={"train_characters": "train_text", "test_characters": "test_text"},
    from_files=from_files,
    from_tfds=from_tfds,
    standin=standin,
    tfds_name="tiny_shakespeare",
    standin_note="random words, generated from the seed; same length as the original, other text",
)
