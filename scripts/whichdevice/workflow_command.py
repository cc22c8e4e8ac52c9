"""The calls of Snakemake that reports, figures, tables and closing lines tell a person to make."""

from pathlib import Path

from whichdevice.config.model import Study
from whichdevice.records.results_folder import MERGED


def workflow_command(study: Study, target: str = "all", *more: str) -> str:
    """The call that makes a target of this study. Without `--configfile` Snakemake would take the default study's
    config, so the study's own is named unless it is that one."""
    own = [] if _is_default(study) else [f"--configfile {study.root}/config.yaml"]
    return " ".join(["snakemake --cores 1", target, *own, *more])


def repeat_failed(study: Study) -> str:
    """The call that repeats the failed runs of a study."""
    return workflow_command(study, "all", "--forcerun measure", "--config retry=failed")


def make_tables(folder: Path) -> str:
    """The call that makes the tables in this folder of a study."""
    config = folder.parent / "config.yaml"
    return "snakemake --cores 1 tables" + (f" --configfile {config}" if config.is_file() else "")


def _is_default(study: Study) -> bool:
    """Whether it is the config that ships; the sources found for its data do not matter, merged records do."""
    data = study.data.model_copy(update={"sources": {}})
    own = study.model_copy(update={"data": data})
    return all(getattr(own, name) == value for name, value in Study()) and not Path(study.root, MERGED).is_dir()
