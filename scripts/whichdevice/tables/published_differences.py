"""How a measured cell differs from the case that was published: what forbids a ratio, and what is said beside it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from whichdevice.tables.claims import number
from whichdevice.tables.measured_values import OPERATIONS
from whichdevice.tables.row_words import epochs_words

QUALITY_TEST_IMAGES = 10_000
PRECISION, LOOP = "float32", "fit"  # what a publication is taken to have used where it does not say
VALIDATION, YES, NO = "validation", "yes", "no"  # whether a published time holds validation, as Keras' own times do
STEPS = ("step_time", "sample_time", "first_epoch_time", "learned_epoch_time")  # times of training alone


class Matching(NamedTuple):
    """Where the summary holds what a published metric means."""

    column: str
    n: str  # column with the number of runs
    scale: float = 1.0
    per_epoch: bool = False  # depends on the number of steps in an epoch
    learned: bool = False  # depends on the number of epochs learned
    quality: bool = False  # depends on the data
    higher_is_better: bool = False


def unlike_words(entry: Mapping[str, str], matching: Matching, cell: pd.Series) -> Iterator[str]:
    """What makes the measured case another one than the published, so that no ratio may be given."""
    if entry["metric"] == "tpu_init_time" and cell["kind"] != "tpu":
        yield f"published: initialisation of a TPU; measured: of a {cell['kind']}"
    for name, text in [("sequence_length", "steps per sequence"), ("steps_per_epoch", "steps per epoch")]:
        wanted = number(entry.get(name, ""))
        found = cell["steps_per_sequence" if name == "sequence_length" else name]
        relevant = name == "sequence_length" or matching.per_epoch
        if relevant and wanted and (pd.isna(found) or wanted != found):
            yield f"measured with {'unknown' if pd.isna(found) else int(found)} {text}, published with {wanted:g}"
    if matching.per_epoch and cell["fraction"] != 1.0:
        yield f"measured on {cell['fraction']:g} of the training data"
    epochs = number(entry.get("epochs", ""))
    learned = {epoch for epoch in (cell["fewest_epochs"], cell["learned_epochs"]) if pd.notna(epoch)}
    if matching.learned and epochs and learned and learned != {epochs}:
        yield f"learned for {epochs_words(cell)}, published after {epochs:g}"
    if matching.quality and "standin" in str(cell["source"]):
        yield "learned on stand-in data"
    if (
        entry["metric"] == "misclassified"
        and pd.notna(cell["test_images"])
        and cell["test_images"] != QUALITY_TEST_IMAGES
    ):
        yield "evaluated on another number of images"


def remarks(entry: Mapping[str, str], matching: Matching, cell: pd.Series) -> Iterator[str]:
    """What is to be known of a measured case beside a ratio."""
    if not entry["batch_size"]:
        size = "N" if cell["module"] == "matmul" else "batch size"
        yield f"{size} not published; the best measured one is shown"
    if not matching.quality and "standin" in str(cell["source"]):
        yield "stand-in data of the same shapes"
    if entry["metric"] == "tpu_init_time":
        return
    if cell["precision"] != (precision := their_precision(entry)):
        known = "is in" if entry.get("precision") else "is taken for"
        yield f"measured in {cell['precision']}; the published number {known} {precision}"
    if cell["loop"] != LOOP and cell["unit"] not in OPERATIONS and not matching.quality:
        yield f"measured with loop {cell['loop']}; the published number is taken for plain {LOOP}"
    yield from _validation_remarks(entry, matching, cell)


def _validation_remarks(entry: Mapping[str, str], matching: Matching, cell: pd.Series) -> Iterator[str]:
    """Whether just one of the two times holds validation, as far as the source tells."""
    theirs, ours = entry.get(VALIDATION, ""), pd.notna(cell["validation_time"])
    if matching.column == "learned_epoch_time" and pd.notna(cell[matching.column]) and theirs == YES and ours:
        return  # it was added
    if matching.column in STEPS or (matching.column == "learning_time" and not ours):
        if theirs != NO and cell["unit"] not in OPERATIONS:
            yield f"without validation, which the published time {'holds' if theirs == YES else 'may hold'}"
    elif matching.column == "learning_time" and theirs != YES:
        yield f"with validation, which the published time {'does not hold' if theirs == NO else 'may not hold'}"


def their_precision(entry: Mapping[str, str]) -> str:
    """The number format of a published figure, as far as it is known."""
    return entry.get("precision") or PRECISION
