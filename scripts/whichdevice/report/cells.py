"""Show every cell in one table: what was measured, what the compiler says, what was published.

Each cell has a card that says how to measure it again, and each machine with its software has a card.
"""

import json
import os
import shlex
from collections import defaultdict
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.numbers import number, percent, quality, seconds, size
from whichdevice.report.numbers import (
    Elsewhere,
    Estimate,
    Key,
    Number,
    cell_key,
    cell_number,
    estimate,
    verdict_words,
    with_setting,
)
from whichdevice.results import StudyResults
from whichdevice.tables.base import CELL, device_name, diverged_words
from whichdevice.tables.measured import OPERATIONS, is_rehearsal, measured_values, without_rehearsals
from whichdevice.tables.runs import NOT_MEASURED
from whichdevice.tables.speedups import baseline_of

VIEWS = {
    "absolute": "Absolute",
    "relative": "Relative to {reference}",
    "dollar": "Per dollar",
    "joule": "Per joule",
    "cold": "Cold start, memory",
    "trust": "Noise",
}
OTHER_VIEWS = list(VIEWS)[1:]  # shown when asked for
STRIPPED = ["throughput", "relative", "per_usd", "per_joule"]
Ends = tuple[float, float, float]
COMPILED, FORECAST, PUBLISHED = "compiled", "forecast", "published"
# Published metric and unit: the column for it, the unit in the column's unit, and how it is written.
METRICS: dict[tuple[str, str], tuple[str, float, Any]] = {
    ("throughput", "TFLOP/s"): ("tflops", 1.0, number),
    ("step_time", "ms"): ("step_time", 1e-3, seconds),
    ("epoch_time", "s"): ("learned_epoch_time", 1.0, seconds),
    ("first_epoch_time", "s"): ("first_epoch_time", 1.0, seconds),
    ("tpu_init_time", "s"): ("initialise", 1.0, seconds),
    ("validation_accuracy", "fraction"): ("quality", 1.0, quality),
}
PUBLICATION = ["source", "published_device", "published_workload", "published_batch_size", "metric"]
Done = set[tuple[str, int]]  # model and repeat of each good run
CARD = {
    "device": "Device",
    "device_name": "Device name",
    "device_count": "Devices used",
    "cpu": "Processor",
    "threads": "Threads",
    "physical_cores": "Physical cores",
    "host_memory": "Memory",
    "operating_system": "Operating system",
    "driver": "Driver",
    "python": "Python",
    "versions": "Libraries",
    "flags": "Settings",
    "meter": "Energy meter",
    "git_commit": "Commit",
    "code_hash": "Measuring code",
}
CARD_KEY = [name for name in CARD if name != "code_hash"]  # what tells cards apart
CardKey = tuple[Any, ...]
SNAKEMAKE = ("snakemake", "--cores", "1")
AGAIN = "again"  # a separate folder for the repeated run: the study's record stays
FACTS = {
    "device_name": "Device",
    "threads": "Threads",
    "versions": "Libraries",
    "flags": "Settings",
    "git_commit": "Commit",
    "code_hash": "Measuring code",
    "seed": "Seed",
}
MEASURED, UNMEASURED = "measured", "not measured"
ROWS_A_PAGE = 25


class Heading(NamedTuple):
    """A column of the table: which view shows it, and whether it holds numbers."""

    key: str
    title: str
    view: str = "always"
    numbers: bool = True
    meaning: str = ""


