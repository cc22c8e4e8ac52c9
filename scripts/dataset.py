"""Rule `dataset`: one dataset from the bucket, or prepared from its source."""

from pathlib import Path

from whichdevice.config.load import load_study
from whichdevice.datasets.prepare import dataset_code, prepare_dataset
from whichdevice.job import job
from whichdevice.remote.datasets import fetch_dataset
from whichdevice.remote.place import open_place

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]) as log:
        asked = snakemake.params
        # Not a parameter: the recipe decides whether to prepare anew, and not where the archives are.
        call = load_study(snakemake.config)
        data_dir = None if call.data.folder is None else str(call.data.folder)
        folder = Path(snakemake.output.info).parent
        bucket, info = call.storage.bucket, None
        if bucket:
            info = fetch_dataset(
                open_place(bucket), asked.name, folder.name, folder, {"code": dataset_code(asked.name)}
            )
        if info is not None:
            log.info("%s from %s fetched from the bucket", asked.name, asked.source)
        else:
            info = prepare_dataset(asked.name, asked.source, data_dir, asked.seed, folder)
        log.info("%s from %s: %s, checksum %s", info.name, info.source, info.counts, info.checksum)
