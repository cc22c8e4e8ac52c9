"""From records to the tables."""

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from whichdevice.config.hardware import HARDWARE, hardware_rows, price_sheet
from whichdevice.config.load import read_study
from whichdevice.config.model import Study
from whichdevice.tables import (
    audit,
    board,
    breakdown,
    cost_choices,
    costs,
    crossover,
    epochs,
    fastest,
    forecasts,
    inference,
    limits,
    noise_floor,
    published,
    roofline,
    runs,
    saturation,
    scaling,
    speedups,
    summary,
    time_to_target,
)
from whichdevice.tables.collect import Rows, collect
from whichdevice.tables.columns import Columns, table, write_table
from whichdevice.tables.measured_values import without_self_checks
from whichdevice.tables.sheet_rows import Sheet, sheet_row

TABLES: dict[str, Columns] = {
    "runs": runs.COLUMNS,
    "epochs": epochs.COLUMNS,
    "summary": summary.COLUMNS,
    "speedups": speedups.COLUMNS,
    "crossover": crossover.COLUMNS,
    "saturation": saturation.COLUMNS,
    "scaling": scaling.COLUMNS,
    "inference": inference.COLUMNS,
    "published": published.COLUMNS,
    "audit": audit.COLUMNS,
    "forecasts": forecasts.COLUMNS,
    "limits": limits.COLUMNS,
    "roofline": roofline.COLUMNS,
    "breakdown": breakdown.COLUMNS,
    "noise_floor": noise_floor.COLUMNS,
    "fastest": fastest.COLUMNS,
    "costs": costs.COLUMNS,
    "cost_choices": cost_choices.COLUMNS,
    "time_to_target": time_to_target.COLUMNS,
    "board": board.COLUMNS,
}


def write_tables(
    config_path: Path,
    record_paths: Iterable[Path],
    published_csv: Path,
    out_folder: Path,
    compiled_paths: Iterable[Path] = (),
    hardware_csv: Path = HARDWARE,
) -> None:
    """Write `TABLES` as CSV into `out_folder`. A record that cannot be read is a row with its reason."""
    study = read_study(config_path)
    sheet = hardware_rows(hardware_csv, price_sheet(study.prices))
    with _no_garbage():
        rows = collect(study, record_paths)
        frames = _frames(study, rows, published.read_published(published_csv), compiled_paths, sheet)
        for name, frame in frames.items():
            write_table(frame, out_folder / f"{name}.csv")


def _frames(
    study: Study,
    rows: tuple[Rows, Rows],
    claimed: list[dict[str, str]],
    compiled_paths: Iterable[Path],
    sheet: Sheet,
) -> dict[str, pd.DataFrame]:
    run_table, epoch_table = table(rows[0], runs.COLUMNS), table(rows[1], epochs.COLUMNS)
    studied = without_self_checks(run_table)
    summary_frame = summary.summary_table(studied)
    limits_frame = limits.limits_table(summary_frame, studied, study, sheet)
    roofline_frame = roofline.roofline_table(summary_frame, limits_frame)
    summary_frame = table(roofline.with_utilisation(summary_frame, roofline_frame), summary.COLUMNS)
    published_frame = published.published_table(claimed, summary_frame)
    names = summary_frame.dropna(subset=["device_name"]).groupby("device")["device_name"].first()
    devices = {name: sheet_row(name, names.get(name), study, sheet) for name in study.devices}
    forecast_frame = forecasts.forecast_table(compiled_paths, summary_frame, devices, sheet)
    cost_frame = costs.cost_table(studied, study, sheet)
    return {
        "runs": run_table,
        "epochs": epoch_table,
        "summary": summary_frame,
        "speedups": speedups.speedup_table(studied, study),
        "crossover": crossover.crossover_table(studied, study),
        "saturation": saturation.saturation_table(studied),
        "scaling": scaling.scaling_table(studied, study),
        "inference": inference.inference_table(summary_frame),
        "published": published_frame,
        "audit": audit.audit_table(claimed, published_frame, summary_frame, forecast_frame, sheet),
        "forecasts": forecast_frame,
        "limits": limits_frame,
        "roofline": roofline_frame,
        "breakdown": breakdown.breakdown_table(studied),
        "noise_floor": noise_floor.noise_floor_table(run_table, summary_frame),
        "fastest": fastest.fastest_table(studied),
        "costs": cost_frame,
        "cost_choices": cost_choices.cost_choice_table(studied, study, sheet),
        "time_to_target": time_to_target.time_to_target_table(studied, epoch_table, study, sheet),
        "board": board.board_table(summary_frame, cost_frame, forecast_frame, devices),
    }


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Looking for cycles again and again is half the time that reading 100,000 records takes; they hold none."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
