"""Write the tables of a study from its records."""

from pathlib import Path

from whichdevice.bundle import unpack
from whichdevice.config.hardware import HARDWARE
from whichdevice.job import job
from whichdevice.tables.write import write_tables

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]):
        asked = snakemake.params
        others = [bundle for bundle in asked.other_artefacts if Path(bundle).is_file()]
        for bundle in [*snakemake.input.get("artefacts", []), *others]:
            unpack(Path(bundle), Path(bundle).parent)
        write_tables(
            Path(asked.config),
            [Path(path) for path in asked.records],
            HARDWARE.with_name("published.csv"),
            Path(snakemake.output[0]).parent,
            [Path(path) for path in snakemake.input.compiled],
        )
