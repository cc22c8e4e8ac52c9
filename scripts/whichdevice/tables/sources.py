"""What tables are made of: the study, its records' rows, the sheets, and other tables, each made once."""

from collections.abc import Iterable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.sheet_rows import Sheet, sheet_row


class Sources:
    """A study's tables by name, each made by `make(sources)` of its own file when it is first asked for.

    `run_rows` and `epoch_rows` are the records' rows, `claimed` the published figures, `compiled_paths` the records of
    compiled programs, `sheet` the hardware and its prices.
    """

    def __init__(
        self,
        study: Study,
        run_rows: list[dict[str, Any]],
        epoch_rows: list[dict[str, Any]],
        claimed: list[dict[str, str]],
        compiled_paths: Iterable[Path],
        sheet: Sheet,
    ) -> None:
        self.study, self.sheet, self.claimed = study, sheet, claimed
        self.run_rows, self.epoch_rows, self.compiled_paths = run_rows, epoch_rows, compiled_paths
        self._made: dict[str, pd.DataFrame] = {}

    def table(self, name: str) -> pd.DataFrame:
        """The table of this name."""
        if name not in self._made:
            self._made[name] = import_module(f"{__package__}.{name}").make(self)
        return self._made[name]

    @cached_property
    def studied(self) -> pd.DataFrame:
        """Table `runs` without the runs of the self-check."""
        from whichdevice.tables.measured_values import without_self_checks

        return without_self_checks(self.table("runs"))

    @cached_property
    def hardware(self) -> dict[str, str | None]:
        """The sheet's row of each of the study's devices, named by the config or recognised by the device's name."""
        named = self.table("summary").dropna(subset=["device_name"]).groupby("device")["device_name"].first()
        return {name: sheet_row(name, named.get(name), self.study, self.sheet) for name in self.study.devices}

    @cached_property
    def cells(self) -> pd.DataFrame:
        """Table `summary` before table `roofline`, which is made from it, adds its columns."""
        from whichdevice.tables.summary import summary_table

        return summary_table(self.studied)
