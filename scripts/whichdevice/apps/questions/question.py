"""A question about one model, what of it has to be counted, and what shows that it cannot be answered."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.decide import MeasuredCell, Row, Wants
from whichdevice.forecast.products import GENERATING, ProgramRequest
from whichdevice.forecast.targets import GPU_COUNTS, NODES, Target, usual_precision
from whichdevice.models.address import known_on_hub
from whichdevice.models.consistency import check_declared
from whichdevice.models.framework import BACKENDS, FRAMEWORKS, KERAS
from whichdevice.models.hugging_face import configuration
from whichdevice.models.loading import Model
from whichdevice.models.objectives import DEFAULT, usual_objective
from whichdevice.models.script.found import Keeps
from whichdevice.models.workloads.base import NO_GENERATION

IMPORTED = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
LONGEST_NAME = 64  # of a workload, as a config takes it


@dataclass(frozen=True)
class Question:
    """The question that a person asks about one model, on the command line or in Python."""

    model: Model
    wants: Wants = field(default_factory=Wants)
    devices: tuple[str, ...] | None = None  # names, or `all`; None: common ones
    gpus: tuple[int, ...] | None = None  # None: one, and more where that is too few, or as many as a script asks for
    mode: str = "train"
    batch: int | None = None
    sequence_length: int | None = None
    precision: str | None = None  # of the forecasts; None: of the script, else mixed
    options: Mapping[str, Any] = field(default_factory=dict)
    largest: bool = False
    longest: bool = False  # whether the longest sequence that fits is found, too
    measuring: bool = True
    script_arguments: tuple[str, ...] = ()

    @property
    def fixed(self) -> Keeps:
        """Return what the number of GPUs does not change: a named batch is shared, a script's may be of each."""
        script, wants = self.model.found if self.mode == "train" else None, self.wants
        if script is None or script.keeps == "batch" or self.batch is not None:
            return "batch"
        by_steps = wants.steps or not (wants.examples or wants.tokens or script.keeps == "examples")
        return "steps" if by_steps else "examples"

    @property
    def counts(self) -> tuple[int, ...]:
        """The numbers of GPUs: those that are named, else as many as a script with a batch on each asks for."""
        script = self.model.found
        if self.gpus is not None or script is None or self.fixed == "batch" or self.wants.only_free:
            return self.gpus or (1,)
        return (max(count for count in (*GPU_COUNTS, *NODES) if count <= (script.asks or 1)),)

    @property
    def length(self) -> int | None:
        """The length of the sequences: the one that is named, else the model's own; None where it has none."""
        return self.sequence_length or self.options.get("length") or self.model.recipe.sequence_length

    def batch_size(self, gpus: Sequence[int] = ()) -> int:
        """Examples of a step on all devices that share it, of so many GPUs or of those that are asked about.

        A model by its name alone has its usual batch on each GPU. Raises StudyError where a script has
        another batch on each GPU.
        """
        script, given = self.model.found, self.batch
        batches = {(1 if script is None else script.batch_size) * count for count in (1, *(self.gpus or ()))}
        if script is not None and given is not None and given not in batches:
            raise StudyError(
                f"--batch: the batch is the script's, {script.batch_size}: change it there, or by its arguments"
            )
        most = max(gpus or self.counts) if self.fixed == "batch" else 1
        gpus_each = min(most, GPU_COUNTS[-1]) if self.model.address.kind == "hub" else 1
        return given or max(self.model.recipe.batch_size * gpus_each, most)


def with_objective(question: Question) -> Question:
    """Return the question with what a model of Hugging Face is trained for, where its name alone says it."""
    address = question.model.address
    if question.mode != "train" or address.kind != "hub" or "objective" in question.options:
        return question
    name = known_on_hub(address.function) or address.function
    usual = usual_objective(name, lambda: configuration(address.function).task)
    return question if usual == DEFAULT else replace(question, options={"objective": usual, **question.options})


