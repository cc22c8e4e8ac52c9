"""Decide where each dataset comes from, and prepare it: read or generate its arrays and write them whole.

The decision takes what the config names, or what the disk holds; it never asks the network.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from whichdevice.base.code_hash import code_hash
from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.models.datasets.base import (
    ArchiveInfo,
    Arrays,
    DatasetFacts,
    DatasetInfo,
    Recipe,
    dataset_names,
    get_dataset,
)
from whichdevice.models.datasets.download import (
    examine,
    first_missing,
    require,
    require_network,
    tfds_is_prepared,
)
from whichdevice.models.datasets.store import check_room, load_dataset, read_info, write_dataset
from whichdevice.study.config.model import Data, Source

TFDS_FOLDER = ".tfds"  # below the datasets' root: TFDS's own downloads and prepared files
STANDIN_SEED = 1  # of the stand-in data alone: one fixed number, so that studies of any seed share them
RECIPE_LENGTH = 8


def decide_source(name: str, data: Data) -> Source:
    """`data.sources` wins over `data.source`; `auto` takes files where `data.dir` holds them all, else standin."""
    get_dataset(name)
    wanted = data.sources.get(name, data.source)
    if wanted != "auto":
        return wanted
    return "files" if has_archives(name, data) else "standin"


def has_archives(name: str, data: Data) -> bool:
    """Whether every archive of the dataset is below `data.dir`."""
    return data.folder is not None and first_missing(data.folder / name, get_dataset(name)) is None


def standin_notes(data: Data, sources: Mapping[str, Source]) -> list[str]:
    """Return a line of datasets that `auto` took from `sources` as stand-ins, and a line for each missing archive."""
    if data.source != "auto":
        return []
    real = "data.source: tfds downloads the real data"
    unasked = [name for name, source in sources.items() if source == "standin" and name not in data.sources]
    complete = [name for name in unasked if _missing(name, data) is None]
    plain = [f"{', '.join(complete)}: stand-in data of the same shapes; {real}"] if complete else []
    return plain + [
        f"data.dir: no {missing} in {data.dir}/{name}: {name} is stand-in data; {real}"
        for name, missing in {name: _missing(name, data) for name in unasked}.items()
        if missing is not None
    ]


def _missing(name: str, data: Data) -> str | None:
    """Return the dataset's first archive that `data.dir` lacks; None where it has all or is not set."""
    archive = None if data.folder is None else first_missing(data.folder / name, get_dataset(name))
    return None if archive is None else archive.name


def check_folder(data: Data) -> None:
    """Raise StudyError where `auto` is to look into a `data.dir` that is no folder."""
    if data.source == "auto" and data.folder is not None and not data.folder.is_dir():
        raise StudyError(f"config: data.dir: {data.dir} is no folder; name the one that holds <dataset>/<archive>")


def check_names(data: Data) -> None:
    """Raise StudyError where `data.sources` names a dataset that does not exist."""
    for name in data.sources:
        if name not in dataset_names():
            raise StudyError(f"data.sources: no dataset {name}{did_you_mean(name, dataset_names())}")


def decide_sources(names: Iterable[str], data: Data) -> dict[str, Source]:
    """The source of each dataset; raises StudyError on unknown names."""
    check_names(data)
    return {name: decide_source(name, data) for name in names}


def prepare_dataset(name: str, source: Source, data_dir: str | None, seed: int, folder: Path) -> DatasetInfo:
    """Write the dataset's arrays and dataset.json into `folder`, which is `<datasets>/<name>/<source>-<recipe>`.

    `data_dir` holds `<name>/<archive>` for source `files`; `seed` makes the stand-in. Raises StudyError on an unknown
    name, missing or damaged archives, no network and no room on disk; then `folder` is as it was.
    """
    recipe = get_dataset(name)
    check_room(folder, recipe.nbytes, name)
    archives: list[ArchiveInfo] = []
    notes: list[str] = []
    if source == "files":
        arrays, archives = _from_files(recipe, data_dir)
    elif source == "tfds":
        tfds_root = folder.parent.parent / TFDS_FOLDER
        if not tfds_is_prepared(tfds_root, recipe.tfds_name):
            require_network(recipe, f"{data_dir or '<dir>'}/{name}")
        arrays = recipe.from_tfds(tfds_root)
        notes += [recipe.tfds_note] if recipe.tfds_note else []
    else:
        arrays = recipe.standin(seed)
        notes.append(recipe.standin_note)
    facts = DatasetFacts(
        name=name,
        source=source,
        code=dataset_code(name),
        seed=seed if source == "standin" else None,
        description=recipe.description,
        citation=recipe.citation,
        licence=recipe.licence,
        notes=notes,
        original=_all_original(archives),
        archives=archives,
        class_names=list(recipe.class_names),
        columns=list(recipe.columns),
        counts={count: len(arrays[array]) for count, array in recipe.counted.items()},
    )
    return write_dataset(folder, arrays, facts)


def sound_dataset(name: str, source: Source, data_dir: str | None, folder: Path) -> DatasetInfo:
    """Return the facts of a prepared dataset whose every byte is as prepared; a damaged one is prepared anew.

    So is a missing one, in a job that its files do not reach. Raises StudyError where that cannot be done, or gives
    other data.
    """
    try:
        known = read_info(folder)
    except StudyError:
        return prepare_dataset(name, source, data_dir, STANDIN_SEED, folder)
    try:
        return load_dataset(folder, verify=True).info
    except StudyError as damage:
        try:
            info = prepare_dataset(name, source, data_dir, known.seed or 0, folder)
        except StudyError as error:
            raise StudyError(f"{damage} ({error})") from error
        if info.checksum != known.checksum and info.arrays != known.arrays:
            raise StudyError(f"{str(damage).partition(';')[0]}; prepared anew, they are others: run again") from None
        return info


def dataset_code(name: str) -> str:
    """Hash of the code that prepares the dataset, whatever its source."""
    return code_hash("whichdevice.study.prepare", f"whichdevice.models.datasets.{name}")


def recipe_key(name: str, source: Source) -> str:
    """8 hexadecimal digits of what the dataset is made of: the code, published checksums, the stand-in's seed.

    The archives on this machine do not count, so the key is the same on every machine.
    """
    published = [(archive.name, archive.sha256, archive.content_md5) for archive in get_dataset(name).archives]
    parts = [
        dataset_code(name),
        published if source == "files" else None,
        STANDIN_SEED if source == "standin" else None,
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:RECIPE_LENGTH]


def _from_files(recipe: Recipe, data_dir: str | None) -> tuple[Arrays, list[ArchiveInfo]]:
    if data_dir is None:
        raise StudyError(f"{recipe.name}: source is files, but data.dir is not set; set it to the archives' folder")
    folder = Path(data_dir).expanduser() / recipe.name
    arrays = recipe.from_files(folder)
    return arrays, [examine(require(folder, archive), archive) for archive in recipe.archives]


def _all_original(archives: list[ArchiveInfo]) -> bool | None:
    known = [archive.original for archive in archives if archive.original is not None]
    return all(known) if known else None
