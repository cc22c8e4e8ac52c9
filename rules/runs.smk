# One run = one process = one record. Measured one at a time on a host, in randomised blocks: all
# first repeats before all second ones, the cells of each block in an order of its own.
RUN = "{device}/{workload}/{cell}/r{repeat}"
RECORD = f"{ROOT}/runs/{RUN}/{{key}}/record.json"


# The keys of the config that a run follows (data, measure, train, its device and workload) are in its record's path.
rule measure:
    input:
        dataset=lambda wildcards: PLAN.dataset_input(wildcards.workload, RECORD.format(**wildcards), ancient),
    output:
        record=update(RECORD),
    log:
        f"{ROOT}/logs/runs/{RUN}/{{key}}.log",
    priority: lambda wildcards: PLAN.place(RUN.format(**wildcards))
    conda:
        lambda wildcards: "{}/envs/{}.yaml".format(workflow.basedir, PLAN.environment(RUN.format(**wildcards)))
    # All cores: nothing else runs on this host meanwhile. The run counts its own threads from its affinity.
    threads: workflow.cores or 1
    resources:
        **PLAN.scheduler_resources(mem_mb=8000, runtime=max(10, round(PLAN.study.measure.timeout / 60) + 5)),
    shell:
        run_script("measure", "--quiet" * WATCHED + STUDY_TEXT)


rule runs:
    input:
        PLAN.records(PLAN.wanted()),


for KIND in ("cpu", "gpu", "tpu"):

    rule:
        name:
            KIND
        input:
            lambda wildcards, kind=KIND: PLAN.records(or_exit(PLAN.of_kind, kind)),
