"""What one call of the workflow does: the study, its runs, which of them this host measures, and what is left out."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from whichdevice.backends import backend_class, backend_names
from whichdevice.cells import Run, parse_run, selected
from whichdevice.config.load import load_study, read_study, resolved
from whichdevice.config.model import Call, Study
from whichdevice.datasets.archives import checksums
from whichdevice.datasets.registry import get_dataset
from whichdevice.datasets.sources import decide_sources
from whichdevice.datasets.store import read_info
from whichdevice.devices import absent_devices, require_kind
from whichdevice.errors import StudyError
from whichdevice.measuring.measure import run_code_hash
from whichdevice.measuring.request import DATASETS, build_request, dataset_folder, dataset_of, study_runs
from whichdevice.records.store import read_record


@dataclass(frozen=True)
class StudyPlan:
    """A call of the workflow, worked out before anything runs."""

    call: Call
    study: Study  # with the source of every dataset decided
    runs: list[Run]  # every configured run, in the order of measuring
    absent: dict[str, str]  # device: why this host does not measure it

    def wanted(self, kind: str | None = None) -> list[Run]:
        """Runs that this call brings about: on devices at hand, of one kind if named, as `only` narrows them."""
        return [
            run
            for run in self.runs
            if run.cell.device not in self.absent
            and kind in (None, self.study.devices[run.cell.device].kind)
            and selected(run, self.call.only)
        ]

    def of_kind(self, kind: str) -> list[Run]:
        """Runs of a kind asked for by name; raises StudyError where this host has no such device."""
        if not self.wanted(kind) and not any(
            device.kind == kind and name not in self.absent for name, device in self.study.devices.items()
        ):
            require_kind(self.study, kind)
        return self.wanted(kind)

    def records(self, runs: list[Run]) -> list[str]:
        """Paths of the records of these runs."""
        return [run.record(self.study) for run in runs]

    def other_records(self) -> list[str]:
        """Records that are there although this call does not bring them about: other devices, earlier calls."""
        wanted = set(self.wanted())
        return [path for run in self.runs if run not in wanted and Path(path := run.record(self.study)).is_file()]

    def other_times(self) -> list[int]:
        """When each of the other records was written, so that a replaced one redraws the tables."""
        return [Path(path).stat().st_mtime_ns for path in self.other_records()]

    def request(self, run: str) -> dict[str, Any]:
        """Everything asked of the run of that path; any change in it measures the run again."""
        return build_request(self.study, parse_run(run)).model_dump(mode="json")

    def code(self, run: str) -> str:
        """Hash of the code that the run executes: its workload, its backend and the measuring itself."""
        request = self.request(run)
        return run_code_hash(request["module"], request["backend"])

    def place(self, run: str) -> int:
        """The run's place in the order of measuring, from the end: the first run has the highest number."""
        return len(self.runs) - self._order.get(parse_run(run), 0)

    @cached_property
    def _order(self) -> dict[Run, int]:
        return {run: number for number, run in enumerate(self.runs)}

    def dataset_json(self, dataset: str) -> str:
        """Path of a prepared dataset's description; its source is the study's."""
        return str(dataset_folder(self.study, dataset) / "dataset.json")

    def archives(self, dataset: str, source: str) -> dict[str, str]:
        """Checksums of the original archives that source `files` reads; none for other sources.

        Where the archives are no longer at hand, those that the prepared dataset was made of.
        """
        folder = self.study.data.folder
        if source != "files":
            return {}
        if folder is not None and (found := checksums(folder / dataset, get_dataset(dataset))):
            return found
        prepared = dataset_folder(self.study, dataset)
        if not (prepared / "dataset.json").is_file():
            return {}
        return {archive.name: archive.sha256 for archive in read_info(prepared).archives}

    def dataset_of(self, workload: str) -> str | None:
        """The dataset that one of the study's workloads reads, or None."""
        return dataset_of(self.study, workload)

    def datasets(self) -> list[str]:
        """Names of the datasets that the wanted runs read."""
        names = (dataset_of(self.study, workload) for workload in {run.cell.workload for run in self.wanted()})
        return sorted({name for name in names if name is not None})

    def failed(self) -> list[str]:
        """Records of wanted runs whose status is not ok."""
        return [path for path, status in self._statuses() if status != "ok"]

    def closing_line(self) -> str:
        """What a person reads at the end of a study."""
        statuses = Counter(status for _, status in self._statuses())
        bad = sum(statuses.values()) - statuses["ok"]
        if not bad:
            return f"All {sum(statuses.values())} runs are ok."
        named = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()) if status != "ok")
        return (
            f"{bad} of {sum(statuses.values())} runs failed ({named}). The report says why; "
            "to repeat them: snakemake --cores 1 all --config retry=failed"
        )

    def _statuses(self) -> list[tuple[str, str]]:
        found = []
        for path in self.records(self.wanted()):
            if Path(path).is_file():
                try:
                    found.append((path, str(read_record(Path(path)).status)))
                except StudyError:
                    found.append((path, "unreadable"))
        return found


def plan_study(config: dict[str, Any]) -> StudyPlan:
    """Work a call out from Snakemake's config; raises StudyError on anything wrong in it."""
    call = load_study(config)
    study = resolved(call)
    _check_backends(study)
    names = sorted({name for workload in study.workloads if (name := dataset_of(study, workload)) is not None})
    study = study.model_copy(update={"data": study.data.model_copy(update={"sources": _sources(study, names)})})
    return StudyPlan(call, study, study_runs(study), absent_devices(study))


def _check_backends(study: Study) -> None:
    """Raise StudyError where a workload asks for a backend or a loop that this version does not run."""
    for name, workload in study.workloads.items():
        for backend in workload.backend:
            if backend not in backend_names():
                known = ", ".join(backend_names())
                raise StudyError(f"config: workloads.{name}.backend: {backend} is not run by this version; {known} is")
            for loop in workload.loop:
                if loop not in backend_class(backend).loops:
                    known = ", ".join(backend_class(backend).loops)
                    raise StudyError(f"config: workloads.{name}.loop: {backend} does not run {loop}; it runs {known}")


def _sources(study: Study, names: list[str]) -> dict[str, Any]:
    """Decided once per study and kept in its config.yaml, so that a later call reads the same data."""
    kept = Path(study.root) / "config.yaml"
    known: dict[str, Any] = {}
    if study.data.source == "auto" and kept.is_file():
        try:
            before = read_study(kept).data
        except StudyError:
            before = None
        if before is not None and (before.source, before.dir) == ("auto", study.data.dir):
            known = {name: source for name, source in before.sources.items() if name in names}
    known |= {name: source for name, source in study.data.sources.items() if name in names}
    missing = [name for name in names if name not in known]
    return {**known, **(decide_sources(missing, study.data, DATASETS) if missing else {})}
