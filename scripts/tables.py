"""Write the tables of a study from its records."""

from pathlib import Path

from whichdevice.config.hardware import HARDWARE
from whichdevice.processes import job
from whichdevice.tables.make import write_tables

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
