# Datasets and results in a bucket (docs/how-to/records.md). Without storage.bucket nothing here is a part of any other target.


# Where Snakemake was started: a cluster's nodes may reach no network.
localrules:
    upload_dataset,
    publish,


rule upload_dataset:
    input:
        info=f"{DATASETS}/{{name}}/{{source}}-{{recipe}}/dataset.json",
    output:
        update(f"{DATASETS}/uploaded/{{name}}/{{source}}-{{recipe}}.json"),
    log:
        f"{DATASETS}/logs/uploaded/{{name}}/{{source}}-{{recipe}}.log",
    # Before the first run: a bucket that does not exist is reported before hours of measuring, and no run shares the machine.
    priority: 1_000_000
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        bucket=PLAN.call.storage.bucket,
    script:
        "../scripts/upload_dataset.py"


rule uploads:
    input:
        PLAN.uploads(),


# No output: the bucket is looked at each time, and only what differs is sent.
rule publish:
    input:
        bucket=lambda wildcards: or_exit(PLAN.require_bucket),
        uploads=rules.uploads.input,
        models=rules.models.input,
        report=rules.report.output,
    log:
        f"{ROOT}/logs/publish.log",
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=1000,
        runtime=60,
    params:
        config=CONFIG,
        bucket=PLAN.call.storage.bucket,
        datasets=[str(Path(PLAN.dataset_json(name)).parent) for name in PLAN.datasets()],
    script:
        "../scripts/publish.py"