def requests_of(question: Question, targets: Sequence[Target], gpus: Sequence[int] = (1,)) -> list[ProgramRequest]:
    """Return what has to be counted: the step on each device in the number format that people use there.

    The batch is shared by the devices, which a batch that they cannot share evenly leaves out; a script's may be of
    each. Raises StudyError where no device has the number format.
    """
    model, generates = question.model, question.mode == "generate"
    precision = question.precision or script_precision(model)
    refusals = [one.refusal(usual_precision(one, precision), one.row.software[-1]) for one in targets]
    if refusals and None not in refusals:
        raise StudyError(f"--precision: {refusals[0]}")
    modes: tuple[Any, ...] = GENERATING if generates else (question.mode,)
    batch = question.batch_size(gpus)
    requests = []
    for size in sorted({1, batch}) if generates else [batch]:
        for target in targets:
            examples = size if question.fixed == "batch" else size * target.devices
            chosen = usual_precision(target, precision, model.usual_format)
            requests += [
                ProgramRequest(
                    device=target.device, devices=target.devices, workload=config_name(model), module=model.text,
                    precision=chosen, batch_size=examples, mode=mode, sequence_length=question.length,
                    options=dict(question.options), largest_batch=question.largest, longest_sequence=question.longest,
                )
                for mode in modes
                if examples % target.devices == 0
            ]  # fmt: skip
    return requests


@dataclass(frozen=True)
class Here:
    """Facts of the step on this machine."""

    cells: tuple[MeasuredCell, ...] = ()
    unmeasured: Row | None = None  # where it takes too long to be measured, or does not run or fit
    kept_from: str | None = None  # when it was measured, if no process of this call did


def check(question: Question) -> None:
    """Raise StudyError where a model has no such mode, option or sequence, as far as that shows without running it."""
    model, mode = question.model, question.mode
    if model.declared is not None:
        check_declared(model.declared, model.label)
    check_mode(model, mode)
    if question.options and not model.may_read_options:
        raise StudyError(f"--option: {model} reads none; leave it out")
    if (question.sequence_length or question.options.get("length")) and not model.has_sequences:
        raise StudyError(f"--sequence-length: {model} has no sequences; leave it out")


def script_precision(model: Model) -> str:
    """Return the number format of a script; mixed for any other model."""
    return "mixed" if model.found is None else model.found.precision


def first_backend(model: Model) -> str:
    """Return the backend that measures here: the one of a PyTorch or JAX model; of a Keras model, one that it imports.

    Raises StudyError where none is installed.
    """
    from whichdevice.measure.backends import backend_class

    framework = model.framework
    installed = [name for name in BACKENDS[framework] if find_spec(backend_class(name).package) is not None]
    if not installed and framework != KERAS:
        raise StudyError(
            f"{model} is {FRAMEWORKS[framework]}, whose framework is not installed here: pip install {framework}"
        )
    if not installed:
        raise StudyError("no TensorFlow, JAX or PyTorch is installed: in the project's folder, pip install '.[jax]'")
    texts = [path.read_text("utf-8", "replace") for path in model.address.files() if path.suffix == ".py"]
    imported = {name for text in texts for name in IMPORTED.findall(text)}
    return next((name for name in installed if name in imported), installed[0])


def check_mode(model: Model, mode: str) -> None:
    """Raise StudyError where a workload has no such mode, as far as that shows without its model."""
    if mode != "train" and not model.has_model:
        raise StudyError(f"--mode {mode}: {model} is a single operation")
    if mode == "generate" and not model.generates:
        raise StudyError(f"{model}: {NO_GENERATION}")


def config_name(model: Model) -> str:
    """A name for the workload that a config takes, from its address."""
    stem = re.sub(r"[^A-Za-z0-9_.]", "_", model.name)
    return (stem if stem[:1].isalpha() else f"model_{stem}")[:LONGEST_NAME]
