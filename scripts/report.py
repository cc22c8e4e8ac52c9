"""Write the report of a study from its tables and figures."""

from pathlib import Path

from whichdevice.base.processes import job
from whichdevice.study.report.contents import write_report

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]):
        write_report(
            Path(snakemake.params.config),
            Path(snakemake.input.tables[0]).parent,
            Path(snakemake.input.figures[0]).parent,
            Path(snakemake.output[0]),
        )
