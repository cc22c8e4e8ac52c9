"""Decides where each dataset comes from: what the config says, or the first source that is at hand."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from pathlib import Path

from whichdevice.config.model import Data, Source
from whichdevice.datasets.archives import all_present, first_missing
from whichdevice.datasets.reachable import unreachable_host
from whichdevice.datasets.registry import dataset_names, get_dataset
from whichdevice.datasets.tfds_source import is_prepared
from whichdevice.errors import StudyError

TFDS_FOLDER = ".tfds"  # below the datasets' root: TFDS's own downloads and prepared files


def decide_source(name: str, data: Data, datasets_root: Path) -> Source:
    """`data.sources` wins over `data.source`; `auto` takes files, else tfds (prepared or reachable), else standin."""
    recipe = get_dataset(name)
    wanted = data.sources.get(name, data.source)
    if wanted != "auto":
        return wanted
    if lies_whole(name, data):
        return "files"
    here = is_prepared(datasets_root / TFDS_FOLDER, recipe.tfds_name)
    if here or unreachable_host(recipe) is None:
        return "tfds"
    return "standin"


def lies_whole(name: str, data: Data) -> bool:
    """Whether every archive of the dataset lies below `data.dir`."""
    return data.folder is not None and all_present(data.folder / name, get_dataset(name))


def not_taken(data: Data, sources: Mapping[str, Source]) -> list[str]:
    """A line for each dataset that `auto` took from `sources` although `data.dir` was to hold it."""
    if data.folder is None or data.source != "auto":
        return []
    lines = []
    for name, source in sources.items():
        archive = first_missing(data.folder / name, get_dataset(name))
        if archive is not None and source != "files" and name not in data.sources:
            lines.append(f"data.dir: no {archive.name} in {data.dir}/{name}: {name} comes from {source} instead")
    return lines


def check_folder(data: Data) -> None:
    """Raise StudyError where `auto` is to look into a `data.dir` that is no folder."""
    if data.source == "auto" and data.folder is not None and not data.folder.is_dir():
        raise StudyError(f"config: data.dir: {data.dir} is no folder; name the one that holds <dataset>/<archive>")


def check_names(data: Data) -> None:
    """Raise StudyError where `data.sources` names a dataset that there is not."""
    for name in data.sources:
        if name not in dataset_names():
            near = get_close_matches(name, dataset_names(), n=1) or dataset_names()
            raise StudyError(f"data.sources: no dataset {name!r}; nearest: {', '.join(near)}")


def decide_sources(names: Iterable[str], data: Data, datasets_root: Path) -> dict[str, Source]:
    """The source of each dataset, looked up side by side in under 5 s; raises StudyError on unknown names."""
    check_names(data)
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}
    with ThreadPoolExecutor(len(wanted)) as pool:
        found = pool.map(lambda name: decide_source(name, data, datasets_root), wanted)
        return dict(zip(wanted, found, strict=True))
