"""What a figure draws from: a study's tables, and the artefacts of its best runs."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from whichdevice.config.load import read_study
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.figures.artefacts import FORMS, read_artefact
from whichdevice.records.schema import Record
from whichdevice.records.store import read_record
from whichdevice.tables import comparison
from whichdevice.tables.base import CELL, read_table
from whichdevice.tables.make import TABLES
from whichdevice.tables.measured import timed
from whichdevice.tables.runs import NOT_MEASURED
from whichdevice.workflow_command import workflow_command


class Shown(NamedTuple):
    """An artefact and the row of `runs` that it belongs to."""

    run: pd.Series
    content: Any


class StudyResults:
    """A study's config and tables, each read when first asked for."""

    def __init__(self, config_path: Path, tables_folder: Path) -> None:
        self.config_path = Path(config_path)
        self.tables_folder = Path(tables_folder)
        self.left_out: dict[str, str] = {}  # runs with a damaged artefact, and what is wrong with it

    @cached_property
    def study(self) -> Study:
        """The resolved config."""
        return read_study(self.config_path)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """Table `runs`."""
        return self._table("runs")

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """Table `epochs`."""
        return self._table("epochs")

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Table `summary`."""
        return self._table("summary")

    @cached_property
    def speedups(self) -> pd.DataFrame:
        """Table `speedups`."""
        return self._table("speedups")

    @cached_property
    def crossover(self) -> pd.DataFrame:
        """Table `crossover`."""
        return self._table("crossover")

    @cached_property
    def saturation(self) -> pd.DataFrame:
        """Table `saturation`."""
        return self._table("saturation")

    @cached_property
    def scaling(self) -> pd.DataFrame:
        """Table `scaling`."""
        return self._table("scaling")

    @cached_property
    def inference(self) -> pd.DataFrame:
        """Table `inference`."""
        return self._table("inference")

    @cached_property
    def published(self) -> pd.DataFrame:
        """Table `published`."""
        return self._table("published")

    @cached_property
    def audit(self) -> pd.DataFrame:
        """Table `audit`."""
        return self._table("audit")

    @cached_property
    def forecasts(self) -> pd.DataFrame:
        """Table `forecasts`."""
        return self._table("forecasts")

    @cached_property
    def costs(self) -> pd.DataFrame:
        """Table `costs`."""
        return self._table("costs")

    @cached_property
    def fastest(self) -> pd.DataFrame:
        """Table `fastest`."""
        return self._table("fastest")

    @cached_property
    def cost_choices(self) -> pd.DataFrame:
        """Table `cost_choices`."""
        return self._table("cost_choices")

    @cached_property
    def time_to_target(self) -> pd.DataFrame:
        """Table `time_to_target`."""
        return self._table("time_to_target")

    @cached_property
    def compare(self) -> pd.DataFrame:
        """Table `compare`, which only `snakemake compare` makes."""
        return read_table(self.tables_folder / "compare.csv", comparison.COLUMNS)

    @cached_property
    def limits(self) -> pd.DataFrame:
        """Table `limits`."""
        return self._table("limits")

    @cached_property
    def roofline(self) -> pd.DataFrame:
        """Table `roofline`."""
        return self._table("roofline")

    @cached_property
    def breakdown(self) -> pd.DataFrame:
        """Table `breakdown`."""
        return self._table("breakdown")

    @cached_property
    def board(self) -> pd.DataFrame:
        """Table `board`."""
        return self._table("board")

    @cached_property
    def noise_floor(self) -> pd.DataFrame:
        """Table `noise_floor`."""
        return self._table("noise_floor")

    def _table(self, name: str) -> pd.DataFrame:
        return read_table(self.tables_folder / f"{name}.csv", TABLES[name])

    @cached_property
    def measured(self) -> pd.DataFrame:
        """The rows of `summary` with at least one run whose speed counts."""
        return self.summary[self.summary["n_timed"].fillna(0) > 0]

    @property
    def devices(self) -> list[str]:
        """Devices with measured numbers, in the order of the config, then others."""
        found = self.measured["device"].unique().tolist()
        return [name for name in self.study.devices if name in found] + [
            name for name in found if name not in self.study.devices
        ]

    @property
    def absent(self) -> dict[str, str]:
        """Configured devices without any good run, each with the command that measures it."""
        missing = [name for name in self.study.devices if name not in self.devices]
        return {name: workflow_command(self.study, self.study.devices[name].kind) for name in missing}

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
        found: dict[str, list[str]] = {}
        for source, group in good.groupby("source"):
            found[str(source)] = sorted(group["dataset"].dropna().unique())
        return found

    @property
    def attempted(self) -> pd.DataFrame:
        """The rows of `runs` that left a record."""
        return self.runs[self.runs["status"] != NOT_MEASURED]

    def artefacts(self, name: str, one_per: Sequence[str] = ("workload", "device")) -> Iterator[Shown]:
        """The artefact of the best learning run of each group, in table order; damaged ones go to `left_out`.

        Best: the most training data, then the most epochs, then the best final validation metric, else the lowest loss.
        """
        good = self.runs[(self.runs["status"] == "ok") & self.runs["learned_epochs"].notna()].copy()
        good["quality"] = good["validation_metric"].fillna(-good["validation_loss"])
        good = good.sort_values(["fraction", "learned_epochs", "quality"], ascending=False, kind="stable")
        groups: dict[Any, list[pd.Series]] = {}
        for _, run in good.iterrows():
            groups.setdefault(tuple(run[axis] for axis in one_per), []).append(run)
        order = self.runs[list(one_per)].drop_duplicates().itertuples(index=False, name=None)
        for key in order:
            for run in groups.get(key, []):
                try:
                    content = read_artefact(Path(run["record"]), name)
                except StudyError as error:
                    self.left_out[str(run["run"])] = str(error)
                    continue
                if content is not None:
                    yield Shown(run, content)
                    break

    def damaged_artefacts(self) -> dict[str, str]:
        """Every run that the figures of this study pass over for its damaged files, and what is wrong with them."""
        for name in FORMS:
            for _ in self.artefacts(name):
                pass
        return dict(sorted(self.left_out.items()))

    def runs_of(self, cell: pd.Series) -> list[pd.Series]:
        """The good runs of a row of `summary`, by repeat."""
        good = timed(self.runs).sort_values("repeat", kind="stable")
        same = pd.Series(True, good.index)
        for axis in CELL:
            same &= good[axis].isna() if pd.isna(cell[axis]) else (good[axis] == cell[axis]).fillna(False)
        return [run for _, run in good[same].iterrows()]

    def record(self, run: pd.Series) -> Record | None:
        """The record of a row of `runs`, or None where it cannot be read."""
        try:
            return read_record(Path(run["record"]))
        except StudyError:
            return None
