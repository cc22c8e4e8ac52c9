"""Decides where each dataset comes from: what the config names, or what the disk holds. The network is never asked."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from whichdevice.config.model import Data, Source
from whichdevice.datasets.archives import all_present, first_missing
from whichdevice.datasets.registry import dataset_names, get_dataset
from whichdevice.errors import StudyError

TFDS_FOLDER = ".tfds"  # below the datasets' root: TFDS's own downloads and prepared files


def decide_source(name: str, data: Data) -> Source:
    """`data.sources` wins over `data.source`; `auto` takes files where `data.dir` holds them all, else standin."""
    get_dataset(name)
    wanted = data.sources.get(name, data.source)
    if wanted != "auto":
        return wanted
    return "files" if has_archives(name, data) else "standin"


def has_archives(name: str, data: Data) -> bool:
    """Whether every archive of the dataset is below `data.dir`."""
    return data.folder is not None and all_present(data.folder / name, get_dataset(name))


def standin_notes(data: Data, sources: Mapping[str, Source]) -> list[str]:
    """A line for each dataset that `auto` took from `sources` as a stand-in, and how the real data are had."""
    if data.source != "auto":
        return []
    lines = []
    for name, source in sources.items():
        if source != "standin" or name in data.sources:
            continue
        missing = None if data.folder is None else first_missing(data.folder / name, get_dataset(name))
        if missing is None:
            why = f"{name}: stand-in data of the same shapes"
        else:
            why = f"data.dir: no {missing.name} in {data.dir}/{name}: {name} is stand-in data"
        lines.append(f"{why}; data.source: tfds downloads the real data")
    return lines


def check_folder(data: Data) -> None:
    """Raise StudyError where `auto` is to look into a `data.dir` that is no folder."""
    if data.source == "auto" and data.folder is not None and not data.folder.is_dir():
        raise StudyError(f"config: data.dir: {data.dir} is no folder; name the one that holds <dataset>/<archive>")


def check_names(data: Data) -> None:
    """Raise StudyError where `data.sources` names a dataset that does not exist."""
    for name in data.sources:
        if name not in dataset_names():
            near = get_close_matches(name, dataset_names(), n=1) or dataset_names()
            raise StudyError(f"data.sources: no dataset {name!r}; nearest: {', '.join(near)}")


def decide_sources(names: Iterable[str], data: Data) -> dict[str, Source]:
    """The source of each dataset; raises StudyError on unknown names."""
    check_names(data)
    return {name: decide_source(name, data) for name in names}
