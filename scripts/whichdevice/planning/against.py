"""What `snakemake compare` compares a study with."""

from pathlib import Path

from whichdevice.config.model import Call
from whichdevice.errors import StudyError
from whichdevice.records.results_folder import record_paths


def against_records(call: Call) -> list[Path]:
    """The records that `against` names; raises StudyError where it names none."""
    if not call.against:
        raise StudyError("compare: with what? --config against=results/<study>, or a folder of records")
    if "://" in call.against:
        raise StudyError(f"against: fetch it first: python -m whichdevice fetch {call.against}, then name its folder")
    folder = Path(call.against).expanduser()
    if not folder.is_dir():
        raise StudyError(f"against: no folder {call.against}; paths start where Snakemake runs")
    own, other = Path(call.root).resolve(), folder.resolve()
    if other == own / "runs" or own.is_relative_to(other):
        what = "is" if other in (own, own / "runs") else "holds"
        raise StudyError(f"against: {call.against} {what} this study itself; name another one, or set study=<name>")
    paths = record_paths(folder)
    if not paths:
        raise StudyError(f"against: no record.json below {call.against}")
    return paths


def record_times(paths: list[Path]) -> list[int]:
    """When each record was written, so that a replaced one compares anew."""
    return [path.stat().st_mtime_ns for path in paths]
