"""Measure deep-learning workloads on CPUs, GPUs and TPUs, to decide which device to use.

    snakemake --cores 1 all     the whole study, from config/config.yaml to results/<study>/report.html
    snakemake --cores 1 cpu     the runs of one kind of device (cpu, gpu or tpu)
    snakemake --cores 1 publish         datasets, records, tables and report to storage.bucket

Stages: datasets, runs, models, compiled, tables, figures, report. The config's keys: docs/reference/config.md.
Reading this file changes nothing: the planner lists which files the config asks for, Snakemake makes those that are
missing. A record's path ends in a hash of request, code and dataset recipe, so another request is another file.
"""

import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/scripts")  # in a wheel the package is installed, and this adds nothing

from whichdevice.apps.commands.study import no_such_target
from whichdevice.study.config.load import check_yaml, default_config
from whichdevice.base.errors import or_exit

for file in workflow.overwrite_configfiles or [default_config()]:
    or_exit(check_yaml, Path(file))  # before Snakemake, which names no line
if not workflow.overwrite_configfiles:

    configfile: str(default_config())


include: "rules/study.smk"
include: "rules/datasets.smk"
include: "rules/runs.smk"
include: "rules/products.smk"
include: "rules/report.smk"
include: "rules/storage.smk"


rule all:
    default_target: True
    input:
        rules.runs.input,  # or a lost record would go unnoticed
        rules.models.input,
        rules.report.output,
        rules.uploads.input,


# A word that is no target: the nearest one. No file of the workflow has a name of letters alone.
rule unknown_target:
    input:
        lambda wildcards: or_exit(no_such_target, wildcards.word),
    output:
        "{word,[A-Za-z_]+}",
