"""What is known of one piece of work: a row for each device, measured or forecast, from the tables of a study.

A piece of work is a workload in one mode, sequence length and batch size. Times are in seconds, memory in bytes. Every
interval of an answer holds 80 % of true values: a forecast's as it is, a measured one's from its 95 % t-interval.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from scipy.special import stdtrit

from whichdevice.config.hardware import HardwareRow
from whichdevice.config.prices import NOTEBOOK_MINUTES, START_UP_MINUTES, USD_PER_KWH, Offer, cheapest
from whichdevice.forecast.work import RECURRENT_NOTES
from whichdevice.tables.base import CELL, device_name
from whichdevice.tables.measured import OPERATIONS, enough_repeats, without_rehearsals

MEASURED, FORECAST, DOES_NOT_FIT, UNKNOWN = "measured", "forecast", "does not fit", "no time"
ESTIMATED = "estimated"  # of this machine, by its speed in plain products: a step takes too long to be measured
Z80 = 1.2816  # standard deviations on each side that hold 80 %
WIDE = 3.0  # upper end / lower end from which on a number is rough
ROUGH_LEAST, ROUGH_MOST = 0.2, math.log(WIDE) / Z80  # standard deviations of the logarithm of a rough time
FEW = 3  # undisturbed processes below which a measured number is rough
PARTS = ("weights", "gradients", "optimizer", "activations", "context")  # of a GPU's memory, in a traced step
WATTS = {"cpu": 100.0, "gpu": 400.0, "tpu": 300.0}  # of a whole machine at work, where no meter and no sheet says more


@dataclass(frozen=True)
class Row:
    """One device: what is known of a step there, and what an hour costs. None: not known."""

    device: str
    kind: str  # cpu, gpu or tpu
    evidence: str
    software: str = ""  # that runs the step
    precision: str = ""
    step_time: float | None = None
    device_time: float | None = None  # without the host, as far as it is known apart
    log_sd_shared: float = 0.0  # of the logarithm of the step time: what all forecasts of a question have in common
    log_sd_own: float = 0.0  # what is the chip's own, or the measurement's
    chip: str = ""  # rows of one chip have the same own error
    host_time: float = 0.0  # below which no step gets, however fast the device
    host_log_sd: float = 0.0
    prefill_time: float | None = None  # mode generate: the prompts of a batch
    processes: int | None = None
    disturbed: bool = False
    rough: bool = False
    known: bool = True  # whether published times of such a device and model tested the forecast
    fits: bool | None = None
    memory_needed: float | None = None
    memory_available: float | None = None
    memory_tight: bool = False  # it may fit or not
    memory_parts: Mapping[str, float] = field(default_factory=dict)  # of one device, of a traced step
    way: str = ""  # how a traced step is taken: shared, checkpointed, in passes
    changes: tuple[Mapping[str, Any], ...] = ()  # name, memory_needed and time (of a step, over today's)
    devices: int = 1
    largest_batch: int | None = None
    usd_per_hour: float | None = None
    price: str = ""  # where the price is from, or why there is none
    provider: str = ""
    rented: bool = False
    spot: bool = False  # the cloud may take it away at any moment
    session_hours: float | None = None  # after which a free machine ends
    week_hours: float | None = None  # that a free machine gives in a week
    start_time: float = 0.0  # until the work begins: renting, starting, compiling
    card_usd: float | None = None  # of one to buy
    card_watts: float = 0.0
    forecast_time: float | None = None  # of a measured device
    contradicts: bool = False  # the measured time is outside its forecast's interval
    name: str = ""  # of the device, as its driver gives it
    note: str = ""

    @property
    def is_here(self) -> bool:
        """Whether it is this machine, or one whose records were merged, rather than one to rent."""
        return not self.rented

    @property
    def card(self) -> str:
        """The device, however it is offered."""
        return self.device.partition(", ")[0]

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithm of the step time."""
        return math.hypot(self.log_sd_shared, self.log_sd_own)


