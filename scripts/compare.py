"""Compare a study with other records, cell by cell."""

from pathlib import Path

from whichdevice.base.processes import job
from whichdevice.study.config.load import load_study
from whichdevice.study.planning.sources import against_records
from whichdevice.study.report.compare import compare

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]) as log:
        lines = compare(
            Path(snakemake.params.config),
            Path(snakemake.output.table).parent,
            snakemake.params.against,
            against_records(load_study(snakemake.config)),
            Path(snakemake.output.page),
        )
        for line in [*lines, f"Comparison: {snakemake.output.page}"]:
            log.info("%s", line)
