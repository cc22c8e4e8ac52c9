"""Rule `dataset`: one dataset from the bucket, or prepared from its source."""

from pathlib import Path

from whichdevice.base.processes import job
from whichdevice.study.config.load import load_study
from whichdevice.study.prepare import STANDIN_SEED, dataset_code, prepare_dataset
from whichdevice.study.remote.publish import fetch_dataset
from whichdevice.study.remote.transfer import open_place

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]) as log:
        name, source = snakemake.wildcards.name, snakemake.wildcards.source
        call = load_study(snakemake.config)
        data_dir = None if call.data.folder is None else str(call.data.folder)
        folder = Path(snakemake.output.info).parent
        bucket, info = call.storage.bucket, None
        if bucket:
            info = fetch_dataset(open_place(bucket), name, folder.name, folder, {"code": dataset_code(name)})
        if info is not None:
            log.info("%s from %s fetched from the bucket", name, source)
        else:
            info = prepare_dataset(name, source, data_dir, STANDIN_SEED, folder)
        counts = ", ".join(f"{count:,} {part.replace('_', ' ')}" for part, count in info.counts.items())
        log.info("%s is ready (%s): %s", info.name, info.source, counts)
