"""Rule `publish`: datasets, records, tables, figures, report and exported models of a study to the bucket."""

from pathlib import Path

from whichdevice.base.processes import job
from whichdevice.study.remote.publish import publish, upload_dataset
from whichdevice.study.remote.transfer import open_place

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]) as log:
        bucket = open_place(snakemake.params.bucket)
        for folder in map(Path, snakemake.params.datasets):
            upload_dataset(folder, bucket, folder.parent.name, folder.name)
        log.info("Published %s", publish(Path(snakemake.params.config).parent, bucket))