@dataclass(frozen=True)
class Work:
    """One piece of work and its rows, measured devices first."""

    workload: str
    module: str
    mode: str  # train, predict, generate, or operation
    batch: int  # examples per step over all devices; for matmul N
    sequence_length: int | None
    unit: str
    units_per_step: float
    prompt: int | None  # mode generate: tokens of each prompt; as many are generated
    epoch_units: float | None  # training examples in the whole data, as far as the study shows
    rows: tuple[Row, ...]
    cold_time: float | None = None  # until the first step is over, of the first measured device
    pipeline_rate: float | None = None  # examples a second that the file's or script's input pipeline gives here ...
    pipeline_workers: int = 0  # ... with the best number of workers; 0: the training's own process
    written_rate: float | None = None  # with so many workers as the file has ...
    written_workers: int = 0  # ... which are these
    remarks: tuple[str, ...] = ()  # sentences: how recurrent layers run, look-ups on the host, varying lengths

    @property
    def floor(self) -> float:
        """Seconds a step that the input pipeline takes, however fast the device."""
        return self.batch / self.pipeline_rate if self.pipeline_rate else 0.0

    @property
    def here(self) -> Row | None:
        """The fastest measured device that has a time, else any measured one."""
        timed = [row for row in self.rows if row.is_here and row.step_time]
        fastest = min(timed, key=lambda row: row.step_time or 0.0, default=None)
        return fastest or next((row for row in self.rows if row.is_here), None)


def works(
    summary: pd.DataFrame,
    costs: pd.DataFrame,
    forecasts: pd.DataFrame,
    hardware: Mapping[str, str | None] = {},
    sheet: Mapping[str, HardwareRow] = {},
    every_batch: bool = False,
) -> list[Work]:
    """Every piece of work of the tables, in their order: at the batch size that most devices have, or `every_batch`.

    `hardware` is the sheet's row of each measured device; `sheet` has the offers of each forecast device.
    """
    prices = costs[[*CELL, "usd_per_hour", "price", "watts"]]
    tried = summary[summary["n_recorded"].fillna(0) > 0]
    measured = without_rehearsals(tried).merge(prices, on=CELL, how="left")
    expected = _with_prompts(forecasts[forecasts["workload"].notna()])
    keys = ["workload", "sequence_length"]
    found = []
    both = pd.concat([measured[[*keys, "batch_size", "device"]], expected[[*keys, "batch_size", "device"]]])
    for key, group in both.groupby(keys, dropna=False, sort=False):
        devices = group.drop_duplicates().groupby("batch_size").size()
        sizes = sorted(devices.index) if every_batch else [devices[devices == devices.max()].index.max()]
        for size in sizes:
            values = {"workload": key[0], "sequence_length": key[1], "batch_size": size}
            own, other = _same(measured, values), _same(expected, values)
            if (work := _work(own, other, hardware, sheet)) is not None:
                found.append(work)
    return found


