"""Rule `publish`: datasets, records, tables, figures, report and exported models of a study to the bucket."""

from pathlib import Path

from whichdevice.job import job
from whichdevice.storage.dataset_copy import upload_dataset
from whichdevice.storage.place import open_place
from whichdevice.storage.publish import publish
from whichdevice.storage.region import region_warning

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]) as log:
        bucket, root = open_place(snakemake.params.bucket), Path(snakemake.params.config).parent
        if warning := region_warning(bucket):
            log.warning("%s", warning)
        for folder in map(Path, snakemake.params.datasets):
            upload_dataset(folder, bucket, folder.parent.name, folder.name)
        log.info("Published %s: %s", bucket.told(root.name), publish(root, bucket))
