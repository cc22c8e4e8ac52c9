"""A study of one model: measured on this machine, forecast for others, and answered through the tables of every study.

asked = OneModel(question, targets)
answers = asked.answers(asked.measure(), asked.forecast())
"""

import io
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import counted, duration
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.base.terminal import Countdown, LiveLine
from whichdevice.decide import Answer, Row, Wants, answers
from whichdevice.decide.rows import PARTS, estimated, timed, without_time
from whichdevice.forecast.products import CompiledRecord, read_compiled
from whichdevice.forecast.targets import GPU_COUNTS, NODES, Target, software_of
from whichdevice.measure.record import Record
from whichdevice.models.address import known_on_hub
from whichdevice.models.hugging_face import configuration
from whichdevice.models.loading import Model
from whichdevice.models.objectives import DEFAULT, usual_objective
from whichdevice.models.script.found import Keeps
from whichdevice.study.config.load import load_study, resolved, write_study
from whichdevice.study.config.model import LONGEST_NAME, Study
from whichdevice.study.programs import compile_study, compiled_path, program_requests

EFFICIENCY = 0.5  # of a training step against a plain product, on a CPU
THIS_MACHINE = "this_machine"  # the study's name for it
PROCESSES = 3  # that measure the step here
PROCESS_SECONDS, PROGRAM_SECONDS = 15.0, 6.0  # guesses until the first one is finished
LONGEST_STEP = 60.0  # seconds; a step that takes longer here is estimated instead
BYTES_PER_SECOND = 10e9  # of a CPU's memory, assumed
SHOWN_EVERY = 1.5  # seconds at least between two drawings
IMPORTED = re.compile(r"^[ \t]*(?:import|from)[ \t]+(\w+)", re.MULTILINE)
LONG_SECONDS = 120.0  # of one process, after which two are enough: the interval of two is wide


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
        """What does not change with the number of GPUs: a batch that is named is shared; a script's may be of each."""
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


def with_objective(question: Question) -> Question:
    """Return the question with what a model of Hugging Face is trained for, where its name alone says it."""
    address = question.model.address
    if question.mode != "train" or address.kind != "hub" or "objective" in question.options:
        return question
    name = known_on_hub(address.function) or address.function
    usual = usual_objective(name, lambda: configuration(address.function).task)
    return question if usual == DEFAULT else replace(question, options={"objective": usual, **question.options})


