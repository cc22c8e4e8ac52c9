"""Where a study's data and results go beside this machine, and whose records come to it."""

from typing import Any, Literal

from pydantic import Field

from whichdevice.config.section import Name, Section

StorageClass = Literal["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"]


class Storage(Section):
    """The bucket. It can change no number, so a study's own config.yaml and report never name it."""

    bucket: str | None = Field(
        None, description="gs://name/prefix, or another address or folder; empty keeps everything on this machine"
    )
    location: str = Field(
        "US", description="of a bucket made by `python -m whichdevice bucket make`: US, EU, us-central1 ..."
    )
    storage_class: StorageClass = Field("STANDARD", description="of a bucket made so")
    project: str | None = Field(None, description="Google Cloud project of a bucket made so; empty takes the login's")


class Merge(Section):
    """Records of another machine."""

    source: str = Field(
        alias="from", min_length=1, description="results folder, its .zip, or its address: gs://name/prefix/<study>"
    )
    rename: dict[Name, Name] = Field(default_factory=dict, description="its devices' names here, e.g. {cpu: laptop}")


def each_once(merge: list[Merge]) -> list[Merge]:
    """No source twice: its records lie here once, under one set of names."""
    named: set[str] = set()
    for entry in merge:
        source = entry.source.strip().rstrip("/")
        if source in named:
            raise ValueError(f"names {source} twice; put both renames in one entry")
        named.add(source)
    return merge


def entries(value: Any) -> Any:
    """One source for a list of one, and an address alone for an entry that renames nothing."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [{"from": entry} if isinstance(entry, str) else entry for entry in listed]