KEYS = [
    Heading("workload", "Workload", numbers=False),
    Heading("device", "Device", numbers=False),
    Heading("backend", "Backend", numbers=False),
    Heading("precision", "Format", numbers=False, meaning="number format"),
    Heading("batch_size", "Batch / N", meaning="examples per step over all replicas; N of matrix products"),
    Heading("loop", "Loop", "extra", False, "epoch: many steps in one program; fit: plain model.fit"),
    Heading("fraction", "Data", "extra", meaning="share of the training data"),
    Heading("sequence_length", "Length", "extra", meaning="steps per sequence"),
]
VALUES = [
    Heading("throughput", "Throughput", "absolute"),
    Heading("step_time", "Step", "absolute"),
    Heading("tflops", "TFLOP/s", "absolute"),
    Heading("mfu", "Of peak", "absolute", meaning="of the best product that a framework reached here in this format"),
    Heading("epoch_time", "Epoch, computed", "absolute", meaning="steps per epoch x step time"),
    Heading("learned_epoch_time", "Epoch, in full", "absolute", meaning="learned epochs without the first"),
    Heading("quality", "Quality", "absolute", meaning="validation, at the end of learning"),
    Heading("learned_epochs", "Epochs learned", "absolute", meaning="of the longest run; a fraction: train.seconds"),
    Heading("relative", "Times the reference", "relative", meaning="same settings, paired repeats; above 1 is faster"),
    Heading("verdict", "Verdict", "relative", False),
    Heading("per_usd", "Examples per dollar", "dollar"),
    Heading("usd", "USD per million", "dollar"),
    Heading("price", "Price", "dollar", False),
    Heading("per_joule", "Examples per joule", "joule"),
    Heading("joules", "J per million", "joule"),
    Heading("watts", "Watts", "joule"),
    Heading("meter", "Meter", "joule", False),
    Heading("start", "Process start", "cold"),
    Heading("initialise", "Device taken", "cold"),
    Heading("load", "Data", "cold"),
    Heading("build", "Model", "cold"),
    Heading("first_step", "First step", "cold", meaning="trace, compilation and one step"),
    Heading("first_epoch_time", "First epoch, computed", "cold"),
    Heading("peak_host", "Host memory", "cold", meaning="peak of the process, or of one per replica together"),
    Heading("peak_device", "Device memory", "cold"),
    Heading("between", "Between processes", "trust", meaning="standard deviation beyond the noise inside"),
    Heading("within", "Within", "trust", meaning="standard deviation of windows inside a process"),
    Heading("disturbed", "Disturbed", "trust", meaning="runs that the machine disturbed; they count"),
    Heading("trending", "With a trend", "trust", meaning="runs still getting slower or faster; they count"),
    Heading("source", "Data from", "trust", False),
]
ENDING = [
    Heading("evidence", "Evidence", numbers=False, meaning="measured, forecast, compiled or published"),
    Heading("status", "Status", numbers=False),
    Heading("again", "Again", numbers=False),
]
HEADINGS = [*KEYS, *VALUES, *ENDING]


def with_strips(rows: list[dict[str, Any]]) -> None:
    """Give each row `strips`: by column the CSS variables of a strip, on a linear and on a logarithmic axis."""
    groups: dict[tuple[Any, ...], list[tuple[dict[str, Any], Ends]]] = defaultdict(list)
    for row in rows:
        row["strips"] = {}
        for key in STRIPPED:
            if (ends := _ends(row.get(key))) is not None:
                size = row["batch_size"].value if row["operation"] else None  # other sizes are other work
                groups[key, row["workload"], row["fraction"].value, size].append((row, ends))
    for (key, *_), members in groups.items():
        least, most = min(ends[0] for _, ends in members), max(ends[2] for _, ends in members)
        for row, ends in members:
            row["strips"][key] = _variables(ends, least, most)


def _ends(value: Any) -> Ends | None:
    """Return low end, value and high end; None unless it is measured and positive."""
    if not isinstance(value, Estimate) or value.value.value <= 0:
        return None
    middle = value.value.value
    if value.low is None or value.high is None or value.low.value <= 0:
        return middle, middle, middle
    return value.low.value, middle, value.high.value


def _variables(ends: Ends, least: float, most: float) -> str:
    reach = log(most / least)
    linear = [end / most for end in ends]
    logarithmic = [log(end / least) / reach if reach else 1.0 for end in ends]
    names = ["a", "m", "b", "la", "lm", "lb"]
    return ";".join(f"--{name}:{place:.3g}" for name, place in zip(names, [*linear, *logarithmic], strict=True))


def forecast_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each program that was compiled for a device."""
    return [_forecast(row) for _, row in table[table["workload"].notna()].iterrows()]


def _forecast(row: pd.Series) -> dict[str, Any]:
    known = pd.notna(row["step_time"])
    found: dict[str, Any] = {
        "evidence": FORECAST if known else "no forecast",
        "workload": row["workload"],
        "device": device_name(row),
        "kind": row["kind"],
        "backend": "jax",
        "precision": row["precision"],
        "loop": "",
        "batch_size": Number(float(row["batch_size"]), f"{row['batch_size']}"),
        "fraction": None,
        "sequence_length": _length(row),
        "status": _fits(row) if known else f"no forecast: {row['reason']}",
    }
    if pd.notna(row["memory_needed"]):
        found["peak_device"] = Elsewhere(_sized(row["memory_needed"]), COMPILED)
    if known:
        low, high = (Number(row[name], seconds(row[name])) for name in ("step_time_low", "step_time_high"))
        found["step_time"] = Elsewhere(low, FORECAST, high=high)
    return found


def _length(row: pd.Series) -> Number | None:
    length = row["sequence_length"]
    return None if pd.isna(length) else Number(float(length), f"{length}")


def _fits(row: pd.Series) -> str:
    return "fits" if row["status"] == "ok" else "does not fit into the memory"


def _sized(value: float) -> Number:
    return Number(float(value), size(value))


def published_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A row for each published number that has a column here."""
    return [
        _published(row)
        for _, row in table.drop_duplicates(PUBLICATION).iterrows()
        if pd.notna(row["value"]) and (row["metric"], row["unit"]) in METRICS
    ]


