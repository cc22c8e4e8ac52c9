# What the TPU compiler says of each workload's training step, on a machine without a TPU. Never beside a timed run.
from whichdevice.planning.compile_plan import compile_parameters, compiled_records

COMPILED = PLAN.at_hand(compiled_records(PLAN.study))


rule compile:
    input:
        dataset=lambda wildcards: PLAN.dataset_input(wildcards.workload, ancient),
    output:
        record=update(f"{ROOT}/compiled/{{topology}}/{{workload}}-{{program}}.json"),
    log:
        f"{ROOT}/logs/compiled/{{topology}}/{{workload}}-{{program}}.log",
    benchmark:
        f"{ROOT}/benchmarks/compiled/{{topology}}/{{workload}}-{{program}}.tsv"
    conda:
        CPU_ENVIRONMENT
    # All cores: no run is timed on this host meanwhile.
    threads: workflow.cores or 1
    resources:
        mem_mb=8000,
        runtime=max(10, round(PLAN.study.compile.timeout / 60) + 5),
    params:
        request=lambda wildcards, output: compile_parameters(PLAN.study, output[0]),
        checksum=lambda wildcards, input: PLAN.checksum(input.dataset),
        script=f"{workflow.basedir}/scripts/compile.py",
        config=CONFIG,
    shell:
        "exec python {params.script:q} {params.config:q} {output.record:q} --log {log:q} --end-with-parent"


rule compiled:
    input:
        COMPILED,
