"""What a record says of data that come with the workload and from no dataset."""

import hashlib

import numpy as np

from whichdevice.records.schema import DataFacts
from whichdevice.workloads.base import Split, TrainingWorkload


def made_data(workload: TrainingWorkload, name: str, *splits: Split) -> DataFacts:
    """Named after the workload, with a checksum over all arrays."""
    digest = hashlib.sha256()
    for split in splits:
        for array in split.arrays.values():
            digest.update(np.ascontiguousarray(array).data)
    return DataFacts(dataset=name, source=workload.data_source, checksum=digest.hexdigest())
