"""What a call takes from other places: merged records, a published study, datasets in the bucket."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from whichdevice.cells import Run
from whichdevice.config.load import check_only
from whichdevice.config.model import Call, Study
from whichdevice.errors import StudyError
from whichdevice.planning.claim import Claim
from whichdevice.records.results_folder import MERGED

if TYPE_CHECKING:
    from whichdevice.datasets.info import DatasetInfo
    from whichdevice.merging.merge import MergedRuns

FETCHED = "its records come from results_from; nothing is measured here"


@dataclass(frozen=True)
class Elsewhere:
    """Records of other machines in this call."""

    records: dict[Run, Path] = field(default_factory=dict)
    written: dict[Path, int] = field(default_factory=dict)  # when, in nanoseconds; of merged records
    notes: list[str] = field(default_factory=list)  # one line each for the person who calls
    merged: "MergedRuns | None" = None
    published: bool = False  # the whole study comes from results_from

    def absent(self, study: Study) -> dict[str, str]:
        """Every device where the whole study was fetched, else none."""
        return dict.fromkeys(study.devices, FETCHED) if self.published else {}

    def counted(self, study: Study, absent: Mapping[str, str]) -> "Elsewhere":
        """With those merged records that count beside this machine's; raises StudyError where two clash."""
        if self.merged is None:
            return self
        from whichdevice.devices.machine import this_machine
        from whichdevice.merging.merge import without_measured_here

        return replace(self, records=without_measured_here(self.merged, study, absent, this_machine()))


def with_elsewhere(call: Call, refresh: bool, claim: Claim, own: bool = False) -> tuple[Call, Elsewhere]:
    """The call with what comes from elsewhere; nothing is imported or asked where it names no other place.

    Without `refresh` that is what an earlier call brought; what `claim` does not hold stays as it is. `own`: the config
    is the study's own, which names no source of merged records: those that were brought count.
    """
    if call.results_from:
        from whichdevice.merging.published import fetched_records, published_study
        from whichdevice.study_runs import workload_files

        study = published_study(call.results_from, refresh, claim.holds, workload_files(call))
        return study, Elsewhere(fetched_records(Path(study.root)), published=True)
    if not call.merge and not (Path(call.root) / MERGED).is_dir():
        return call, Elsewhere()
    from whichdevice.merging.merge import kept_records, merge_nothing, merge_records, with_devices

    if not call.merge and not own:
        if claim.holds(Path(call.root)):
            merge_nothing(call)
        return call, Elsewhere()
    if not call.merge:
        merged = kept_records(call)
    elif refresh:
        with claim.folder(Path(call.root), MERGED) as folder:
            merged = merge_records(call, refresh, folder)
    else:
        merged = merge_records(call, refresh)
    call = with_devices(call, merged)
    check_only(call)
    written = {each.path: each.written for each in merged.runs.values()}
    return call, Elsewhere(written=written, notes=merged.notes, merged=merged)


def require_bucket(call: Call) -> list[str]:
    """No input files; raises StudyError where the call names no bucket to publish to."""
    if not call.storage.bucket:
        raise StudyError("publish: where to? set storage.bucket, e.g. --config 'storage={bucket: gs://name/prefix}'")
    return []


def in_bucket(call: Call) -> dict[str, set[str]]:
    """The sources of each dataset that lies prepared in the bucket; nothing without one."""
    if not call.storage.bucket:
        return {}
    from whichdevice.storage.dataset_copy import datasets_there
    from whichdevice.storage.place import open_place

    return datasets_there(open_place(call.storage.bucket))


def fetched(bucket: str, name: str, source: str, folder: Path, made_of: Mapping[str, str]) -> "DatasetInfo | None":
    """The dataset fetched from the bucket to `folder` and verified; None where it lies there not, or made otherwise."""
    from whichdevice.storage.dataset_copy import fetch_dataset
    from whichdevice.storage.place import open_place

    return fetch_dataset(open_place(bucket), name, source, folder, made_of)
