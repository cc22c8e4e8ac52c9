"""What goes to the machine: the project's tracked files as they lie here, the study's config and the records so far."""

import hashlib
import io
import os
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import yaml

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.study_runs import workload_files
from whichdevice.workloads import workload_class
from whichdevice.workloads.model_file import ModelFile

GIT_PATIENCE = 60.0  # seconds
NOT_SHIPPED = ("tpu_vm", "run_on", "merge")  # the project that pays, and folders of this machine
REPOSITORY = ("HEAD", "config", "packed-refs", "shallow", "objects")  # what a commit is made of
NEVER = {".git", ".venv", ".snakemake", "results", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def check_project(folder: Path) -> None:
    """Raise StudyError unless the folder is the project's, with its workflow and its software stack."""
    missing = [name for name in ("Snakefile", "envs/install.sh", "scripts") if not (folder / name).exists()]
    if missing:
        raise StudyError(f"{folder.name}/ has no {missing[0]}: run this in the project's folder")


def project_files(folder: Path) -> list[str]:
    """Tracked files that are there, as paths relative to the folder; without git, all but results and environments."""
    tracked = _git(folder, "ls-files", "-z", "--cached").split("\0")
    if "Snakefile" in tracked:
        return [name for name in tracked if name and (folder / name).is_file()]
    found = []
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in NEVER)
        found += [str(Path(base, name).relative_to(folder)) for name in sorted(files)]
    return found


def own_modules(study: Study, folder: Path) -> list[str]:
    """Workload files named by path; raises StudyError on one outside the project, which the machine would lack."""
    found = []
    for module, name in workload_files(study).items():
        path = (folder / module).resolve()
        if Path(module).is_absolute() or not path.is_relative_to(folder.resolve()):
            raise StudyError(
                f"workloads.{name}: {module} lies outside {folder.name}/, and a TPU VM gets this folder alone: "
                "copy it here and name it by its path from here"
            )
        found.append(str(path.relative_to(folder.resolve())))
    return found


def files_left_behind(study: Study, folder: Path) -> list[str]:
    """A line for each model file that makes its own data and lies beside files which the machine does not get."""
    sent = {*project_files(folder), *own_modules(study, folder)}
    lines = []
    for module in workload_files(study):
        chosen = workload_class(module)
        if issubclass(chosen, ModelFile) and "data" in chosen.declared.functions:
            beside = sorted((folder / module).parent.iterdir())
            kept = [path.name for path in beside if not _goes_along(path, folder, sent)]
            more = f" and {len(kept) - 1} more" if len(kept) > 1 else ""
            lines += [f"{module} has data(): {kept[0]}{more} beside it will not be on the machine."] if kept else []
    return lines


def _goes_along(path: Path, folder: Path, sent: Iterable[str]) -> bool:
    """Whether a file, or something below a folder, is sent; of what never is, nobody wonders."""
    name = path.relative_to(folder).as_posix()
    never = path.name in NEVER or path.name.startswith(".")
    return never or any(each == name or each.startswith(f"{name}/") for each in sent)


def last_commit(folder: Path, scratch: Path) -> dict[str, Path]:
    """A repository of the last commit alone, as files by their place on the machine; records then name the commit."""
    copy = scratch / "commit.git"
    source = folder.resolve().as_uri()
    if not _git(folder, "rev-parse", "HEAD"):
        return {}
    _git(folder, "clone", "--quiet", "--bare", "--depth", "1", "--no-tags", source, str(copy))
    if not (copy / "HEAD").is_file():
        return {}
    _git(copy, "remote", "remove", "origin")  # it names a path of this machine
    kept = [path for name in REPOSITORY for path in sorted([copy / name, *(copy / name).rglob("*")])]
    return {f".git/{path.relative_to(copy)}": path for path in kept if path.is_file()}


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; nothing where there is no git or no repository."""
    try:
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, check=True, timeout=GIT_PATIENCE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace").strip()


def shipped_config(values: Mapping[str, Any], study: Study, bucket: str | None) -> str:
    """The config that the machine runs: as asked, each dataset from the source that this study reads it from.

    Raises StudyError where that source is files of this machine and no bucket carries the prepared data.
    """
    sources = dict(study.data.sources)
    local = sorted(name for name, source in sources.items() if source == "files")
    if local and bucket is None:
        raise StudyError(
            f"{local[0]} is read from files of this machine, which a TPU VM lacks: "
            "set storage.bucket, or data.source: tfds"
        )
    kept = {key: value for key, value in values.items() if key not in NOT_SHIPPED}
    data = {**(kept.get("data") or {}), "sources": sources}
    return yaml.safe_dump({**kept, "data": data, "run_on": "auto"}, sort_keys=False, allow_unicode=True)


def present_records(study: Study, runs: Iterable[Run], folder: Path) -> dict[str, str]:
    """Records of these runs that are here, by path, with the SHA-256 of each."""
    paths = (run.record(study) for run in runs)
    return {path: digest(folder / path) for path in paths if (folder / path).is_file()}


def digest(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def pack(files: Mapping[str, Path], texts: Mapping[str, str], into: IO[bytes]) -> None:
    """Write a gzipped tar of files and texts by their place on the machine, without any owner's name or number."""
    with tarfile.open(fileobj=into, mode="w:gz", compresslevel=6) as archive:
        for name, path in files.items():
            archive.add(path, arcname=name, recursive=False, filter=_anonymous)
        for name, text in texts.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
