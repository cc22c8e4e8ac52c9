"""Prepares one dataset from one source: reads or generates its arrays and writes them whole."""

from pathlib import Path

from whichdevice.config.model import Source
from whichdevice.datasets.archives import examine, require
from whichdevice.datasets.base import Arrays, Recipe
from whichdevice.datasets.info import ArchiveInfo, DatasetFacts, DatasetInfo
from whichdevice.datasets.reachable import require_network
from whichdevice.datasets.registry import get_dataset
from whichdevice.datasets.sources import TFDS_FOLDER
from whichdevice.datasets.store import check_room, write_dataset
from whichdevice.datasets.tfds_source import is_prepared
from whichdevice.errors import StudyError


def prepare_dataset(name: str, source: Source, data_dir: str | None, seed: int, folder: Path) -> DatasetInfo:
    """Write the dataset's arrays and dataset.json into `folder`, which is `<datasets>/<name>/<source>`.

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
        if not is_prepared(tfds_root, recipe.tfds_name):
            require_network(recipe, f"{data_dir or '<dir>'}/{name}")
        arrays = recipe.from_tfds(tfds_root)
        notes += [recipe.tfds_note] if recipe.tfds_note else []
    else:
        arrays = recipe.standin(seed)
        notes.append(recipe.standin_note)
    facts = DatasetFacts(
        name=name,
        source=source,
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


def _from_files(recipe: Recipe, data_dir: str | None) -> tuple[Arrays, list[ArchiveInfo]]:
    if data_dir is None:
        raise StudyError(f"{recipe.name}: source is files, but data.dir is not set; set it to the archives' folder")
    folder = Path(data_dir) / recipe.name
    arrays = recipe.from_files(folder)
    return arrays, [examine(require(folder, archive), archive) for archive in recipe.archives]


def _all_original(archives: list[ArchiveInfo]) -> bool | None:
    known = [archive.original for archive in archives if archive.original is not None]
    return all(known) if known else None
