"""Facts of one piece of work: a row for each device, measured or forecast, from the tables of a study.

A piece of work is a workload in one mode, sequence length and batch size. Times are in seconds, memory in bytes. Every
interval of an answer holds 80 % of true values: a forecast's as it is, a measured one's from its 95 % t-interval.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.base.sheets.machines import ASSUMED, SPEED_LOG_SD, Cores
from whichdevice.base.sheets.prices import NOTEBOOK_MINUTES, START_UP_MINUTES, START_UP_SD, Z80
from whichdevice.base.sheets.tpus import devices_of
from whichdevice.decide.energy import Power, forecast_power, metered
from whichdevice.decide.measured import MeasuredCell, chosen_cells, same, t_quantile
from whichdevice.decide.prices import Price, Priced, PriceKind, electricity, free_of, hour_of
from whichdevice.forecast import tpu
from whichdevice.forecast.answer import Forecast
from whichdevice.forecast.lived import Habits
from whichdevice.models.script.found import Evaluation, Keeps

OPERATIONS = ("product", "gigabyte")  # units of workloads without a model
MEASURED, FORECAST, DOES_NOT_FIT, UNKNOWN = "measured", "forecast", "does not fit", "no time"
ESTIMATED = "estimated"  # of this machine, by its speed in plain products: a step takes too long to be measured
WIDE = 3.0  # upper end / lower end from which on a number is rough
ROUGH_MIN, ROUGH_MAX = 0.2, math.log(WIDE) / Z80  # standard deviations of the logarithm of a rough time
FEW = 3  # undisturbed processes below which a measured number is rough
PARTS = ("weights", "gradients", "optimizer", "activations", "update", "context")  # of a traced step's GPU
FORWARD = 1 / 3  # of a training step, where no trace shows it: the backward pass makes two products for each
STATE_SHARE = 0.5  # of the memory that a step needs: weights and the optimiser's state, where no trace shows them


@dataclass(frozen=True)
class Machine(Priced):
    """One or several devices that are rented or are here: what a training's row and a server's have in common.

    Memory is of one device, in bytes. None: not known.
    """

    card: str  # the device, however it is offered; its name in tables
    kind: str  # cpu, gpu, tpu, or unified: a computer whose GPU shares its memory
    evidence: str
    software: str = ""  # that runs the step, or the engine that serves
    precision: str = ""  # of the step, or the format of a server's weights
    devices: int = 1
    tested: bool = True  # whether published times of such a device and model tested the forecast
    fits: bool | None = None
    memory_available: float | None = None
    memory_whole: float | None = None  # with what no program can have: CUDA's context
    memory_parts: Mapping[str, float] = field(default_factory=dict)
    rented: bool = False

    @property
    def is_here(self) -> bool:
        """Return whether it is this machine, or one whose records were merged, rather than one to rent."""
        return not self.rented


@dataclass(frozen=True)
class Row(Machine):
    """A device: what is known of a step there, and what an hour costs. None: not known."""

    needs_port: bool = False  # whether the code has to be ported to it first: PyTorch on a TPU
    step_time: float | None = None
    device_time: float | None = None  # without the host, as far as it is known apart
    log_sd_shared: float = 0.0  # of the logarithm of the step time: what all forecasts of a question have in common
    log_sd_own: float = 0.0  # what is the chip's own, or the measurement's
    chip: str = ""  # rows of one chip have the same own error
    host_time: float = 0.0  # below which no step gets, however fast the device
    host_log_sd: float = 0.0
    kernels: float = 0.0  # of a step on one device, of a forecast
    forward_share: float = FORWARD  # of the device's time in a training step, and ...
    forward_kernels: float = FORWARD  # ... of its kernels: before the backward pass
    prefill_time: float | None = None  # mode generate: the prompts of a batch
    processes: int | None = None
    disturbed: bool = False
    rough: bool = False
    memory_needed: float | None = None
    memory_tight: bool = False  # it may fit or not
    way: str = ""  # how a traced step is taken: shared, checkpointed, in passes
    feed: tuple[Mapping[str, Any], ...] = ()  # cause, share, setting (and width), time over today's
    changes: tuple[Mapping[str, Any], ...] = ()  # name, memory_needed and time (of a step, over today's)
    passes: tuple[Mapping[str, Any], ...] = ()  # batch, checkpointing, memory_needed and time (of an example)
    pass_batch: int | None = None  # examples of one pass, of a traced step
    checkpointing: bool = False
    largest_batch: int | None = None
    longest_sequence: int | None = None  # that fits, where that was asked for; 0: none does
    cores: Cores | None = None  # of the machine that a rented device comes with
    target: str = ""  # the name by which it is rented
    session_hours: float | None = None  # after which a free machine ends
    week_hours: float | None = None  # that a free machine gives in a week
    start_time: float = 0.0  # until the work begins: renting, starting, installing
    start_log_sd: float = 0.0
    power: Power | None = None  # of the whole machine at work
    forecast_time: float | None = None  # of a measured device
    contradicts: bool = False  # the measured time is outside its forecast's interval
    name: str = ""  # of the device, as its driver gives it
    reason: str = ""  # why there is no time, as a compiler or a process gives it
    notes: tuple[str, ...] = ()  # in what the step is another than the one that the device would run

    @property
    def device(self) -> str:
        """The name of this row: the card, and how it is offered where that is not on demand."""
        return f"{self.card}, {self.price.kind}" if self.price.kind in ("spot", "free") else self.card

    @property
    def priced(self) -> tuple[int, str]:
        """The number of devices, and the name of one under which the user says its price: it holds for any number."""
        count, _, name = self.device.rpartition(" × ")
        return int(count or 1), name

    @property
    def market(self) -> str:
        """The device that is rented, whatever the number: all rows of it have one price a device."""
        return (self.chip if self.kind == "tpu" else self.target) or self.card

    @property
    def spot(self) -> bool:
        """Return whether the cloud may take it away at any moment."""
        return self.price.kind == "spot"

    @property
    def state_bytes(self) -> float:
        """Bytes of a checkpoint that one device saves: weights and the optimiser's state."""
        if self.memory_parts:
            return self.memory_parts.get("weights", 0.0) + self.memory_parts.get("optimizer", 0.0)
        return STATE_SHARE * (self.memory_needed or 0.0)

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of the step time."""
        return math.hypot(self.log_sd_shared, self.log_sd_own)

    @property
    def memory(self) -> float | None:
        """Bytes of one device, as its driver reports them."""
        return self.memory_whole or self.memory_available

    @property
    def memory_kept(self) -> float:
        """Bytes of it that no program can have."""
        return max((self.memory or 0.0) - (self.memory_available or 0.0), 0.0)

    @property
    def memory_taken(self) -> float | None:
        """Bytes of it that the step takes, with those that no program can have."""
        return None if self.memory_needed is None else self.memory_needed + self.memory_kept

    @property
    def is_several(self) -> bool:
        """Return whether several GPUs share the batch."""
        return self.devices > 1 and self.kind == "gpu"

    @property
    def script_processes(self) -> int:
        """The processes that run the script: one for each of several GPUs in PyTorch, one for all in XLA."""
        return self.devices if self.is_several and self.software in ("eager", "torch.compile") else 1


@dataclass(frozen=True)
class AskedWork:
    """A piece of work and its rows, measured devices first."""

    workload: str
    module: str
    mode: str  # train, predict, generate, or operation
    batch: int  # examples per step over all devices, or on each of them (see `fixed`); for matmul N
    sequence_length: int | None
    unit: str
    units_per_step: float
    prompt: int | None  # mode generate: tokens of each prompt; as many are generated
    epoch_units: float | None  # training examples in the whole data, as far as the study shows
    rows: tuple[Row, ...]
    fixed: Keeps = "batch"  # what does not change with the number of devices
    pipeline_rate: float | None = None  # examples a second that the file's or script's input pipeline gives here ...
    pipeline_workers: int = 0  # ... with the best number of workers; 0: the training's own process
    pipeline_core_rate: float = 0.0  # that each core gives with a worker; 0: more workers give no more
    written_rate: float | None = None  # with so many workers as the file has ...
    written_workers: int | None = 0  # ... which are these; None: as many as there are cores
    remarks: tuple[str, ...] = ()  # of the script: look-ups on the host, varying lengths
    lived: Habits | None = None  # how much longer its steps take than clean ones, where it is a script's
    between: float = 0.0  # seconds between two steps on the host: a script collects frames of an environment
    evaluations: tuple[Evaluation, ...] = ()  # what a script does besides its steps
    for_several: bool = False  # whether a script is for several GPUs, of which its text shows no number
    script_examples: int | None = None  # of an epoch as it is written
    unknown: str | None = None  # why a script does not show how long its training is
    decodes: bool = False  # whether the script's loader decodes images of files
    options: Mapping[str, Any] = field(default_factory=dict)  # of the model's file
    tunable: bool = False  # whether its memory is changed by an option, as LoRA
    tokens: int | None = None  # of an example, where its file says so and nobody asked for a length

    @property
    def name(self) -> str:
        """The name that a reader knows: a model of Hugging Face has its own, a workload's has other letters."""
        library, _, name = self.module.partition(":")
        return PurePosixPath(name).name if library == "hf" else self.workload

    @property
    def decodes_untimed(self) -> bool:
        """Return whether a loader whose rate is not known decodes images: a known rate has that time."""
        return self.decodes and not self.pipeline_rate

    def times(self, row: Row) -> int:
        """How many batches a step on a row takes: one on each device where they do not share one."""
        return 1 if self.fixed == "batch" else row.devices

    def batch_on(self, row: Row) -> int:
        """Examples of a step on all devices of a row."""
        return self.batch * self.times(row)

    def units_on(self, row: Row) -> float:
        """Units of a step on all devices of a row."""
        return self.units_per_step * self.times(row)

    def batch_time(self, row: Row) -> float:
        """Seconds for each batch of a step on a row; 0: not known."""
        return (row.step_time or 0.0) / self.times(row)

    @property
    def most_devices(self) -> int:
        """The devices of the largest row; where the number of steps is kept, all rows that are rented have so many."""
        return max((row.devices for row in self.rows), default=1)

    def floor(self, row: Row) -> float:
        """Seconds a step that the input pipeline takes on the machine of a row, however fast the device."""
        rate = self.rate_on(row)
        return self.batch_on(row) / rate if rate else 0.0

    def floor_log_sd(self, row: Row) -> float:
        """Standard deviation of its logarithm: how fast cores elsewhere are, and how many there are."""
        if row.cores is None or not self.pipeline_rate:
            return 0.0
        return math.hypot(SPEED_LOG_SD, row.cores.log_sd if self.pipeline_core_rate else 0.0)

    def rate_on(self, row: Row, written: bool = False) -> float | None:
        """Examples a second that the pipeline gives on the machine of a row, with the best number of workers.

        `written`: with so many as the file has, for each of several GPUs. A core elsewhere gives as many as one here,
        and so does each process without workers, as far as there are cores.
        """
        here = (written and self.written_rate) or self.pipeline_rate
        if row.cores is None or not here:
            return here
        workers = self.pipeline_workers if not written or self.written_workers is None else self.written_workers
        processes = 1.0 if workers else min(row.script_processes, row.cores.number)
        if not self.pipeline_core_rate:
            return here * processes
        if not written or self.written_workers is None:
            own_processes = 0.0 if workers else (self.pipeline_rate or 0.0) * processes
            return max(self.pipeline_core_rate * row.cores.number, own_processes)
        workers *= row.devices if row.is_several else 1
        return self.pipeline_core_rate * min(workers, row.cores.number) if workers else here * processes

    def workers_on(self, row: Row) -> int:
        """Return the workers that feed each device of a row: at most as many as its machine has cores."""
        if row.cores is None or not row.step_time or self.rate_on(row) != self.pipeline_core_rate * row.cores.number:
            return self.pipeline_workers
        workers = min(int(row.cores.number), self.cores_to_feed(row))
        return math.ceil(workers / (row.devices if row.is_several else 1))

    def cores_to_feed(self, row: Row) -> int:
        """Cores that make batches as fast as the device of a row takes them; 0 where more cores give no more."""
        core_rate = self.pipeline_core_rate
        return math.ceil(self.batch_on(row) / row.step_time / core_rate) if core_rate and row.step_time else 0

    @property
    def here(self) -> Row | None:
        """The fastest measured device that has a time, else any measured one."""
        timed = [row for row in self.rows if row.is_here and row.step_time]
        fastest = min(timed, key=lambda row: row.step_time or 0.0, default=None)
        return fastest or next((row for row in self.rows if row.is_here), None)