def _same(table: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    for name, value in values.items():
        table = table[table[name].isna() if pd.isna(value) else (table[name] == value).fillna(False)]
    return table


def _with_prompts(forecasts: pd.DataFrame) -> pd.DataFrame:
    """Rows of decoding steps with the time of their prompts, `prefill_time`; both have to fit."""
    same = ["device", "devices", "workload", "precision", "batch_size", "sequence_length"]
    prompts = forecasts[forecasts["mode"] == "prefill"]
    prompts = prompts[[*same, "step_time", "memory_needed", "fits"]].drop_duplicates(same)
    names = {"step_time": "prefill_time", "memory_needed": "prefill_memory", "fits": "prefill_fits"}
    rest = forecasts[(forecasts["mode"] != "prefill").fillna(True)]
    joined = rest.merge(prompts.rename(columns=names), on=same, how="left")
    joined["memory_needed"] = joined[["memory_needed", "prefill_memory"]].max(axis=1)
    joined["fits"] = joined["fits"].mask((joined["prefill_fits"] == False).fillna(False), False)  # noqa: E712
    return joined.assign(mode=joined["mode"].replace("decode", "generate"))


def _work(
    measured: pd.DataFrame,
    forecasts: pd.DataFrame,
    hardware: Mapping[str, str | None],
    sheet: Mapping[str, HardwareRow],
) -> Work | None:
    cells = list(_chosen_cells(measured))
    expected = list(_one_a_device(forecasts))
    if not cells and not expected:
        return None
    first = cells[0] if cells else expected[0]
    known = [row for row in [*cells, *expected] if pd.notna(row["step_time"]) and pd.notna(row["throughput"])]
    unit = next((str(row["unit"]) for row in [*cells, *expected] if pd.notna(row["unit"])), "example")
    rows = []
    for cell in cells:
        row = _measured(cell)
        match = next((each for each in expected if _is_same_device(each, cell, hardware)), None)
        if match is not None:
            expected = [each for each in expected if each is not match]
            row = _beside(row, _forecast(match))
        rows.append(row)
    for each in expected:
        row = _with_card(_forecast(each), sheet.get(str(each["device"])))
        rows += [row, *_offered(row, sheet.get(str(each["device"])))]
    modes = [str(row["mode"]) for row in [*cells, *expected] if pd.notna(row["mode"])]
    operation = not modes or (unit in OPERATIONS and not any(pd.notna(cell["mode"]) for cell in cells))
    prompts = [int(cell["prompt"]) for cell in cells if pd.notna(cell["prompt"])]
    length = None if pd.isna(first["sequence_length"]) else int(first["sequence_length"])
    whole = [cell["training_examples"] / cell["fraction"] for cell in cells if pd.notna(cell["training_examples"])]
    cold = [float(cells[0][name]) for name in COLD if pd.notna(cells[0][name])] if cells else []
    return Work(
        workload=str(first["workload"]),
        module=str(next((row["module"] for row in [*cells, *expected] if pd.notna(row["module"])), first["workload"])),
        mode="operation" if operation else modes[0],
        batch=int(first["batch_size"]),
        sequence_length=length,
        unit=unit,
        units_per_step=float(known[0]["throughput"] * known[0]["step_time"]) if known else float(first["batch_size"]),
        prompt=next(iter(prompts), length // 2 if length and "generate" in modes else None),
        epoch_units=next(map(float, whole), None),
        rows=tuple(rows),
        cold_time=sum(cold) if cold else None,
        remarks=_recurrent(expected),
        **_pipeline(cells),
    )


def _recurrent(forecasts: Sequence[pd.Series]) -> tuple[str, ...]:
    """How recurrent layers run in these forecasts, as a sentence."""
    notes = " ".join(str(row["note"]) for row in forecasts if pd.notna(row["note"]))
    return tuple(f"{note[0].upper()}{note[1:]}." for note in RECURRENT_NOTES if note in notes)[:1]


def _pipeline(cells: Sequence[pd.Series]) -> dict[str, Any]:
    """The first pipeline of a file's own that was timed, of these measured cells."""
    own = next((cell for cell in cells if cell["pipeline"] == "own"), None)
    if own is None:
        return {}
    rates, workers = ("pipeline_rate", "written_rate"), ("pipeline_workers", "written_workers")
    return {name: float(own[name]) for name in rates} | {name: int(own[name]) for name in workers}


COLD = ("start", "initialise", "load", "build", "first_step")


def _chosen_cells(cells: pd.DataFrame) -> Iterator[pd.Series]:
    """The fastest cell of each device, of those with enough good repeats and the largest share of the data."""
    for _, own in cells.groupby("device", sort=False):
        timed = own[(own["n_timed"].fillna(0) > 0) & own["step_time"].notna()]
        if timed.empty:
            yield own.iloc[0]
            continue
        timed = timed[timed["fraction"] == timed["fraction"].max()]
        timed = timed[enough_repeats(timed["n_timed"])]
        yield timed.sort_values("step_time", kind="stable").iloc[0]


def _one_a_device(forecasts: pd.DataFrame) -> Iterator[pd.Series]:
    """The fastest forecast of each device, of those that fit; else one that says why there is none."""
    if forecasts.empty:
        return
    usable = forecasts["step_time"].where(forecasts["fits"].ne(False).fillna(True))
    ordered = forecasts.assign(order=usable).sort_values("order", kind="stable", na_position="last")
    names = [device_name(row) for _, row in ordered.iterrows()]
    for _, row in ordered[~pd.Series(names, ordered.index).duplicated()].iterrows():
        yield row


def _measured(cell: pd.Series) -> Row:
    kind = "cpu" if pd.isna(cell["kind"]) else str(cell["kind"])
    memory = cell["peak_host"] if kind == "cpu" else cell["peak_device"]
    known: dict[str, Any] = {}
    if pd.isna(cell["step_time"]):
        unfit = any(word in str(cell["status"]) for word in ("out of memory", "refused"))
        evidence = DOES_NOT_FIT if unfit else UNKNOWN
        known |= {"evidence": evidence, "fits": False if unfit else None, "note": str(cell["status"])}
    else:
        disturbed = int(0 if pd.isna(cell["n_disturbed"]) else cell["n_disturbed"])
        sd, rough = measured_spread(cell["step_time_low"], cell["step_time_high"], int(cell["n_timed"]), disturbed)
        known |= {"step_time": float(cell["step_time"]), "log_sd_own": sd, "rough": rough, "fits": True}
        known |= {
            "processes": int(cell["n_timed"]),
            "disturbed": disturbed > 0,
            "prefill_time": _number(cell["prefill_time"]),
        }
    usd = _number(cell["usd_per_hour"])
    watts = _number(cell["watts"])
    if usd is None:
        known["usd_per_hour"] = (watts or WATTS[kind]) / 1000 * USD_PER_KWH
        used = f"{watts:.0f} W metered" if watts else f"about {WATTS[kind]:.0f} W"
        known["price"] = f"electricity: {used} at {USD_PER_KWH:.2f} USD a kWh"
    else:
        known |= {"usd_per_hour": usd, "price": str(cell["price"])}
    return Row(**({
        "device": str(cell["device"]).replace("_", " "),
        "kind": kind,
        "evidence": MEASURED,
        "software": f"{cell['backend']}{', fit' if cell['loop'] == 'fit' else ''}",
        "precision": str(cell["precision"]),
        "chip": f"measured {cell['device']}",
        "memory_needed": _number(memory),
        "memory_available": _number(cell["host_memory"]) if kind == "cpu" else None,
        "name": "" if pd.isna(cell["device_name"]) else str(cell["device_name"]),
    } | known))  # fmt: skip


def estimated(device: str, step_time: float, needed: float, available: float) -> Row:
    """This machine, a CPU, by a rough estimate in seconds, with the memory in bytes that a step takes of its own."""
    price = f"electricity: about {WATTS['cpu']:.0f} W at {USD_PER_KWH:.2f} USD a kWh"
    return Row(
        device, "cpu", ESTIMATED if needed <= available else DOES_NOT_FIT, precision="float32", log_sd_own=ROUGH_MOST,
        step_time=step_time if needed <= available else None, chip=device, rough=True, fits=needed <= available,
        memory_needed=needed, memory_available=available, memory_tight=0.8 * available < needed <= available,
        usd_per_hour=WATTS["cpu"] / 1000 * USD_PER_KWH, price=price,
    )  # fmt: skip


def without_time(device: str, reason: str) -> Row:
    """This machine, where the step cannot run for this reason."""
    return Row(device, "cpu", UNKNOWN, precision="float32", chip=device, note=reason)


def measured_spread(low: Any, high: Any, n: int, disturbed: int = 0) -> tuple[float, bool]:
    """Standard deviation of the logarithm of a mean of n processes, and whether the number is rough.

    `low` and `high` are the ends of its 95 % t-interval, missing for one process.
    """
    if n < 2 or low is None or pd.isna(low):
        return ROUGH_LEAST, True
    half = math.log(high / low) / 2 / float(stdtrit(n - 1, 0.975)) * float(stdtrit(n - 1, 0.9))  # Student's t
    rough = bool(n - disturbed < FEW or high > WIDE * low)
    return (min(max(half / Z80, ROUGH_LEAST), ROUGH_MOST) if rough else half / Z80), rough


def _forecast(row: pd.Series) -> Row:
    fits = None if pd.isna(row["fits"]) else bool(row["fits"])
    known = pd.notna(row["step_time"])
    cloud = str(row["price"]) if pd.notna(row["price"]) else ""
    found: dict[str, Any] = {
        "device": device_name(row),
        "kind": str(row["kind"]),
        "evidence": DOES_NOT_FIT if fits is False else FORECAST if known else UNKNOWN,
        "software": "" if pd.isna(row["software"]) else str(row["software"]),
        "precision": "" if pd.isna(row["precision"]) else str(row["precision"]),
        "chip": str(row["device"]) if pd.isna(row["chip"]) else str(row["chip"]),
        "fits": fits,
        "memory_needed": _number(row["memory_needed"]),
        "memory_available": _number(row["memory_available"]),
        "memory_tight": not pd.isna(row["memory_tight"]) and bool(row["memory_tight"]),
        "memory_parts": {name: float(row[name]) for name in PARTS if pd.notna(row[name])},
        "way": "" if pd.isna(row["way"]) else str(row["way"]),
        "changes": () if pd.isna(row["changes"]) else tuple(json.loads(row["changes"])),
        "devices": int(row["devices"]),
        "largest_batch": None if pd.isna(row["largest_batch"]) else int(row["largest_batch"]),
        "usd_per_hour": _number(row["usd_per_hour"]),
        "price": cloud,
        "provider": "" if pd.isna(row["usd_per_hour"]) else cloud.partition(" ")[0],
        "rented": True,
        "start_time": 60 * START_UP_MINUTES,
        "known": bool(row["known_device"]) and bool(row["known_family"]) if known else True,
        "note": "" if known and fits is not False else str(row["reason"]),
    }
    if known and fits is not False:
        names = ("step_time", "device_time", "log_sd_shared", "log_sd_own")
        found |= {name: float(row[name]) for name in names}
        found["rough"] = bool(row["step_time_high"] > WIDE * row["step_time_low"])
        found |= {name: _number(row[name]) or 0.0 for name in ("host_time", "host_log_sd")}
        found |= {"prefill_time": _number(row["prefill_time"])}
    return Row(**found)


def _with_card(row: Row, known: HardwareRow | None) -> Row:
    """What one card costs that people buy."""
    if known is None or known.card is None or row.device != known.device:
        return row
    return replace(row, card_usd=known.card.usd, card_watts=known.power_w or 0.0)


def _offered(row: Row, known: HardwareRow | None) -> Iterator[Row]:
    """The same device where somebody gives it for nothing, by the longest week, and where it may be taken away."""
    if known is None or not row.step_time:
        return
    free = [offer for offer in known.offers if offer.offer == "free" and _holds(offer, row)]
    spot = cheapest(known.offers, "spot")
    if spot is not None and spot.usd_per_hour * row.devices < (row.usd_per_hour or math.inf):
        yield replace(
            row, device=f"{row.device}, spot", usd_per_hour=spot.usd_per_hour * row.devices, price=spot.words,
            provider=spot.provider, spot=True,
        )  # fmt: skip
    if free:
        best = max(free, key=lambda offer: offer.week_hours or 0.0)
        names = " or ".join(dict.fromkeys(offer.provider for offer in free))
        yield replace(
            row, device=f"{row.device}, free", usd_per_hour=0.0, price=best.words, provider=names,
            session_hours=best.session_hours, week_hours=best.week_hours, start_time=60 * NOTEBOOK_MINUTES,
        )  # fmt: skip


def _holds(offer: Offer, row: Row) -> bool:
    """Whether a free machine is what the row is of: one GPU of it, or the whole slice of a TPU."""
    return offer.count == row.devices or (row.kind == "gpu" and row.devices == 1)


def _is_same_device(forecast: pd.Series, cell: pd.Series, hardware: Mapping[str, str | None]) -> bool:
    mine = hardware.get(str(cell["device"]))
    same = mine is not None and forecast["device"] == mine and forecast["devices"] == cell["replicas"]
    return bool(same and forecast["precision"] == cell["precision"] and pd.notna(forecast["step_time"]))


def _beside(measured: Row, forecast: Row) -> Row:
    """A measured device with its forecast; outside: their 80 % intervals do not meet."""
    if not measured.step_time or not forecast.step_time:
        return measured
    apart = abs(math.log(measured.step_time / forecast.step_time))
    outside = apart > Z80 * (measured.spread + forecast.spread)
    return replace(measured, forecast_time=forecast.step_time, contradicts=outside)


def _number(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)
