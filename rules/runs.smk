# One run = one process = one record. Measured one at a time on a host, in randomised blocks: all
# first repeats before all second ones, the cells of each block in an order of its own.
RUN = "{device}/{workload}/{cell}/r{repeat}"


rule measure:
    input:
        dataset=lambda wildcards: PLAN.dataset_input(wildcards.workload, ancient),
    output:
        record=update(f"{ROOT}/runs/{RUN}/record.json"),
    log:
        f"{ROOT}/logs/runs/{RUN}.log",
    benchmark:
        f"{ROOT}/benchmarks/runs/{RUN}.tsv"
    priority: lambda wildcards: PLAN.place(RUN.format(**wildcards))
    conda:
        lambda wildcards: f"{workflow.basedir}/envs/{PLAN.environment(RUN.format(**wildcards))}.yaml"
    # All cores: nothing else runs on this host meanwhile. The run counts its own threads from its affinity.
    threads: workflow.cores or 1
    resources:
        **PLAN.scheduler_resources(of_profile, mem_mb=8000, runtime=max(10, round(PLAN.study.measure.timeout / 60) + 5)),
    params:
        request=lambda wildcards: PLAN.request(RUN.format(**wildcards)),
        code=lambda wildcards: PLAN.code(RUN.format(**wildcards)),
        checksum=lambda wildcards, input: PLAN.checksum(input.dataset),
        script=f"{workflow.basedir}/scripts/measure.py",
        config=CONFIG,
    shell:
        "exec python {params.script:q} {params.config:q} {output.record:q} --log {log:q} --end-with-parent"


rule runs:
    input:
        PLAN.records(PLAN.wanted()),


rule cpu:
    input:
        lambda wildcards: PLAN.records(or_exit(PLAN.of_kind, "cpu")),


rule gpu:
    input:
        lambda wildcards: PLAN.records(or_exit(PLAN.of_kind, "gpu")),


rule tpu:
    input:
        lambda wildcards: PLAN.records(or_exit(PLAN.of_kind, "tpu")),