def _published(row: pd.Series) -> dict[str, Any]:
    column, scale, written = METRICS[row["metric"], row["unit"]]
    batch = row["published_batch_size"]
    disputed = row["standing"] == "disputed"
    return {
        "evidence": PUBLISHED,
        "workload": row["published_workload"],
        "device": row["published_device"],
        "kind": row["device_class"],
        "backend": "",
        "precision": "",
        "loop": "",
        "batch_size": None if pd.isna(batch) else Number(float(batch), f"{batch}"),
        "fraction": None,
        "sequence_length": None,
        column: Elsewhere(
            Number(float(row["value"]), written(row["value"] * scale)),
            PUBLISHED,
            disputed=disputed,
            order=row["value"] * scale,
        ),
        "status": f"{row['source']}, {row['date']}" + ("; disputed" if disputed else ""),
    }


def reference_device(study: StudyResults) -> str | None:
    """The device that table `speedups` divides by; None where no other one was measured."""
    devices = without_rehearsals(measured_values(study.runs))["device"].unique().tolist()
    return baseline_of("device", devices, study.study) if len(devices) > 1 else None


def without_ratio(study: StudyResults, reference: str | None) -> dict[Key, str]:
    """Return, for each measured cell, why it has no ratio."""
    good = measured_values(study.runs).groupby(CELL, dropna=False, sort=False)
    done = {cell_key(rows.iloc[0]): set(zip(rows["model"], rows["repeat"], strict=True)) for _, rows in good}
    cells = {cell_key(row): row for _, row in study.summary.iterrows()}
    rehearsals = {cell_key(row) for _, row in study.measured[is_rehearsal(study.measured)].iterrows()}
    found = {}
    for key in (cell_key(row) for _, row in study.measured.iterrows()):
        if key in rehearsals:
            found[key] = "a rehearsal on virtual replicas, which shows no speed"
        elif reference is None:
            found[key] = "no other device measured"
        else:
            there = (reference, *key[1:])
            found[key] = _words(reference, key == there, cells.get(there), done.get(key, set()), done.get(there, set()))
    return found


def _words(reference: str, own: bool, there: pd.Series | None, here: Done, done: Done) -> str:
    if own:
        return "the reference"
    if there is None:
        return f"not run on {reference}"
    if there["n_timed"] == 0:
        return f"{reference}: {str(there['status']).split(':')[0]}"
    if here and done and not {model for model, _ in here} & {model for model, _ in done}:
        return f"another model on {reference}"
    return f"no repeat in common with {reference}"


class Card(NamedTuple):
    """A machine with its software: number on the page, from 1, and lines."""

    number: int
    lines: list[tuple[str, str]]


def machine_cards(runs: pd.DataFrame) -> dict[CardKey, Card]:
    """The cards by key, in the order of their first runs."""
    ran = runs[(runs["status"] != "not_measured") & runs["started"].notna()]
    found: dict[CardKey, Card] = {}
    for _, rows in ran.groupby(CARD_KEY, sort=False, dropna=False):
        first = rows.iloc[0]
        lines = [(title, text) for name, title in CARD.items() if (text := _written(name, rows[name].dropna()))]
        lines.append(("Runs", f"{len(rows)}, {rows['started'].min()} to {rows['started'].max()} UTC"))
        found[machine_key(first)] = Card(len(found) + 1, lines)
    return found


def machine_key(row: pd.Series) -> CardKey:
    """What the card of a row of `runs` is found by."""
    return tuple(None if pd.isna(row[name]) else row[name] for name in CARD_KEY)


def _written(name: str, values: pd.Series) -> str:
    """Return the value of a card's line; for code, which differs between workloads, every value."""
    return ", ".join(f"{value / 2**30:.1f} GiB" if name == "host_memory" else str(value) for value in values.unique())


