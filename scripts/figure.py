"""Draw one figure of a study from its tables."""

from pathlib import Path

from whichdevice.figures.registry import draw
from whichdevice.job import job

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]):
        draw(
            snakemake.wildcards.figure,
            Path(snakemake.input.tables[0]).parent,
            Path(snakemake.params.config),
            Path(snakemake.output.svg),
            Path(snakemake.output.png),
        )
