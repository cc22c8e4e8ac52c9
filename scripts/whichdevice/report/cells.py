"""Every cell in one table: what was measured, what the compiler says, what was published, and what nobody measured."""

from typing import Any

import pandas as pd

from whichdevice.figures.results import StudyResults
from whichdevice.report.cell_columns import HEADINGS, OTHER_VIEWS, VIEWS
from whichdevice.report.cell_strips import with_strips
from whichdevice.report.cells_elsewhere import forecast_rows, published_rows
from whichdevice.report.matching import Key, cell_key
from whichdevice.report.no_ratio import reference_device, without_ratio
from whichdevice.report.numbers import Estimate, Number, cell_number, estimate, percent, seconds, share, size
from whichdevice.report.verdicts import verdict_words, with_setting
from whichdevice.tables.measured_values import OPERATIONS
from whichdevice.tables.row_words import diverged_words

MEASURED, NOT_MEASURED = "measured", "not measured"
ROWS_A_PAGE = 25


def cell_table(study: StudyResults) -> dict[str, Any]:
    """Rows, headings, views and the library's options."""
    costs, ratios, roofs = _by_cell(study.costs), _by_cell(_ratios(study)), _by_cell(study.roofline)
    reference = reference_device(study)
    unrelated = without_ratio(study, reference)
    rows = []
    for _, row in study.summary.iterrows():
        if str(row["status"]).startswith(NOT_MEASURED) and row["device"] not in study.devices:
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
        "evidence": MEASURED if measured else NOT_MEASURED,
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
    told = str(row["status"])
    ended = f"{row['n_ok']} of {row['n']} ok" if told == "ok" else told
    return ", ".join([ended, *diverged_words(row)])


def _absolute(row: pd.Series, roof: Any) -> dict[str, Any]:
    quality = "validation_metric" if pd.notna(row["validation_metric"]) else "validation_loss"
    name = "validation loss" if quality == "validation_loss" else f"validation {row['metric']}"
    times = ("start", "initialise", "load", "build", "first_step", "first_epoch_time", "step_time", "epoch_time")
    tflops = None if roof is None else estimate(roof, "tflops")
    return {
        "throughput": estimate(row, "throughput", unit=f"{row['unit']}s/s", n="n_timed"),
        **{name: estimate(row, name, seconds, n="n_timed") for name in times},
        "tflops": tflops or estimate(row, "tflops", n="n_timed"),
        "mfu": None if roof is None else estimate(roof, "mfu", percent),
        "learned_epoch_time": estimate(row, "learned_epoch_time", seconds, n="n_learned"),
        "quality": estimate(row, quality, share, name, "n_learned"),
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
    """What the library is told: page length, buttons, filters, and columns hidden because they hold one value."""
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
