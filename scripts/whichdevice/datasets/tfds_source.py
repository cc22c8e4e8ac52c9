"""TensorFlow Datasets as a source. TFDS itself is imported only when its arrays are asked for.

Prepared as array_record, which TFDS reads without TensorFlow; its own checksums guard each download.
"""

from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.datasets.base import Arrays
from whichdevice.errors import StudyError


def is_prepared(root: Path, tfds_name: str) -> bool:
    """Whether TFDS already holds the dataset below `root`, found without importing it."""
    return any((root / tfds_name).glob("*/dataset_info.json"))


def prepare(builder: Any) -> None:
    """Download and prepare with TFDS; raises StudyError when that fails."""
    import tensorflow_datasets as tfds
    from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
    from tensorflow_datasets.core.download.util import DownloadError

    try:
        builder.download_and_prepare(file_format=tfds.core.FileFormat.ARRAY_RECORD)
    except NonMatchingChecksumError as error:
        raise StudyError(
            f"{builder.name}: the download differs from its published checksum: try again later, or put the archives "
            f"into a folder and use 'data={{source: files, dir: ...}}'"
        ) from error
    except (OSError, DownloadError) as error:  # requests' errors are OSErrors
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StudyError(f"{builder.name}: TensorFlow Datasets could not prepare it: {line}") from error


def open_builder(tfds_name: str, root: Path) -> Any:
    """A registered TFDS dataset below `root`, prepared."""
    import tensorflow_datasets as tfds

    builder = tfds.builder(tfds_name, data_dir=str(root), file_format=tfds.core.FileFormat.ARRAY_RECORD)
    prepare(builder)
    return builder


def read_images(tfds_name: str, root: Path) -> Arrays:
    """Images uint8 [n, 28, 28] and labels uint8 [n] of the splits train and test, in TFDS's order."""
    builder = open_builder(tfds_name, root)
    arrays: Arrays = {}
    for split in ("train", "test"):
        source = builder.as_data_source(split)
        images = np.empty((len(source), 28, 28), np.uint8)
        labels = np.empty(len(source), np.uint8)
        for index in range(len(source)):
            example = source[index]
            images[index], labels[index] = example["image"][..., 0], example["label"]
        arrays |= {f"{split}_images": images, f"{split}_labels": labels}
    return arrays
