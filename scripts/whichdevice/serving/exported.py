"""The exported models of a study, found and loaded."""

import hashlib
import os
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.quick_import import quick_imports, without_native_messages
from whichdevice.records.exported import RECORD, SAVED_MODEL, ExportRecord, read_export
from whichdevice.serving.saved_model import ServedModel


def exports(models: Path, name: str | None = None) -> dict[str, ExportRecord]:
    """Records of the exports below results/<study>/models, by name; those that failed are left out.

    Raises StudyError where there is none, or none of that name, with the command that makes it.
    """
    found = {path.parent.name: read_export(path) for path in sorted(models.glob(f"*/{RECORD}"))}
    whole = {workload: record for workload, record in found.items() if record.status != "failed"}
    if name is not None and name not in whole:
        why = found[name].reason if name in found else f"there are {', '.join(whole) or 'none'}"
        raise StudyError(f"no exported model {name} in {models}: {why}")
    if not whole:
        raise StudyError(
            f"no exported model in {models}; set workloads.<name>.export: true, then snakemake --cores 1 models"
        )
    return {name: whole[name]} if name is not None else whole


def load_exported(folder: Path, record: ExportRecord) -> ServedModel:
    """Load the SavedModel of an export, once its files are those of the record. Raises StudyError."""
    for name, expected in record.files.items():
        if not name.startswith(f"{SAVED_MODEL}/"):
            continue
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise StudyError(f"{folder / RECORD}: {name} lies outside of its folder")
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise StudyError(f"cannot read {path}: {error.strerror or error}; export the model again") from error
        if digest != expected.sha256:
            raise StudyError(f"{path} differs from its checksum in {RECORD}; export the model again")
    return ServedModel(folder / SAVED_MODEL)


def start_tensorflow() -> None:
    """Import TensorFlow without its remarks on standard error; what goes wrong is still raised."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with quick_imports(), without_native_messages():
        import tensorflow as tf

        tf.config.list_logical_devices()  # looks for GPUs, and says so
