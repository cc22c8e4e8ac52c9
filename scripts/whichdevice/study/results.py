"""Read what figures and the report are made of: a study's config and tables."""

from functools import cached_property
from pathlib import Path

import pandas as pd

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.decide import Answer, answers
from whichdevice.study.cells import workflow_command
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Study
from whichdevice.study.tables.base import read_table
from whichdevice.study.tables.costs import priced_cells
from whichdevice.study.tables.forecasts import read_forecasts
from whichdevice.study.tables.hardware import sheet_row
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.measured import timed
from whichdevice.study.tables.runs import NOT_MEASURED

NOTHING = "nothing-to-draw"  # in the SVG of a figure without data, which the report leaves out


class StudyResults:
    """A study's config and tables, each read when first asked for."""

    def __init__(self, config_path: Path, tables_folder: Path) -> None:
        self.config_path = Path(config_path)
        self.tables_folder = Path(tables_folder)

    @cached_property
    def study(self) -> Study:
        """The resolved config."""
        return read_study(self.config_path)

    def __getattr__(self, name: str) -> pd.DataFrame:
        """Return the table of this name, e.g. `results.summary`."""
        columns = TABLES.get(name)
        if columns is None:
            raise AttributeError(f"no table {name!r}")
        self.__dict__[name] = read_table(self.tables_folder / f"{name}.csv", columns)
        return self.__dict__[name]

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The rows of `summary` with at least one run whose speed counts."""
        return self.summary[self.summary["n_timed"].fillna(0) > 0]

    @cached_property
    def answers(self) -> list[Answer]:
        """The answer for each piece of work, as `ask` gives it."""
        sheet = hardware_rows(prices=price_sheet(self.study.prices))
        named = self.summary.dropna(subset=["device_name"]).groupby("device")["device_name"].first()
        hardware = {name: sheet_row(name, named.get(name), self.study, sheet) for name in self.study.devices}
        options = {name: workload.options for name, workload in self.study.workloads.items()}
        cells = priced_cells(self.summary, self.costs)
        return answers(cells, read_forecasts(self.forecasts), None, hardware, sheet, options=options)

    @property
    def devices(self) -> list[str]:
        """Devices with measured numbers, in the order of the config, then others."""
        known = self.measured["device"].unique().tolist()
        return [name for name in self.study.devices if name in known] + [
            name for name in known if name not in self.study.devices
        ]

    @property
    def absent(self) -> dict[str, str]:
        """Configured devices without any good run, each with the command that measures it."""
        missing = [name for name in self.study.devices if name not in self.devices]
        return {name: workflow_command(self.study, self.study.devices[name].kind) for name in missing}

    @property
    def other_machines(self) -> set[str]:
        """Devices that only another machine measures; their records are merged."""
        return set(self.runs.loc[self.runs["other_machine"].fillna(False), "device"])

    def kind(self, device: str) -> str:
        """cpu, gpu or tpu."""
        if device in self.study.devices:
            return self.study.devices[device].kind
        kinds = self.runs.loc[self.runs["device"] == device, "kind"].dropna()
        return str(kinds.iloc[0]) if len(kinds) else "cpu"

    @cached_property
    def sources(self) -> dict[str, list[str]]:
        """Data source to the datasets that came from it, over the good runs."""
        good = timed(self.runs)
        good = good[good["source"].notna()]
        by_source: dict[str, list[str]] = {}
        for source, group in good.groupby("source"):
            by_source[str(source)] = sorted(group["dataset"].dropna().unique())
        return by_source

    @property
    def attempted(self) -> pd.DataFrame:
        """The rows of `runs` that left a record."""
        return self.runs[self.runs["status"] != NOT_MEASURED]
