"""Count the steps that a study forecasts, all in one job: one count serves all devices."""

import os
import sys
from pathlib import Path

from whichdevice.base.processes import job, stop_with_parent
from whichdevice.study.config.load import read_study
from whichdevice.study.programs import compile_study

if "snakemake" in globals():
    snakemake = globals()["snakemake"]
    log = Path(snakemake.log[0])
    with job(str(log)):
        stop_with_parent(os.getppid())
        asked, outputs = snakemake.params, [Path(path) for path in snakemake.output]
        records = compile_study(read_study(Path(asked.config)), outputs, log, asked.again)
    for record in records:
        if record.status != "ok":
            print(f"{record.asked.path}: {record.status} ({record.reason})", file=sys.stderr)