@dataclass(frozen=True)
class Expected:
    """A forecast, of mode generate with the time of its prompts."""

    forecast: Forecast
    prefill_time: float | None = None

    @property
    def label(self) -> str:
        """`T4`, `8 × T4`, or chips of a TPU: `4 × TPU v5e`."""
        chips = (self.forecast.devices or 1) // devices_of(self.forecast.device)
        return self.forecast.device if chips <= 1 else f"{chips} × {self.forecast.device}"


def works(
    measured: Sequence[MeasuredCell],
    forecasts: Sequence[Forecast],
    hardware: Mapping[str, str | None] = {},
    sheet: Mapping[str, HardwareRow] = {},
    every_batch: bool = False,
    fixed: Keeps = "batch",
) -> list[AskedWork]:
    """Return every piece of work of measured cells and of forecasts, in their order.

    The batch size is the one that most devices have, or `every_batch`. Where the batch grows with the devices, all
    sizes are one piece; where each device makes as many steps, each number of devices is a piece. `hardware` is the
    sheet's row of each measured device; `sheet` has the offers of each forecast device.
    """
    expected = list(_with_prompts(forecasts))
    pieces = []
    for (workload, length), devices in _devices_by_size(measured, expected).items():
        if fixed != "batch":
            here = list(chosen_cells(same(measured, workload=workload, sequence_length=length)))
            of_piece = [one for one in expected if _piece(one.forecast)[:2] == (workload, length)]
            for alike in _by_devices(of_piece) if fixed == "steps" else [of_piece]:
                pieces.append(_work(here, list(_one_a_device(alike)), hardware, sheet, fixed))
            continue
        most = max(map(len, devices.values()))
        sizes = sorted(devices) if every_batch else [max(size for size in devices if len(devices[size]) == most)]
        for size in sizes:
            cells = same(measured, workload=workload, sequence_length=length, batch_size=size)
            of_piece = [one for one in expected if _piece(one.forecast) == (workload, length, size)]
            pieces.append(_work(list(chosen_cells(cells)), list(_one_a_device(of_piece)), hardware, sheet))
    return pieces