class Links:
    """Addresses relative to the page, so that the whole folder can move."""

    def __init__(self, page: Path) -> None:
        self.folder = Path(page).absolute().parent

    def to(self, path: Any) -> str | None:
        """Return the relative address of a file, or None for an address in a bucket."""
        text = str(path)
        return None if "://" in text else Path(os.path.relpath(Path(text).absolute(), self.folder)).as_posix()


def reproductions(study: StudyResults, page: Path, cards: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], Any]:
    """For each cell of table `runs` what its card says; `cards` numbers the machines below."""
    links, found = Links(page), {}
    for _, runs in study.runs.groupby(CELL, dropna=False, sort=False):
        first = runs.iloc[0]
        found[cell_key(first)] = _card(study, runs, first, links, cards)
    return found


def _card(
    study: StudyResults, runs: pd.DataFrame, first: pd.Series, links: Links, cards: dict[tuple[Any, ...], int]
) -> dict[str, Any]:
    config = f"{study.study.root}/config.yaml"
    ran = runs[runs["started"].notna() & (runs["status"] != NOT_MEASURED)]
    only = "only={" + ", ".join(f"{axis}: {_yaml(first[axis])}" for axis in CELL if pd.notna(first[axis])) + "}"
    kind = "all" if pd.isna(first["kind"]) else str(first["kind"])
    in_study = ["--configfile", config]
    return {
        "name": " · ".join(str(part) for part in first["run"].split("/")[:3]),
        "workflow": shlex.join([*SNAKEMAKE, kind, *in_study, "--forcerun", "measure", "--config", only]),
        "by_hand": shlex.join(["python", "scripts/measure.py", config, f"{AGAIN}/{first['run']}/record.json"]),
        "then": shlex.join([*SNAKEMAKE, "compare", *in_study, "--config", f"against={AGAIN}"]),
        "config": links.to(study.config_path),
        "records": [
            (f"r{row['repeat']}", str(row["status"]).replace("_", " "), links.to(row["record"]))
            for _, row in ran.iterrows()
        ],
        "machines": sorted({cards[key] for _, row in ran.iterrows() if (key := machine_key(row)) in cards}),
        "facts": [(title, " / ".join(map(str, ran[name].dropna().unique()))) for name, title in FACTS.items()],
    }


def _yaml(value: Any) -> str:
    """A value as YAML takes it on a command line."""
    if isinstance(value, str):
        return value if value.replace("_", "").isalnum() and not value[0].isdigit() else json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def cell_table(study: StudyResults) -> dict[str, Any]:
    """Rows, headings, views and the library's options."""
    costs, ratios, roofs = _by_cell(study.costs), _by_cell(_ratios(study)), _by_cell(study.roofline)
    reference = reference_device(study)
    unrelated = without_ratio(study, reference)
    rows = []
    for _, row in study.summary.iterrows():
        if str(row["status"]).startswith(UNMEASURED) and row["device"] not in study.devices:
            continue  # a device that was not measured: no row for each of its cells
        key = cell_key(row)
        rows.append(_row(row, roofs.get(key), ratios.get(key), costs.get(key), unrelated.get(key)))
    rows += forecast_rows(study.forecasts) + published_rows(study.published)
    for place, made in enumerate(rows):
        made["place"] = place
    with_strips(rows)
    return {
        "rows": rows,
        "headings": HEADINGS,
        "views": {name: title.format(reference=reference or "another device") for name, title in VIEWS.items()},
        "options": _options(rows),
    }


def _by_cell(table: pd.DataFrame) -> dict[Key, pd.Series]:
    return {cell_key(row): row for _, row in table.iterrows()}


def _ratios(study: StudyResults) -> pd.DataFrame:
    return study.speedups[study.speedups["comparison"] == "device"]


def _row(row: pd.Series, roof: Any, ratio: Any, cost: Any, unrelated: str | None) -> dict[str, Any]:
    measured = bool((row["n_timed"] or 0) > 0)
    found: dict[str, Any] = {
        **{name: row[name] for name in ("workload", "device", "backend", "precision", "loop")},
        "kind": row["kind"],
        "operation": row["unit"] in OPERATIONS,
        "evidence": MEASURED if measured else UNMEASURED,
        "batch_size": Number(float(row["batch_size"]), f"{row['batch_size']}"),
        "fraction": Number(float(row["fraction"]), percent(row["fraction"])),
        "sequence_length": cell_number(row, "sequence_length"),
        "status": _status(row),
        "emulated": row["emulated"] if pd.notna(row["emulated"]) else None,
        "remarks": row["remarks"] if pd.notna(row["remarks"]) else None,
        "key": cell_key(row),
    }
    if not measured:
        return found
    found |= _absolute(row, roof) | _relative(ratio, unrelated) | _trust(row)
    return found | (_costs(cost) if cost is not None else {})


