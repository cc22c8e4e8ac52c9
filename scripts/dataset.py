"""Rule `dataset`: prepare one dataset from its source."""

from pathlib import Path

from whichdevice.datasets.prepare import prepare_dataset
from whichdevice.job import job

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]) as log:
        asked = snakemake.params
        info = prepare_dataset(asked.name, asked.source, asked.data_dir, asked.seed, Path(snakemake.output.info).parent)
        log.info("%s from %s: %s, checksum %s", info.name, info.source, info.counts, info.checksum)
