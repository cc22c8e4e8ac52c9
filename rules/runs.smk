# One run = one process = one record. Measured one at a time on a host, all first repeats before all second ones.
RUN = "{device}/{workload}/{cell}/r{repeat}"


rule measure:
    input:
        # It holds no times: a newer file with the same content is no reason to measure again.
        dataset=lambda wildcards: [PLAN.dataset_json(name) for name in [PLAN.dataset_of(wildcards.workload)] if name],
    output:
        update(f"{ROOT}/runs/{RUN}/record.json"),
    log:
        f"{ROOT}/logs/runs/{RUN}.log",
    benchmark:
        f"{ROOT}/benchmarks/runs/{RUN}.tsv"
    priority: lambda wildcards: PLAN.place(RUN.format(**wildcards))
    conda:
        lambda wildcards: f"{workflow.basedir}/envs/{PLAN.study.devices[wildcards.device].kind}.yaml"
    # All cores: nothing else runs on this host meanwhile. The run counts its own threads from its affinity.
    threads: workflow.cores or 1
    resources:
        mem_mb=8000,
        runtime=max(10, round(PLAN.study.measure.timeout / 60) + 5),
    params:
        request=lambda wildcards: PLAN.request(RUN.format(**wildcards)),
        code=lambda wildcards: PLAN.code(RUN.format(**wildcards)),
        script=f"{workflow.basedir}/scripts/measure.py",
        config=CONFIG,
    shell:
        "python {params.script:q} {params.config:q} {output:q} --log {log:q}"


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
