"""Write the tables of a study from its records."""

from pathlib import Path

from whichdevice.base.processes import job
from whichdevice.base.sheets.hardware import HARDWARE
from whichdevice.study.tables.make import write_tables

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]):
        asked = snakemake.params
        write_tables(
            Path(asked.config),
            [Path(path) for path in asked.records],
            HARDWARE.with_name("published.csv"),
            Path(snakemake.output[0]).parent,
            [Path(path) for path in asked.compiled],
        )