@dataclass
class OneModel:
    """The question about one model on these devices; raises StudyError on a wrong file, batch, option or mode."""

    question: Question
    targets: Sequence[Target]
    gpus: Sequence[int] = (1,)
    left: "TimeLeft" = field(default_factory=lambda: TimeLeft())
    unmeasured: Row | None = None  # this machine, where a step takes too long to be measured or does not fit
    kept_from: str | None = None  # when the records were measured, if no process of this call did
    study: Study = field(init=False)

    def __post_init__(self) -> None:
        self.question = with_objective(self.question)
        self.model = self.question.model
        self.study = self._study()

    def _study(self) -> Study:
        """One workload at one batch size; of mode generate for one sequence, too."""
        from whichdevice.models.consistency import check_declared
        from whichdevice.study.cells import study_runs, with_model_settings
        from whichdevice.study.planning.checks import check_cells, check_study

        question, model = self.question, self.model
        if model.declared is not None:
            check_declared(model.declared, model.label)
        check_mode(self.model, question.mode)
        generates = question.mode == "generate"
        step = step_settings(question, max(self.gpus) if question.fixed == "batch" else 1)
        batch = step["batch_size"]
        of_each = [] if question.fixed == "batch" else sorted({batch * target.devices for target in self.targets})
        workload = step | {
            "batch_size": sorted({1, batch}) if generates else batch,
            "backend": step.get("backend") or first_backend(self.model),
        }
        values: dict[str, Any] = {
            "study": "ask",
            "devices": {THIS_MACHINE: {"kind": "cpu"}},
            "measure": {"seconds": 1.0, "min_steps": 1, "repeats": PROCESSES, "retry_disturbed": False},
            "train": {"epochs": 0, "repeats": 0},
            "forecast": {
                "devices": [*dict.fromkeys(one.slice.name if one.slice else one.device for one in self.targets)],
                "gpus": list(self.gpus),
                "precision": [question.precision or script_precision(model)],
                "batch_size": of_each or None,
                "largest_batch": question.largest,
                "longest_sequence": question.longest,
            },
            "data": {"source": "standin", "sources": {model.dataset: "standin"} if model.dataset else {}},
            "workloads": {config_name(self.model): workload},
        }  # fmt: skip
        study = resolved(with_model_settings(load_study(values, "ask")))
        check_study(study)
        check_cells(study, study_runs(study), {})
        return study

    def forecast(self, show: Callable[[list[Path]], object] | None = None) -> list[Path]:
        """Return paths of the records of its programs; what was compiled before, by any command, is read.

        On a terminal `show` gets the paths of the records that are there so far.
        """
        targets = {(target.device, target.devices) for target in self.targets}  # a study has all devices in all numbers
        requests = [one for one in program_requests(self.study) if (one.device, one.devices) in targets]
        if self.question.fixed != "batch":
            of_each = int(step_settings(self.question)["batch_size"])
            requests = [one for one in requests if one.batch_size == one.devices * of_each]
        paths = [compiled_path(self.study, request) for request in requests]
        self.left.forecasts = Countdown(len(paths), PROGRAM_SECONDS)
        devices = counted(len(self.targets), "device")
        known: list[CompiledRecord] = []
        shown = 0.0
        with (
            self.left.line(lambda: f"forecasting for {devices}", f"forecasting for {devices}") as line,
            redirect_stderr(_Waits(line)),  # of each compile's phases the line says enough
        ):

            def finish(_: int, record: CompiledRecord) -> None:
                nonlocal shown
                self.left.forecasts.finish()
                known.append(record)
                if show is not None and len(known) < len(paths) and time.monotonic() - shown > SHOWN_EVERY:
                    there = [path for path in paths if path.is_file()]
                    line.above(lambda: show(there))
                    shown = time.monotonic()

            compile_study(self.study, paths, None, on_record=finish, waits=self.question.measuring)
        self.left.forecasts.pieces = self.left.forecasts.done
        return paths

    def measure(self, compiled: Sequence[Path] = ()) -> list[Path]:
        """Return paths of the records of three processes here; of long ones two. Those that exist are read.

        None is made where a traced step, of `compiled`, would take longer than a minute here: `unmeasured` has an
        estimate then.
        Raises StudyError where the model fails here, and no forecast shows that it runs elsewhere; one that does not
        fit is a record that says so.
        """
        from whichdevice.study.cells import study_runs
        from whichdevice.study.measure import measure
        from whichdevice.study.request import planned_record

        here, eager = THIS_MACHINE.replace("_", " "), software_of(self.model.text) == "eager"
        reasons = {record.status: record.reason for record in map(read_compiled, filter(Path.is_file, compiled))}
        if eager and "ok" not in reasons and (failed := reasons.get("failed")):  # a trace fails where the model does
            raise StudyError(failed)
        if self.model.found is not None and eager:
            self.unmeasured = self._estimate(compiled) or self._timed(here)
            return []
        if only_on_gpu := self._only_on_gpu():
            self.unmeasured = without_time(here, only_on_gpu)
            return []
        runs = study_runs(self.study)
        paths = [Path(planned_record(self.study, run)) for run in runs]
        records = [_kept(path) for path in paths]

        def enough(number: int) -> bool:
            """Whether the records of that run's cell say all: it does not run here, or takes so long that two do."""
            same = zip(records, runs, strict=True)
            earlier = [record for record, run in same if record is not None and run.cell == runs[number].cell]
            long = any((record.ended - record.started).total_seconds() > LONG_SECONDS for record in earlier)
            return any(record.status != "ok" for record in earlier) or (long and len(earlier) > 1)

        missing = [number for number, record in enumerate(records) if record is None and not enough(number)]
        if len(missing) == len(runs):
            self.unmeasured = self._estimate(compiled)
            if self.unmeasured is not None:
                return []

        def doing() -> str:
            return f"measuring {self.model} here: process {self.left.processes.done + 1} of {len(missing)}"

        self.left.processes = Countdown(len(missing), PROCESS_SECONDS)
        if missing:
            self._prepare_data()
            with self.left.line(doing, f"measuring {self.model} here") as line, tempfile.TemporaryDirectory() as folder:
                config = Path(folder) / "config.yaml"
                write_study(self.study, config)
                for number in missing:
                    if not enough(number):
                        records[number] = measure(
                            config, paths[number], Path(folder) / "run.log", io.StringIO(), line.line
                        )
                        self.left.processes.finish()
                        if records[number].status == "failed":  # type: ignore[union-attr]
                            break
        recorded = [record for record in records if record is not None]
        if failed := next((f"{record.reason}" for record in recorded if record.status == "failed"), None):
            if "ok" not in reasons:
                raise StudyError(f"{self.model}: {failed}")
            self.unmeasured = without_time(here, failed)
            return []
        if not missing:
            self.kept_from = max(record.ended for record in recorded).astimezone().strftime("%d %B %Y, %H:%M")
        return [path for path, record in zip(paths, records, strict=True) if record is not None]

    def _estimate(self, compiled: Sequence[Path]) -> Row | None:
        """This machine by the operations and bytes of a traced step, where it takes too long or too much memory."""
        from whichdevice.base.memory import total_memory
        from whichdevice.measure.machine.calibration import host_flops

        traced = [record for path in compiled if path.is_file() for record in [read_compiled(path)]]
        alone = (trace for trace in traced if trace.facts and trace.facts.memory_parts and trace.asked.devices == 1)
        one = next(alone, None)
        if one is None or one.facts is None or one.asked.mode == "decode" or one.asked.mode == "prefill":
            return None
        wider = 2.0 if one.asked.precision != "float32" else 1.0  # a CPU takes the step in float32
        operations, nbytes = one.facts.operations or 0.0, (one.facts.nbytes or 0.0) * wider
        step = operations / (EFFICIENCY * host_flops()) + nbytes / BYTES_PER_SECOND
        needed, available = sum(one.facts.memory_parts.get(name, 0.0) for name in PARTS), float(total_memory() or 0)
        if needed <= available and step <= LONGEST_STEP:
            return None
        return estimated(THIS_MACHINE.replace("_", " "), step, needed, available)

    def _timed(self, here: str) -> Row:
        """This machine by a few steps of a PyTorch script here."""
        from whichdevice.models.script.look import seconds_here

        def doing() -> str:
            return f"measuring {self.model} here"

        with self.left.line(doing, doing()):
            try:
                return timed(here, seconds_here(self.model.address))
            except StudyError as error:
                return without_time(here, str(error))

    def _only_on_gpu(self) -> str | None:
        """Why no CPU runs a PyTorch model's step; None where one does."""
        from whichdevice.models.torch_model import TorchFile
        from whichdevice.models.workloads.base import Options

        workload = self.model.workload(Options(1, given=dict(self.question.options)))
        return workload.only_on_gpu if isinstance(workload, TorchFile) else None

    def _prepare_data(self) -> None:
        from whichdevice.study.prepare import STANDIN_SEED, prepare_dataset
        from whichdevice.study.request import dataset_folder, dataset_of

        dataset = dataset_of(self.study, next(iter(self.study.workloads)))
        if dataset is not None:
            folder = dataset_folder(self.study, dataset)
            if not folder.joinpath("dataset.json").is_file():
                prepare_dataset(dataset, "standin", None, STANDIN_SEED, folder)

    def answers(self, records: Sequence[Path], compiled: Sequence[Path]) -> list[Answer]:
        """Return the answer for each batch size, from the tables of these records."""
        from whichdevice.study.tables.base import Sources
        from whichdevice.study.tables.costs import priced_cells
        from whichdevice.study.tables.forecasts import study_forecasts
        from whichdevice.study.tables.hardware import device_rows
        from whichdevice.study.tables.make import collect
        from whichdevice.study.tables.summary import cells_of_runs

        sheet = hardware_rows(prices=price_sheet(self.study.prices))
        sources = Sources(self.study, *collect(self.study, records), [], compiled, sheet)
        summary, devices = sources.once(cells_of_runs), sources.once(device_rows)
        forecasts = study_forecasts(compiled, summary, devices, sheet)
        options = {name: workload.options for name, workload in self.study.workloads.items()}
        cells = priced_cells(summary, sources.table("costs"))
        return answers(
            cells, forecasts, self.question.wants, devices, sheet, True, self.unmeasured, options, self.question.fixed
        )


