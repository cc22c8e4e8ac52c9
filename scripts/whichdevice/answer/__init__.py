"""One answer from the tables of a study: rows of devices, their costs, a decision and its words. Pure functions.

`answers` is what terminal, report, page, JSON and notebook show. Nothing else compares devices, prices a training or
words a decision.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from whichdevice.answer.decide import Amount, Answer, Option, Wants, amount_of, decide
from whichdevice.answer.rows import Row, Work, works
from whichdevice.answer.words import lines
from whichdevice.config.hardware import HardwareRow
from whichdevice.models.data import LEAST_BATCHES
from whichdevice.models.loading import Model
from whichdevice.models.pipeline import best_and_written
from whichdevice.models.shapes import named

__all__ = ["Amount", "Answer", "Option", "Row", "Wants", "Work", "answers"]


def answers(
    summary: pd.DataFrame,
    costs: pd.DataFrame,
    forecasts: pd.DataFrame,
    wants: Wants | None = None,
    hardware: Mapping[str, str | None] = {},
    sheet: Mapping[str, HardwareRow] = {},
    every_batch: bool = False,
    unmeasured: Row | None = None,
) -> list[Answer]:
    """An answer for each piece of work of these tables, those that train first and single operations last.

    `unmeasured` is the row of this machine where the tables have none.

    Raises StudyError where the size that is asked for does not suit the work.
    """
    wants = wants or Wants()
    found = []
    for work in works(summary, costs, forecasts, hardware, sheet, every_batch):
        epochs, units = training_size(work)
        if unmeasured is not None:
            work = replace(work, rows=(unmeasured, *work.rows))
        work = replace(work, sequence_length=work.sequence_length or _tokens(work), **_pipeline(work))
        decided = decide(work, wants, amount_of(work, wants, epochs, units))
        found.append(replace(decided, words=tuple(lines(decided))))
    return sorted(found, key=lambda answer: answer.work.mode == "operation")


def training_size(work: Work) -> tuple[int | None, float | None]:
    """Epochs of a training and the examples of one, as far as somebody chose them rather than this program."""
    model = Model.find(work.module)
    if model is None:
        return None, work.epoch_units
    if (found := model.found) is not None:  # a script's training is what it is
        return found.epochs, found.examples
    recipe = model.recipe
    if recipe.steps_per_epoch:
        return recipe.epochs or 1, float(recipe.steps_per_epoch * recipe.batch_size)
    declared = model.declared
    stated = None if declared is None else declared.dataset_examples or declared.examples
    own = model.has_own_data or stated is not None
    units = stated or work.epoch_units
    if not own or not units or units < LEAST_BATCHES * work.batch:
        return recipe.epochs or None, None
    return recipe.epochs or 1, float(units)


def _tokens(work: Work) -> int | None:
    """Tokens of an example, where the file's input is a sequence of whole numbers with a fixed length."""
    model = Model.find(work.module)
    declared = None if model is None else model.declared
    inputs = [] if declared is None else named(declared.input, "input").values()
    whole = [each for each in inputs if len(each.shape) == 1 and each.below and each.dtype.startswith(("int", "uint"))]
    return max((each.shape[0] or 0 for each in whole), default=0) or None


def _pipeline(work: Work) -> dict[str, Any]:
    """The rates at which a script's pipeline gives examples here, and remarks on the script."""
    model = Model.find(work.module)
    found = None if model is None else model.found
    if found is None or work.mode != "train":
        return {}
    known = best_and_written(found.pipeline) if found.pipeline else {}
    return known | {"remarks": (*work.remarks, *found.notes)}
