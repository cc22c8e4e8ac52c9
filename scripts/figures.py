"""Draw the figures of a study from its tables."""

from pathlib import Path

from whichdevice.base.processes import job
from whichdevice.study.figures import draw_all, figure_names

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    with job(snakemake.log[0]):
        draw_all(
            figure_names(),
            Path(snakemake.input.tables[0]).parent,
            Path(snakemake.params.config),
            Path(snakemake.output[0]).parent,
        )
