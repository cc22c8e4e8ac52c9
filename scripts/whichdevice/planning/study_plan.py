"""What one call of the workflow does: the study, its runs, which of them this host measures, and what is left out."""

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from whichdevice.cells import Run, parse_run, selected
from whichdevice.config.load import check_only, load_study, resolved
from whichdevice.config.model import Call, Study
from whichdevice.datasets.prepare import is_stale, made_of
from whichdevice.datasets.sources import not_taken
from whichdevice.datasets.store import read_info
from whichdevice.devices import absent_devices, require_kind
from whichdevice.errors import StudyError
from whichdevice.measuring.attempt import run_code_hash
from whichdevice.measuring.cut import is_outdated
from whichdevice.measuring.request import build_request, dataset_folder, dataset_of
from whichdevice.planning.checks import (
    check_cells,
    check_study,
    environment_of,
    missing_packages,
    uneven_notes,
)
from whichdevice.planning.failed_runs import is_to_be_repeated
from whichdevice.planning.kept_sources import data_sources
from whichdevice.planning.merged import Merged, with_merged
from whichdevice.planning.serving_checks import SERVING
from whichdevice.study_runs import measuring_order, study_runs

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
        """Runs that this call brings about: on devices at hand, of a kind if named, narrowed by `only` and `retry`."""
        return [
            run
            for run in self.in_reach()
            if kind in (None, self.study.devices[run.cell.device].kind)
            and (self.call.retry is None or is_to_be_repeated(self.study, run))
        ]

    def in_reach(self) -> list[Run]:
        """Runs that this host and this environment can measure, narrowed by `only`."""
        return [
            run
            for run in self.runs
            if run.cell.device not in self.absent
            and run not in self.merged.records
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

    def records(self, runs: list[Run]) -> list[str]:
        """Paths of the records of these runs."""
        return [run.record(self.study) for run in runs]

    def other_records(self) -> list[str]:
        """Records that are there although this call does not bring them about: other devices, earlier calls, merged."""
        wanted = set(self.wanted())
        own = [path for run in self.runs if run not in wanted and Path(path := run.record(self.study)).is_file()]
        return own + [path.as_posix() for path in self.merged.records.values()]

    def other_times(self) -> list[int]:
        """When each of the other records was written, so that a replaced one redraws the tables."""
        return [Path(path).stat().st_mtime_ns for path in self.other_records()]

    def request(self, run: str) -> dict[str, Any]:
        """What is asked of the run of that path and can change its numbers; any change in it measures the run again.

        More time for runs that hang changes none of those that did not: `retry=failed` repeats the others.
        """
        return build_request(self.study, parse_run(run)).model_dump(mode="json", exclude={"timeout"})

    def environment(self, run: str) -> str:
        """The name in envs/ that the run needs: PyTorch has its own, JAX on a TPU the ordinary one."""
        return environment_of(*self.platform(parse_run(run)))

    def platform(self, run: Run) -> tuple[str, str]:
        """Kind of device and backend, as `missing` has them."""
        serves = self.study.workloads[run.cell.workload].model is not None
        return self.study.devices[run.cell.device].kind, SERVING if serves else run.cell.backend

    def code(self, run: str) -> str:
        """Hash of the code that the run executes: its workload, its backend and the measuring itself."""
        request = self.request(run)
        return run_code_hash(request["module"], request["backend"], request["model"])

    def is_outdated(self, run: str) -> bool:
        """Whether the run of that path has a record, but of another request, other code or other data than now."""
        parsed = parse_run(run)
        return is_outdated(self.study, build_request(self.study, parsed), Path(parsed.record(self.study)))

    def place(self, run: str) -> int:
        """The run's place in the order of measuring, from the end: the first run has the highest number."""
        return len(self.runs) - self._order.get(parse_run(run), 0)

    @cached_property
    def _order(self) -> dict[Run, int]:
        return {run: number for number, run in enumerate(measuring_order(self.study, self.runs))}

    def dataset_json(self, dataset: str) -> str:
        """Path of a prepared dataset's description; its source is the study's."""
        return str(dataset_folder(self.study, dataset) / "dataset.json")

    def dataset_input(self, workload: str, ancient: Callable[[str], Any]) -> list[Any]:
        """The description of a workload's dataset as input of a rule, for Snakemake's `ancient` where that holds.

        Another checksum is a reason to run again, a newer file is not. But below an ancient file that is itself about
        to be made, Snakemake looks no further: a stale one stays as it is.
        """
        name = self.dataset_of(workload)
        if name is None:
            return []
        path = self.dataset_json(name)
        return [path if self.is_stale(name) else ancient(path)]

    def made_of(self, dataset: str) -> dict[str, str]:
        """What the dataset would be made of now; a change in it makes the dataset anew."""
        return made_of(dataset, dataset_folder(self.study, dataset), self.study.data.folder)

    def is_stale(self, dataset: str) -> bool:
        """Whether the dataset is prepared, but not as it would be now."""
        return is_stale(dataset, dataset_folder(self.study, dataset), self.study.data.folder)

    def at_hand(self, paths: list[str]) -> list[str]:
        """All of them; of a study that was fetched, and is only shown here, those that are there."""
        return [path for path in paths if Path(path).is_file()] if self.merged.fetched else paths

    def checksum(self, dataset: Sequence[str]) -> str | None:
        """Checksum of the data that a rule's input describes, if any; FileNotFoundError until it is there whole."""
        if not dataset:
            return None
        try:
            return read_info(Path(dataset[0]).parent).checksum
        except StudyError as error:
            # Snakemake asks again once it is made, which it takes from the file's name.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), dataset[0]) from error

    def scheduler_resources(self, of_profile: Resource, **defaults: int) -> dict[str, int | Resource]:
        """For each resource that any device asks for: what a run's device asks, or the default; None: nothing.

        `of_profile` is the default of those that are not named here, of a name and a job.
        """

        def of_device(name: str) -> Resource:
            def resource(wildcards: Any, **job: Any) -> int | str | None:
                asked = {**defaults, **self.study.devices[wildcards.device].resources}
                return asked[name] if name in asked else of_profile(name, wildcards, **job)

            return resource

        names = {name for device in self.study.devices.values() for name in device.resources}
        return {**defaults, **{name: of_device(name) for name in sorted(names)}}

    def dataset_of(self, workload: str) -> str | None:
        """The dataset that one of the study's workloads reads, or None."""
        return dataset_of(self.study, workload)

    def notes(self) -> list[str]:
        """One line each for the person who calls: records, archives and batches that were left aside."""
        return self.merged.notes + not_taken(self.call.data, self.study.data.sources) + uneven_notes(self.study)

    def require_bucket(self) -> list[str]:
        """No input files; raises StudyError where the call names no bucket to publish to."""
        if not self.call.storage.bucket:
            raise StudyError(
                "publish: the config names no bucket; set storage.bucket, e.g. --config "
                "'storage={bucket: gs://name/prefix}'"
            )
        return []

    def datasets(self) -> list[str]:
        """Names of the datasets that the wanted runs read."""
        names = (dataset_of(self.study, workload) for workload in {run.cell.workload for run in self.wanted()})
        return sorted({name for name in names if name is not None})


def plan_study(config: dict[str, Any], main: bool = True) -> StudyPlan:
    """Work a call out from Snakemake's config; raises StudyError on anything wrong in it. Nothing on disk changes.

    With `main` false, as in jobs, sources of data are those of the call that started them.
    """
    call, merged = with_merged(load_study(config))
    check_only(call)
    study = resolved(call)
    check_study(study)
    runs = study_runs(study)
    absent = absent_devices(study, merged.absent)
    check_cells(study, runs, absent)
    names = sorted({name for workload in study.workloads if (name := dataset_of(study, workload)) is not None})
    data = study.data.model_copy(update={"sources": data_sources(call, names, main)})
    study = study.model_copy(update={"data": data})
    missing = {} if study.run_on == "all" else missing_packages(study)
    plan = StudyPlan(call, study, runs, absent, missing, merged)
    plan.need_packages()
    return plan
