"""Measure deep-learning workloads on CPUs, GPUs and TPUs and tell which device to use.

    snakemake --cores 1 all     the whole study, from config/config.yaml to results/<study>/report.html
    snakemake --cores 1 cpu     the runs of one kind of device (cpu, gpu or tpu)
    snakemake --cores 1 compare --config against=results/<other>  other records, cell by cell
    snakemake --cores 1 publish         datasets, records, tables and report to storage.bucket

Stages: datasets, runs, models, compiled, tables, figures, report. The config's keys: docs/configuration.md.
"""


include: "rules/start.smk"


if not workflow.overwrite_configfiles:

    configfile: DEFAULT_CONFIG


include: "rules/outputs.smk"
include: "rules/study.smk"
include: "rules/datasets.smk"
include: "rules/runs.smk"
include: "rules/models.smk"
include: "rules/compiled.smk"
include: "rules/tables.smk"
include: "rules/figures.smk"
include: "rules/report.smk"
include: "rules/compare.smk"
include: "rules/storage.smk"


rule all:
    default_target: True
    input:
        rules.runs.input,  # or a lost record would go unnoticed
        rules.models.input,
        rules.report.input,
        rules.uploads.input,