class TimeLeft:
    """One time left for forecasting and measuring together. What it shows never rises by more than a fifth."""

    def __init__(self) -> None:
        self.forecasts, self.processes = Countdown(0, PROGRAM_SECONDS), Countdown(PROCESSES, PROCESS_SECONDS)
        self._least: float | None = None
        self._lines: list[LiveLine] = []

    @property
    def rows(self) -> int:
        """How many rows of the terminal its lines have taken that stay."""
        return sum(line.rows for line in self._lines)

    def words(self) -> str:
        """`about 40 s left`, or that it takes longer than was shown."""
        left = self.forecasts.left + self.processes.left
        self._least = left if self._least is None else min(self._least, left)
        most = 1.2 * self._least
        return f"about {duration(left)} left" if left <= most else f"more than {duration(most)} left"

    def line(self, doing: Callable[[], str], brief: str) -> LiveLine:
        """Return a live line of what is done now; without a terminal one line that stays, `brief`."""
        line = LiveLine(lambda: f"{doing()} · {self.words()}")
        self._lines.append(line)
        if not line.live:
            line.line(brief)
        return line


class _Waits(io.StringIO):
    """Standard error of the compilers, of which only why they wait is shown."""

    def __init__(self, line: LiveLine) -> None:
        super().__init__()
        self._line = line

    def write(self, text: str) -> int:
        """Show the line of a wait."""
        if "waiting for another" in text:
            self._line.line(text)
        return len(text)


