"""Write the resolved config of the study, every default filled in, as an output of its own."""

from pathlib import Path

from whichdevice.config.load import write_study
from whichdevice.config.model import Study
from whichdevice.job import job

if "snakemake" in globals():
    with job(snakemake.log[0]):  # type: ignore[name-defined]  # noqa: F821
        write_study(Study.model_validate(snakemake.params.study), Path(snakemake.output[0]))  # type: ignore[name-defined]  # noqa: F821
