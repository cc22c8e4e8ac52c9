"""The plan of one call of the workflow: the study, its runs, which ones this host measures, and what is left out.

Everything here is a function of the config, the code and the files that exist; nothing is written, locked or fetched.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.memory import available_memory
from whichdevice.study.cells import Run, parse_run, selected, study_runs
from whichdevice.study.config.load import load_study, resolved
from whichdevice.study.config.model import Call, Study
from whichdevice.study.planning import slurm
from whichdevice.study.planning.checks import check_cells, check_only, check_study, uneven_notes
from whichdevice.study.planning.devices import absent_devices, require_kind
from whichdevice.study.planning.sources import (
    Merged,
    data_sources,
    environment_of,
    missing_packages,
    require_archives,
    with_merged,
)
from whichdevice.study.prepare import standin_notes
from whichdevice.study.records.store import read_record, write_keys
from whichdevice.study.request import DATASETS, dataset_folder, dataset_of, measuring_order, planned_record

Resource = Callable[..., int | str | None]


@dataclass(frozen=True)
class StudyPlan:
    """A call of the workflow, worked out before anything runs."""

    call: Call
    study: Study  # with the source of every dataset decided
    runs: list[Run]  # every configured run, in the order of the config, repeat by repeat
    absent: dict[str, str]  # device: why this host does not measure it
    missing: dict[tuple[str, str], str] = field(default_factory=dict)  # kind, backend: why not in this environment
    merged: Merged = field(default_factory=Merged)  # records of other machines

    def wanted(self, kind: str | None = None) -> list[Run]:
        """Runs that this call brings about: of a kind of device if named, narrowed by `only` and `retry`."""
        return [
            run
            for run in self.in_reach()
            if kind in (None, self.study.devices[run.cell.device].kind)
            and (self.call.retry is None or is_to_be_repeated(self.study, self.record(run)))
        ]

    def in_reach(self) -> list[Run]:
        """Runs that this host and this environment can measure, narrowed by `only`."""
        return [
            run
            for run in self.runs
            if run.cell.device not in self.absent
            and run not in self.merged_records
            and self.platform(run) not in self.missing
            and selected(run, self.call.only)
        ]

    def of_kind(self, kind: str) -> list[Run]:
        """Runs of a kind asked for by name; raises StudyError where this host has no such device."""
        self.need_packages(kind)
        if not self.wanted(kind) and not any(
            device.kind == kind and name not in self.absent for name, device in self.study.devices.items()
        ):
            require_kind(self.study, kind, self.absent)
        return self.wanted(kind)

    def need_packages(self, kind: str | None = None) -> None:
        """Raise StudyError where everything that a call asks for needs a backend that is not installed."""
        asked = [
            self.platform(run)
            for run in self.runs
            if run.cell.device not in self.absent
            and kind in (None, self.study.devices[run.cell.device].kind)
            and selected(run, self.call.only)
        ]
        if asked and set(asked) <= set(self.missing):
            raise StudyError("; ".join(dict.fromkeys(self.missing[platform] for platform in asked)))

    def record(self, run: Run) -> str:
        """Path of the run's record; another request, code or dataset recipe is another path."""
        if run not in self._paths:
            self._paths[run] = planned_record(self.study, run)
        return self._paths[run]

    @cached_property
    def merged_records(self) -> dict[Run, Path]:
        """The merged records that count: of runs that have no record of this machine."""
        return {run: path for run, path in self.merged.records.items() if not Path(self.record(run)).is_file()}

    @cached_property
    def _paths(self) -> dict[Run, str]:
        return {}

    def records(self, runs: Sequence[Run]) -> list[str]:
        """Paths of the records of these runs."""
        return [self.record(run) for run in runs]

    def write_keys(self) -> None:
        """Write which record of each configured run counts now, for whoever reads the results folder later."""
        write_keys({run.path: Path(self.record(run)).parent.name for run in self.runs}, Path(self.study.root))

    def end_future(self) -> None:
        """Date files from the future, as a clock set back leaves them, to now; Snakemake would stop at them.

        A file that somebody else owns keeps its date.
        """
        now = time.time()
        for folder in (Path(self.study.root), DATASETS):
            for path in folder.rglob("*"):
                with suppress(OSError):
                    if path.lstat().st_mtime > now:
                        os.utime(path, (now, now), follow_symlinks=False)

    def to_measure(self) -> list[Run]:
        """Return the wanted runs that have no record yet; all of them with `retry`."""
        return [run for run in self.wanted() if self.call.retry is not None or not Path(self.record(run)).is_file()]

    def other_records(self) -> list[str]:
        """Existing records that count though this call does not bring them about: of other devices, and merged."""
        wanted = set(self.wanted())
        paths = (self.record(run) for run in self.runs if run not in wanted)
        own_paths = [path for path in paths if Path(path).is_file()]
        return own_paths + [path.as_posix() for path in self.merged_records.values()]

    def other_times(self) -> list[int]:
        """When each of the other records was written, so that a replaced one redraws the tables."""
        return [path.stat().st_mtime_ns for path in map(Path, self.other_records())]

    def changed(self) -> list[Run]:
        """Runs to measure that have a record of another request, code or dataset recipe."""
        return [run for run in self.to_measure() if any(Path(self.record(run)).parents[1].glob("*/record.json"))]

    def environment(self, run: str) -> str:
        """The name in envs/ that the run needs: PyTorch has its own, JAX on a TPU the ordinary one."""
        return environment_of(*self.platform(parse_run(run)))

    def platform(self, run: Run) -> tuple[str, str]:
        """Kind of device and backend, as `missing` has them."""
        return self.study.devices[run.cell.device].kind, run.cell.backend

    def place(self, run: str) -> int:
        """The run's place in the order of measuring, from the end: the first run has the highest number."""
        return len(self.runs) - self._order.get(parse_run(run), 0)

    @cached_property
    def _order(self) -> dict[Run, int]:
        return {run: number for number, run in enumerate(measuring_order(self.study, self.runs))}

    def dataset_json(self, dataset: str) -> str:
        """Path of a prepared dataset's description; its folder is named by source and recipe."""
        return str(dataset_folder(self.study, dataset) / "dataset.json")

    def dataset_input(self, workload: str, record: str, ancient: Callable[[str], Any]) -> list[Any]:
        """The description of a workload's dataset as input of the rule that makes `record`, as Snakemake's `ancient`.

        Nothing where the record exists and the dataset, which was deleted, has to be made for another one: below a
        file that is about to be made, Snakemake would make this record again.
        """
        name = self.dataset_of(workload)
        if name is None:
            return []
        path = self.dataset_json(name)
        return [] if not Path(path).is_file() and Path(record).is_file() else [ancient(path)]

    def archives(self, dataset: str) -> list[str]:
        """No input files; raises StudyError where the dataset has to be prepared from archives that are not here."""
        if self.study.data.sources[dataset] == "files" and not Path(self.dataset_json(dataset)).is_file():
            require_archives(self.call, dataset)
        return []

    def scheduler_resources(self, **defaults: int) -> dict[str, int | Resource]:
        """Return, for each resource that any device asks for, the run's value, or the default; None: nothing.

        Without `cpus_per_task` a device takes the cores of its Slurm partition's nodes.
        """

        def of_device(name: str) -> Resource:
            def resource(wildcards: Any) -> int | str | None:
                return self._asked(wildcards.device, **defaults).get(name)

            return resource

        names = {name for device in self.study.devices.values() for name in device.resources} | {"cpus_per_task"}
        return {**defaults, **{name: of_device(name) for name in sorted(names)}}

    def node_cores(self) -> int | None:
        """Cores of the nodes of Slurm's default partition, for work beside the runs; None without Slurm."""
        return slurm.node_cores(slurm.partitions(), None) if self.study.run_on == "all" else None

    def _asked(self, device: str, **defaults: int) -> dict[str, int | str | None]:
        named = self.study.devices[device].resources
        if self.study.run_on != "all":
            return {**defaults, **named}
        partition = named.get("slurm_partition")
        cores = slurm.node_cores(slurm.partitions(), None if partition is None else str(partition))
        return {"cpus_per_task": cores, **defaults, **named}

    def _never_start(self) -> list[str]:
        """A line for each device whose runs Slurm would keep waiting for ever."""
        if self.study.run_on != "all":
            return []
        resources = {
            device: why
            for device in dict.fromkeys(run.cell.device for run in self.to_measure())
            if (why := slurm.never_starts(slurm.partitions(), self._asked(device))) is not None
        }
        return [
            f"Slurm will never start the runs of device {device}: {why}; change devices.{device}.resources"
            for device, why in resources.items()
        ]

    def require_bucket(self) -> list[str]:
        """No input files; raises StudyError where the call names no bucket to publish to."""
        if not self.call.storage.bucket:
            raise StudyError(
                "publish: the config names no bucket; set storage.bucket, e.g. --config "
                "'storage={bucket: gs://name/prefix}'"
            )
        return []

    def uploads(self) -> list[str]:
        """Marks of the datasets that go to the bucket; none without one."""
        names = self.datasets() if self.call.storage.bucket else []
        folders = [dataset_folder(self.study, name) for name in names]
        return [f"{DATASETS}/uploaded/{folder.parent.name}/{folder.name}.json" for folder in folders]

    def dataset_of(self, workload: str) -> str | None:
        """The dataset that one of the study's workloads reads, or None."""
        return dataset_of(self.study, workload)

    def key(self, key: str) -> Any:
        """Return the value of the study under a key such as `measure.repeats`, as plain data."""
        value = self.study.model_dump(mode="json")
        for part in key.split("."):
            value = value[part]
        return value

    def notes(self) -> list[str]:
        """One line each for the person who calls: stand-in data, batches that were left aside, runs that changed."""
        to_measure, again = self.to_measure(), len(self.changed())
        changed = f"{again} measured runs changed in settings, code or data and are measured again; old records stay"
        return (
            self.merged.notes
            + standin_notes(self.call.data, {name: self.study.data.sources[name] for name in self.datasets(to_measure)})
            + uneven_notes(self.study)
            + self._never_start()
            + [changed] * bool(again)
        )

    def datasets(self, runs: Sequence[Run] | None = None) -> list[str]:
        """Names of the datasets that these runs, or all wanted ones, read."""
        runs = self.wanted() if runs is None else runs
        names = (dataset_of(self.study, workload) for workload in {run.cell.workload for run in runs})
        return sorted({name for name in names if name is not None})