def _status(row: pd.Series) -> str:
    words = str(row["status"])
    ended = f"{row['n_ok']} of {row['n']} ok" if words == "ok" else words
    return ", ".join([ended, *diverged_words(row)])


def _absolute(row: pd.Series, roof: Any) -> dict[str, Any]:
    learned = "validation_metric" if pd.notna(row["validation_metric"]) else "validation_loss"
    name = "validation loss" if learned == "validation_loss" else f"validation {row['metric']}"
    times = ("start", "initialise", "load", "build", "first_step", "first_epoch_time", "step_time", "epoch_time")
    tflops = None if roof is None else estimate(roof, "tflops")
    return {
        "throughput": estimate(row, "throughput", unit=f"{row['unit']}s/s", n="n_timed"),
        **{name: estimate(row, name, seconds, n="n_timed") for name in times},
        "tflops": tflops or estimate(row, "tflops", n="n_timed"),
        "mfu": None if roof is None else estimate(roof, "mfu", percent),
        "learned_epoch_time": estimate(row, "learned_epoch_time", seconds, n="n_learned"),
        "quality": estimate(row, learned, quality, name, "n_learned"),
        "learned_epochs": cell_number(row, "learned_epochs"),
        "peak_host": estimate(row, "peak_host", size, n="n_timed"),
        "peak_device": estimate(row, "peak_device", size, n="n_timed"),
    }


def _relative(ratio: Any, unrelated: str | None) -> dict[str, Any]:
    if ratio is None:
        return {"verdict": unrelated}
    return {"relative": estimate(ratio, "ratio"), "verdict": with_setting(verdict_words(ratio), ratio)}


def _trust(row: pd.Series) -> dict[str, Any]:
    return {
        "between": estimate(row, "sd_between", percent, n="n_timed"),
        "within": estimate(row, "sd_within", percent, n="n_timed"),
        "disturbed": cell_number(row, "n_disturbed"),
        "trending": cell_number(row, "n_trending"),
        "source": row["source"] if pd.notna(row["source"]) else "",
    }


def _costs(cost: pd.Series) -> dict[str, Any]:
    unit = f"{cost['unit']}s"
    return {
        "per_usd": estimate(cost, "units_per_usd", unit=unit),
        "usd": estimate(cost, "usd_per_million", unit="USD"),
        "price": cost["price"],
        "per_joule": estimate(cost, "units_per_joule", unit=unit, n="n_metered"),
        "joules": estimate(cost, "joules_per_million", unit="J", n="n_metered"),
        "watts": estimate(cost, "watts", unit="W", n="n_metered"),
        "meter": cost["meter"] if pd.notna(cost["meter"]) else "",
    }


def _options(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the library's options: page length, buttons, filters, and columns hidden because they hold one value."""
    numeric = [place for place, heading in enumerate(HEADINGS) if heading.numbers]
    hidden = [
        place
        for place, heading in enumerate(HEADINGS)
        if heading.view in OTHER_VIEWS
        or (heading.view == "extra" and len({_plain(row.get(heading.key)) for row in rows}) < 2)
    ]
    choosable = [place for place, heading in enumerate(HEADINGS) if heading.key != "again"]
    return {
        "order": [],
        "pageLength": ROWS_A_PAGE,
        "lengthMenu": [[10, ROWS_A_PAGE, 50, 200, -1], [10, ROWS_A_PAGE, 50, 200, "all"]],
        "autoWidth": False,
        "layout": {
            "topStart": {"buttons": [{"extend": "colvis", "text": "Columns", "columns": choosable}]},
            "topEnd": {"search": {"placeholder": "any word"}},
            "bottomStart": ["info", "pageLength"],
            "bottomEnd": "paging",
        },
        "columnControl": ["searchDropdown"],
        "columnDefs": [
            {"targets": numeric, "type": "num"},
            {"targets": hidden, "visible": False},
            {"targets": [len(HEADINGS) - 1], "orderable": False, "searchable": False, "columnControl": []},
        ],
    }


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Number | Estimate) else value
