# What is made beside the runs: counted steps and exported models. Never beside a timed run: they take all cores.
from whichdevice.study.planning import products

COMPILED = products.compiled_records(PLAN)


# All steps in one job, as the devices of a model share a process that traces it once.
rule compile:
    output:
        [update(record) for record in COMPILED],
    log:
        f"{ROOT}/logs/compiled.log",
    conda:
        CPU_ENVIRONMENT
    threads: workflow.cores or 1
    resources:
        cpus_per_task=lambda wildcards: PLAN.node_cores(),
        mem_mb=8000,
        runtime=max(10, round(PLAN.study.forecast.timeout / 60) + len(COMPILED)),
    params:  # what a forecast is made of is in its record's path: forecast, devices, workloads
        config=CONFIG,
        again=PLAN.call.retry is not None,
    script:
        "../scripts/compile.py"


rule compiled:
    input:
        COMPILED,


# The best learned model of each workload that asks for it: weights, .keras file and SavedModel, checked beside its run.
rule export:
    input:
        records=lambda wildcards: products.export_inputs(PLAN, wildcards.workload),
    output:
        record=update(f"{ROOT}/models/{{workload}}/{{key}}/export.json"),
    log:
        f"{ROOT}/logs/models/{{workload}}/{{key}}.log",
    conda:
        CPU_ENVIRONMENT
    threads: workflow.cores or 1
    resources:
        cpus_per_task=lambda wildcards: PLAN.node_cores(),
        mem_mb=8000,
        runtime=70,
    params:
        others=lambda wildcards: products.other_learned(PLAN, wildcards.workload),
    shell:
        run_script("export")


rule models:
    input:
        products.exported_models(PLAN),
