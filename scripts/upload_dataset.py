"""Rule `upload_dataset`: one prepared dataset to the bucket, with its checksums."""

from pathlib import Path

from whichdevice.base.files import write_atomically
from whichdevice.base.processes import job
from whichdevice.study.remote.publish import upload_dataset
from whichdevice.study.remote.transfer import open_place

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]) as log:
        folder, name = Path(snakemake.input.info).parent, snakemake.wildcards.name
        bucket = open_place(snakemake.params.bucket)
        log.info("%s to %s: %s", folder, bucket.address, upload_dataset(folder, bucket, name, folder.name))
        write_atomically((folder / "dataset.json").read_text(encoding="utf-8"), Path(snakemake.output[0]))