def _by_devices(expected: Sequence[Expected]) -> list[list[Expected]]:
    """Forecasts of each number of devices; a number that only ports have, as TPUs of PyTorch, is no one's choice."""
    numbers = {one.forecast.devices or 1 for one in expected if one.forecast.software != tpu.PORTED}
    return [[one for one in expected if (one.forecast.devices or 1) == number] for number in sorted(numbers)] or [[]]


Key = tuple[str, int | None]


def _devices_by_size(measured: Sequence[MeasuredCell], expected: Sequence[Expected]) -> dict[Key, dict[int, set[str]]]:
    """Devices by workload and sequence length, then by batch size."""
    pieces = [(cell.workload, cell.sequence_length, cell.batch_size, cell.device) for cell in measured]
    pieces += [(*_piece(one.forecast), one.forecast.device) for one in expected]
    groups: dict[Key, dict[int, set[str]]] = {}
    for workload, length, size, device in pieces:
        groups.setdefault((workload, length), {}).setdefault(size, set()).add(device)
    return groups


def _piece(forecast: Forecast) -> tuple[str, int | None, int]:
    return forecast.workload or "", forecast.sequence_length, forecast.batch_size or 0


def _with_prompts(forecasts: Sequence[Forecast]) -> Iterator[Expected]:
    """Forecasts of a workload; a decoding step has the time of its prompts, and both have to fit."""

    def key(forecast: Forecast) -> tuple[Any, ...]:
        return forecast.device, forecast.devices, forecast.precision, *_piece(forecast)

    prompts = {key(forecast): forecast for forecast in reversed(forecasts) if forecast.mode == "prefill"}
    for forecast in forecasts:
        if forecast.workload is None or forecast.mode == "prefill":
            continue
        if forecast.mode != "decode":
            yield Expected(forecast)
            continue
        forecast = replace(forecast, mode="generate")
        prompt = prompts.get(key(forecast))
        if prompt is None:
            yield Expected(forecast)
            continue
        needed = [nbytes for nbytes in (forecast.memory_needed, prompt.memory_needed) if nbytes is not None]
        fits = False if prompt.fits is False else forecast.fits
        yield Expected(replace(forecast, memory_needed=max(needed, default=None), fits=fits), prompt.step_time)


