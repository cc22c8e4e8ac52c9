"""The answer from measured cells and forecasts: rows of devices, their costs, a decision and its words. Pure functions.

`answers` is what terminal, report, page, JSON and notebook show. Nothing else compares devices, prices a training or
words a decision.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.decide.decide import Amount, Answer, Option, Reason, RuledOut, Wants, amount_of, decide, turns
from whichdevice.decide.measured import MeasuredCell
from whichdevice.decide.rows import AskedWork, Row, works
from whichdevice.forecast.answer import Forecast
from whichdevice.forecast.lived import decodes_images, read_habits
from whichdevice.models.data import MIN_BATCHES
from whichdevice.models.loading import Model
from whichdevice.models.pipeline import best_and_written
from whichdevice.models.script.found import Keeps
from whichdevice.models.shapes import named

__all__ = ["Amount", "Answer", "AskedWork", "MeasuredCell", "Option", "Reason", "Row", "RuledOut", "Wants", "answers"]


def answers(
    measured: Sequence[MeasuredCell],
    forecasts: Sequence[Forecast],
    wants: Wants | None = None,
    hardware: Mapping[str, str | None] = {},
    sheet: Mapping[str, HardwareRow] = {},
    every_batch: bool = False,
    unmeasured: Row | None = None,
    options: Mapping[str, Mapping[str, Any]] = {},
    fixed: Keeps = "batch",
) -> list[Answer]:
    """Return an answer for each piece of work of measured cells and forecasts; single operations come last.

    `unmeasured` is the row of this machine where no cell is of it; `options` has each workload's own; `fixed` is what
    does not change with the number of devices.
    Raises StudyError where the size that is asked for does not suit the work.
    """
    wants = wants or Wants()
    decided = []
    for work in works(measured, forecasts, hardware, sheet, every_batch, fixed):
        model = Model.find(work.module)
        epochs, units = training_size(work, model)
        if unmeasured is not None:
            work = replace(work, rows=(unmeasured, *work.rows))
        work = replace(
            work, tokens=_tokens(model), options=options.get(work.workload, {}), **_of_script(work, model),
            tunable=model is not None and model.tunable,
        )  # fmt: skip
        amount = amount_of(work, wants, epochs, units)
        answer = decide(work, wants, amount)
        unnamed = not amount.given and work.mode != "operation" and answer.pick is not None
        decided.append(replace(answer, turns=turns(work, wants, amount)) if unnamed else answer)
    return sorted(decided, key=lambda answer: answer.work.mode == "operation")


def training_size(work: AskedWork, model: Model | None) -> tuple[int | None, float | None]:
    """Return epochs of a training and the examples of one, as far as somebody chose them rather than this program."""
    if model is None:
        return None, work.epoch_units
    if (script := model.found) is not None:  # a script's training is what it is
        return script.epochs, script.examples
    recipe = model.recipe
    if recipe.steps_per_epoch:
        return recipe.epochs or 1, float(recipe.steps_per_epoch * recipe.batch_size)
    declared = model.declared
    own_examples = None if declared is None else declared.dataset_examples or declared.examples
    chosen = model.has_own_data or own_examples is not None
    units = own_examples or work.epoch_units
    if not chosen or not units or units < MIN_BATCHES * work.batch:
        return recipe.epochs or None, None
    return recipe.epochs or 1, float(units)


def _tokens(model: Model | None) -> int | None:
    """Tokens of an example, where the file's input is a sequence of whole numbers with a fixed length."""
    declared = None if model is None else model.declared
    inputs = [] if declared is None else named(declared.input, "input").values()
    sequences = [one for one in inputs if len(one.shape) == 1 and one.below and one.dtype.startswith(("int", "uint"))]
    return max((one.shape[0] or 0 for one in sequences), default=0) or None


def _of_script(work: AskedWork, model: Any) -> dict[str, Any]:
    """The rates at which a script's pipeline gives examples here, its habits, and remarks on the script."""
    script = None if model is None else model.found
    if script is None or work.mode != "train":
        return {}
    examples = script.examples
    if examples and work.fixed == script.keeps == "steps":  # an epoch has so many steps on any number of GPUs
        examples *= work.most_devices
    return {
        **(best_and_written(script.pipeline) if script.pipeline else {}),
        "between": script.between, "lived": read_habits(), "decodes": decodes_images(model.address.files()),
        "evaluations": script.evaluations, "script_examples": examples,
        "for_several": script.asks is None, "remarks": (*work.remarks, *script.notes), "unknown": script.unknown,
    }  # fmt: skip
