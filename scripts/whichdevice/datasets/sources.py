"""Decides where each dataset comes from: what the config says, or the first source that is at hand."""

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from pathlib import Path

from whichdevice.config.model import Data, Source
from whichdevice.datasets.archives import all_present
from whichdevice.datasets.reachable import unreachable_host
from whichdevice.datasets.registry import dataset_names, get_dataset
from whichdevice.datasets.tfds_source import is_prepared
from whichdevice.errors import StudyError

TFDS_FOLDER = ".tfds"  # below the datasets' root: TFDS's own downloads and prepared files


def decide_source(name: str, data: Data, datasets_root: Path, in_bucket: Collection[str] = ()) -> Source:
    """`data.sources` wins over `data.source`; `auto` takes files, else tfds (prepared or reachable), else standin.

    What lies prepared in the bucket, `in_bucket`, counts as at hand.
    """
    recipe = get_dataset(name)
    wanted = data.sources.get(name, data.source)
    if wanted != "auto":
        return wanted
    if data.folder is not None and all_present(data.folder / name, recipe):
        return "files"
    if "files" in in_bucket:
        return "files"
    here = "tfds" in in_bucket or is_prepared(datasets_root / TFDS_FOLDER, recipe.tfds_name)
    if here or unreachable_host(recipe) is None:
        return "tfds"
    return "standin"


def decide_sources(
    names: Iterable[str], data: Data, datasets_root: Path, in_bucket: Mapping[str, Collection[str]] | None = None
) -> dict[str, Source]:
    """The source of each dataset, looked up side by side in under 5 s; raises StudyError on unknown names."""
    for name in data.sources:
        if name not in dataset_names():
            near = get_close_matches(name, dataset_names(), n=1) or dataset_names()
            raise StudyError(f"data.sources: no dataset {name!r}; nearest: {', '.join(near)}")
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    there = in_bucket or {}
    with ThreadPoolExecutor(len(wanted)) as pool:
        found = pool.map(lambda name: decide_source(name, data, datasets_root, there.get(name, ())), wanted)
        return dict(zip(wanted, found, strict=True))