def plan_study(config: dict[str, Any]) -> StudyPlan:
    """Work a call out from Snakemake's config; raises StudyError on anything wrong in it."""
    call, merged = with_merged(load_study(config))
    study = resolved(call)
    check_study(study)
    runs = study_runs(study)
    check_only(call, runs)
    absent = absent_devices(study, merged.absent)
    check_cells(study, runs, absent)
    datasets = (dataset_of(study, workload) for workload in study.workloads)
    names = sorted({name for name in datasets if name is not None})
    data = study.data.model_copy(update={"sources": data_sources(call, names)})
    study = study.model_copy(update={"data": data})
    missing = {} if study.run_on == "all" else missing_packages(study)
    plan = StudyPlan(call, study, runs, absent, missing, merged)
    plan.need_packages()
    return plan


def run_status(record: str) -> str | None:
    """The status in a run's record, `unreadable` where it cannot be read, None where there is none."""
    path = Path(record)
    if not path.is_file():
        return None
    try:
        return read_record(path).status
    except StudyError:
        return "unreadable"


def is_to_be_repeated(study: Study, record: str) -> bool:
    """Whether `retry=failed` takes a run: it failed, or was refused memory that is now available."""
    status = run_status(record)
    return _would_fit(study, record) if status == "refused" else status not in (None, "ok")


def _would_fit(study: Study, record: str) -> bool:
    """Whether this host has as much memory left as the run was expected to need; a scheduler's node may have."""
    facts = read_record(Path(record)).workload
    if facts is None:  # too many weights to build the model: the next try says so within seconds
        return True
    return study.run_on == "all" or facts.estimated_memory <= available_memory()