def script_precision(model: Model) -> str:
    """Return the number format of a script; mixed for any other model."""
    return "mixed" if model.found is None else model.found.precision


def step_settings(question: Question, batch_at_least: int = 1) -> dict[str, Any]:
    """Return the step that is asked about, as the settings of a config's workload.

    Raises StudyError where its batch is not the script's on each GPU.
    """
    from whichdevice.models.framework import KERAS

    model = question.model
    script = model.found
    of_script = 1 if script is None else script.batch_size
    batches = {of_script * count for count in (1, *(question.gpus or ()))}
    if script is not None and question.batch is not None and question.batch not in batches:
        raise StudyError(
            f"--batch: the batch is the script's, {script.batch_size}: change it there, or by its arguments"
        )
    length = question.sequence_length or question.options.get("length") or model.recipe.sequence_length
    by_jax = question.mode == "generate" and model.framework == KERAS
    return {
        "module": model.text,
        "batch_size": question.batch or max(model.recipe.batch_size, batch_at_least),
        "mode": question.mode,
        "options": dict(question.options),
        "sequence_length": length,
        **({"backend": "jax"} if by_jax else {}),
    }


def first_backend(model: Model) -> str:
    """Return the backend that measures here: the one of a PyTorch or JAX model; of a Keras model, one that it imports.

    Raises StudyError where none is installed.
    """
    from whichdevice.measure.backends import backend_class
    from whichdevice.models.framework import BACKENDS, FRAMEWORKS, KERAS

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
    from whichdevice.models.workloads.base import NO_GENERATION

    if mode != "train" and not model.has_model:
        raise StudyError(f"--mode {mode}: {model} is a single operation")
    if mode == "generate" and not model.generates:
        raise StudyError(f"{model}: {NO_GENERATION}")


def config_name(model: Model) -> str:
    """A name for the workload that a config takes, from its address."""
    stem = re.sub(r"[^A-Za-z0-9_.]", "_", model.name)
    return (stem if stem[:1].isalpha() else f"model_{stem}")[:LONGEST_NAME]


def _kept(path: Path) -> Record | None:
    """The record of an earlier call on this machine, or None."""
    from whichdevice.measure.machine.facts import this_machine
    from whichdevice.study.records.store import read_record, same_machine

    try:
        record = read_record(path)
    except StudyError:
        return None
    return record if record.status == "ok" and same_machine(record.machine, this_machine()) else None
