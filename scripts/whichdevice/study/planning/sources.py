"""Sources of a call: of each dataset, and records of other machines."""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import product
from pathlib import Path, PurePosixPath

from whichdevice.base.errors import StudyError, one_line
from whichdevice.base.files import package_first
from whichdevice.measure.backends import backend_class
from whichdevice.models.datasets.base import get_dataset
from whichdevice.models.datasets.download import first_missing
from whichdevice.study.cells import Run, with_model_settings
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Call, Device, Source, Study
from whichdevice.study.prepare import check_folder, decide_sources, has_archives
from whichdevice.study.records.store import (
    MergedSource,
    measured_elsewhere,
    merged_records,
    merged_sources,
    source_folder,
)


def environment_of(kind: str, backend: str) -> str:
    """The name in envs/ that a run needs: PyTorch has its own, and so has JAX on a TPU."""
    return "torch" if backend == "torch" else "jax-tpu" if (kind, backend) == ("tpu", "jax") else kind


def missing_packages(study: Study) -> dict[tuple[str, str], str]:
    """Return, for each kind and backend that this environment cannot run, why, and what to do.

    A framework is installed or not; whether it was built for the kind is known where envs/install.sh installed it.
    """
    made = {path.name.removeprefix(".installed-") for path in Path(sys.prefix).glob(".installed-*")}
    kinds = {device.kind for device in study.devices.values()}
    backends = {backend for workload in study.workloads.values() for backend in workload.backend}
    missing: dict[tuple[str, str], str] = {}
    for kind, backend in product(sorted(kinds), sorted(backends)):
        needed = environment_of(kind, backend)
        how = f"make study ENV={needed} (docs/start/install.md)"
        if find_spec(backend_class(backend).package) is None:
            missing[kind, backend] = f"{backend} is not installed in this environment: {how}"
        elif kind != "cpu" and made and needed not in made:
            missing[kind, backend] = f"{backend} in this environment has no support for {kind}: {how}"
    return missing


def prefer_this_environment() -> None:
    """Put this interpreter's folder first on PATH and this package first on PYTHONPATH, for the jobs of the rules.

    An environment that `--sdm conda` activates comes in front of it later.
    """
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ.update(package_first())


def require_writable(folder: Path) -> None:
    """Raise StudyError where nothing can be written to `folder`: Snakemake itself keeps notes there."""
    if not os.access(folder, os.W_OK):
        raise StudyError(
            f"cannot write to {folder}, where results/ and Snakemake's notes go: "
            "run it in a folder of yours (snakemake --directory DIR); `python -m whichdevice plan` needs none"
        )


ELSEWHERE = "measured elsewhere; its records were brought here"


@dataclass(frozen=True)
class Merged:
    """The records of other machines in a call."""

    records: dict[Run, Path] = field(default_factory=dict)  # a record of this machine counts before
    absent: dict[str, str] = field(default_factory=dict)  # device: why it is never measured here
    notes: list[str] = field(default_factory=list)  # one line each for the person who calls


def with_merged(call: Call) -> tuple[Call, Merged]:
    """The call with the devices of merged records among its own, and the merged records that count.

    A pure function of the config and of results/<study>: no network, nothing written.
    """
    call = with_model_settings(call)
    root = Path(call.root)
    sources = merged_sources(root)
    notes = [
        f"records of {address} are not here yet: a run of the study brings them"
        for address in call.records
        if source_folder(root, address) not in sources
    ]
    devices = dict(call.devices)
    for source in sources.values():
        for name, device in source.devices.items():
            devices.setdefault(name, Device(**device.model_dump(exclude={"machine", "elsewhere"})))
    call = call.model_copy(update={"devices": devices})
    records: dict[Run, Path] = {}
    left_out: Counter[str] = Counter()
    for run, path in merged_records(root).items():
        source = next(source for folder, source in sources.items() if path.is_relative_to(folder))
        if (why := _unlike(call, run, source)) is None:
            records[run] = path
        else:
            left_out[why] += 1
    notes += [f"{count} records of other machines left out: {why}" for why, count in left_out.items()]
    return call, Merged(records, dict.fromkeys(measured_elsewhere(root), ELSEWHERE), notes)


def _unlike(study: Study, run: Run, source: MergedSource) -> str | None:
    """Why a merged record is not of a workload and a device of this study."""
    name = run.cell.workload
    workload, device, their_file = study.workloads.get(name), study.devices[run.cell.device], source.workloads.get(name)
    if workload is None:
        return f"this study has no workload {name}"
    file = workload.module or name
    if their_file is not None and PurePosixPath(file).name != PurePosixPath(their_file).name:
        return f"workload {name} is {one_line(their_file[:80])} there and {file} here"
    theirs = source.devices[run.cell.device]
    if (theirs.kind, theirs.replicas) != (device.kind, device.replicas):
        return (
            f"{run.cell.device} is {theirs.kind} with {theirs.replicas} replicas there and {device.kind} with "
            f"{device.replicas} here; bring them under another name (--rename)"
        )
    return None


def data_sources(call: Call, names: Sequence[str]) -> dict[str, Source]:
    """The source of each dataset: what the call names, else what was kept, else decided now.

    Archives that were put into `data.dir` since then replace what was taken without them. Raises StudyError where
    `data.dir` is no folder although a source has to be decided.
    """
    known = {
        name: source
        for name, source in _kept(call).items()
        if name in names and (source == "files" or not has_archives(name, call.data))
    }
    known |= {name: source for name, source in call.data.sources.items() if name in names}
    missing = [name for name in names if name not in known]
    if not missing:
        return known
    if not call.storage.bucket:
        check_folder(call.data)
    return {**known, **decide_sources(missing, call.data)}


def require_archives(call: Call, name: str) -> None:
    """Raise StudyError where an archive of the dataset is missing, with what can be done instead.

    A bucket raises nothing: the job that prepares a dataset looks into it first.
    """
    if call.storage.bucket or has_archives(name, call.data):
        return
    if call.data.source == "files":
        instead = "take data.source: auto"
    else:
        named = name in call.data.sources
        instead = f"leave {name} out of data.sources" if named else "take another study: --config study=NAME"
    if call.data.folder is None:
        fault = f"data.dir names no folder; set it, or {instead}"
    else:
        archive = first_missing(call.data.folder / name, get_dataset(name))
        assert archive is not None
        fault = f"there is no {archive.name} in {call.data.dir}/{name}: put it there ({archive.url}), or {instead}"
    raise StudyError(f"config: data.source: {name} is to come from files, and {fault}")


def _kept(call: Call) -> dict[str, Source]:
    """Return what an earlier call decided, where this one has the same settings of its data."""
    path = Path(call.root) / "config.yaml"
    if call.data.source != "auto" or not path.is_file():
        return {}
    try:
        before = read_study(path).data
    except StudyError:
        return {}
    return before.sources if (before.source, before.dir) == ("auto", call.data.dir) else {}