def _work(
    cells: Sequence[MeasuredCell],
    expected: Sequence[Expected],
    hardware: Mapping[str, str | None],
    sheet: Mapping[str, HardwareRow],
    fixed: Keeps = "batch",
) -> AskedWork:
    """Rows and facts of one piece of work; measured cells come first."""
    rows, left = [], list(expected)
    for cell in cells:
        match = next((one for one in left if _is_same_device(one.forecast, cell, hardware)), None)
        left = [one for one in left if one is not match]
        rows.append(measured_row(cell) if match is None else _beside(measured_row(cell), forecast_row(match, None)))
    for one in left:
        known = sheet.get(one.forecast.device)
        row = forecast_row(one, known)
        rows += [row, *offered_rows(row, known)]
    facts = [*map(_facts_of_cell, cells), *(vars(one.forecast) for one in left)]
    first = facts[0]
    timed = [one for one in facts if one["step_time"] and one["throughput"]]
    unit = next((str(one["unit"]) for one in facts if one["unit"]), "example")
    modes = [str(one["mode"]) for one in facts if one["mode"]]
    operation = not modes or (unit in OPERATIONS and not any(cell.mode for cell in cells))
    length, batch = first["sequence_length"], int(first["batch_size"])
    if fixed != "batch":
        batch //= int(first["devices"] or 1)
    return AskedWork(
        workload=str(first["workload"]),
        module=str(next((one["module"] for one in facts if one["module"]), first["workload"])),
        mode="operation" if operation else modes[0],
        batch=batch,
        sequence_length=length,
        unit=unit,
        units_per_step=float(
            timed[0]["throughput"] * timed[0]["step_time"] * batch / timed[0]["batch_size"] if timed else batch
        ),
        fixed=fixed,
        rows=tuple(rows),
        **_of_cells(cells, length // 2 if length and "generate" in modes else None),
    )


def _of_cells(cells: Sequence[MeasuredCell], prompt: int | None) -> dict[str, Any]:
    """Return what measured cells alone know of a piece of work; `prompt` is its tokens where they do not say."""
    epoch_units = (cell.training_examples / cell.fraction for cell in cells if cell.training_examples is not None)
    return {
        "prompt": next((cell.prompt for cell in cells if cell.prompt is not None), prompt),
        "epoch_units": next(epoch_units, None),
        **_pipeline(cells),
    }


def _facts_of_cell(cell: MeasuredCell) -> dict[str, Any]:
    """A measured cell under a forecast's names."""
    return vars(cell) | {"devices": cell.replicas}


def _pipeline(cells: Sequence[MeasuredCell]) -> dict[str, Any]:
    """The first pipeline of a file's own that was timed, of these measured cells."""
    names = ("pipeline_rate", "pipeline_core_rate", "pipeline_workers", "written_rate", "written_workers")
    timed = next((cell for cell in cells if cell.pipeline == "own"), None)
    return {} if timed is None else {name: getattr(timed, name) for name in names}


def _one_a_device(expected: Iterable[Expected]) -> Iterator[Expected]:
    """The fastest forecast of each device, of those that fit; else one that says why there is none."""

    def time(one: Expected) -> float:
        return one.forecast.step_time or math.inf if one.forecast.fits is not False else math.inf

    shown = set()
    for one in sorted(expected, key=time):
        if one.label not in shown:
            shown.add(one.label)
            yield one


def measured_row(cell: MeasuredCell) -> Row:
    """Return the row of a device that was measured, or that does not hold or cannot run the step."""
    row = Row(
        card=cell.device.replace("_", " "),
        kind=cell.kind,
        evidence=MEASURED,
        software=cell.backend,
        precision=cell.precision,
        chip=f"measured {cell.device}",
        memory_needed=cell.peak_host if cell.kind == "cpu" else cell.peak_device,
        memory_available=cell.host_memory if cell.kind == "cpu" else None,
        name=cell.device_name or "",
        **_measured_price(cell),
    )
    if cell.step_time is None:
        if cell.n_too_large:
            return replace(row, evidence=DOES_NOT_FIT, fits=False, reason=cell.status)
        return replace(row, evidence=UNKNOWN, reason=cell.status)
    sd, rough = measured_spread(cell.step_time_low, cell.step_time_high, cell.n_timed, cell.n_disturbed)
    return replace(
        row, fits=True, step_time=cell.step_time, log_sd_own=sd, rough=rough, processes=cell.n_timed,
        disturbed=cell.n_disturbed > 0, prefill_time=cell.prefill_time,
    )  # fmt: skip


def _measured_price(cell: MeasuredCell) -> dict[str, Any]:
    """The price of an hour of a measured device, and its power."""
    power = metered(cell.watts, cell.kind, cell.watts_beside)
    if cell.usd_per_hour is None:
        return vars(electricity(power)) | {"power": power}
    return {"usd_per_hour": cell.usd_per_hour, "price": Price("study", source=cell.price or ""), "power": power}


def estimated(device: str, step_time: float, needed: float, available: float) -> Row:
    """Return this machine, a CPU, by a rough estimate in seconds, with the memory in bytes that a step takes."""
    return Row(
        device, "cpu", ESTIMATED if needed <= available else DOES_NOT_FIT, precision="float32", log_sd_own=ROUGH_MAX,
        step_time=step_time if needed <= available else None, chip=device, rough=True, fits=needed <= available,
        memory_needed=needed, memory_available=available, memory_tight=0.8 * available < needed <= available,
        **vars(electricity(metered(None, "cpu"))), power=metered(None, "cpu"),
    )  # fmt: skip


def timed(device: str, step_time: float) -> Row:
    """Return this machine, a CPU, by the seconds of a script's step that ran here in one process."""
    return Row(
        device, "cpu", MEASURED, precision="float32", log_sd_own=ROUGH_MIN, step_time=step_time, chip=device,
        rough=True, processes=1, fits=True, **vars(electricity(metered(None, "cpu"))), power=metered(None, "cpu"),
    )  # fmt: skip


def without_time(device: str, reason: str) -> Row:
    """Return this machine, where the step cannot run for this reason."""
    return Row(device, "cpu", UNKNOWN, precision="float32", chip=device, reason=reason)


def measured_spread(low: float | None, high: float | None, n: int, disturbed: int = 0) -> tuple[float, bool]:
    """Standard deviation of the logarithm of a mean of n processes, and whether the number is rough.

    `low` and `high` are the ends of its 95 % t-interval, missing for one process.
    """
    if n < 2 or low is None or high is None:
        return ROUGH_MIN, True
    half = math.log(high / low) / 2 / t_quantile(0.975, n - 1) * t_quantile(0.9, n - 1)
    rough = bool(n - disturbed < FEW or high > WIDE * low)
    return (min(max(half / Z80, ROUGH_MIN), ROUGH_MAX) if rough else half / Z80), rough


AS_FORECAST = (  # what a row has from its forecast under the same name
    "precision", "software", "fits", "memory_needed", "memory_available", "memory_tight", "way", "changes", "feed",
    "passes", "pass_batch", "checkpointing", "devices", "largest_batch",
    "longest_sequence",
)  # fmt: skip
AS_TIMED = ("step_time", "device_time", "log_sd_shared", "log_sd_own", "host_time", "host_log_sd", "kernels",
            "forward_share", "forward_kernels")  # fmt: skip


def forecast_row(expected: Expected, known: HardwareRow | None) -> Row:
    """Return the row of a forecast device on demand; `known` is its row of the sheet."""
    forecast, timed = expected.forecast, bool(expected.forecast.step_time)
    too_small = forecast.fits is False and not forecast.memory_tight

    def known_of(names: Sequence[str]) -> dict[str, Any]:
        return {name: getattr(forecast, name) for name in names if getattr(forecast, name) is not None}

    row = Row(
        card=expected.label,
        target=forecast.slice or forecast.device,
        kind=str(forecast.kind),
        evidence=DOES_NOT_FIT if too_small else FORECAST if timed else UNKNOWN,
        needs_port=forecast.software == tpu.PORTED,
        chip=forecast.chip or forecast.device,
        memory_parts=known_of(PARTS),
        memory_whole=known.memory if known else None,
        rented=True,
        start_time=60 * START_UP_MINUTES,
        start_log_sd=START_UP_SD,
        tested=bool(forecast.known_device and forecast.known_family) or not timed,
        notes=forecast.step_notes,
        power=forecast_power(forecast, known),
        **vars(_priced(forecast, known)),
        **known_of(AS_FORECAST),
    )
    row = replace(row, cores=known.host_cores(row.devices) if known else ASSUMED.of(row.devices))
    if not timed or too_small:
        return replace(row, reason=forecast.reason or "")
    rough = (forecast.step_time_high or 0.0) > WIDE * (forecast.step_time_low or 0.0)
    return replace(row, rough=rough, prefill_time=expected.prefill_time, **known_of(AS_TIMED))


def _priced(forecast: Forecast, known: HardwareRow | None) -> Priced:
    """Return the price of an hour, of a step that has a time: the sheet's, else the one in the forecast."""
    if known is not None:
        return hour_of(known, forecast.devices or 1) if forecast.step_time else Priced()
    kind: PriceKind = "unknown" if forecast.usd_per_hour is None else "on_demand"
    price = Price(kind, forecast.provider or "", forecast.price or "")
    return Priced(usd_per_hour=forecast.usd_per_hour, price=price)


def offered_rows(row: Row, known: HardwareRow | None) -> Iterator[Row]:
    """The same device where it may be taken away, if that is cheaper, and where somebody gives it for nothing."""
    if known is None or not row.step_time:
        return
    spot, free = hour_of(known, row.devices, "spot"), free_of(known, row.devices)
    if spot.usd_per_hour is not None and spot.usd_per_hour < (row.usd_per_hour or math.inf):
        yield replace(row, **vars(spot))
    if free is not None:
        priced, session, week = free
        cores = known.host_cores(row.devices, "free")
        yield replace(
            row, **vars(priced), session_hours=session, week_hours=week, start_time=60 * NOTEBOOK_MINUTES, cores=cores
        )  # fmt: skip


def _is_same_device(forecast: Forecast, cell: MeasuredCell, hardware: Mapping[str, str | None]) -> bool:
    mine = hardware.get(cell.device)
    same_device = mine is not None and forecast.device == mine and forecast.devices == cell.replicas
    return bool(same_device and forecast.precision == cell.precision and forecast.step_time)


def _beside(measured: Row, forecast: Row) -> Row:
    """A measured device with its forecast; outside: their 80 % intervals do not meet."""
    if not measured.step_time or not forecast.step_time:
        return measured
    apart = abs(math.log(measured.step_time / forecast.step_time))
    outside = apart > Z80 * (measured.spread + forecast.spread)
    return replace(measured, forecast_time=forecast.step_time, contradicts=outside)
