# Each dataset once: prepared from its source into arrays that load memory-mapped and without TensorFlow. Its folder is
# named by source and recipe, so that a changed recipe is another dataset and its runs are other records.


rule dataset:
    input:
        archives=lambda wildcards: or_exit(PLAN.archives, wildcards.name),
    output:
        info=update(f"{DATASETS}/{{name}}/{{source}}-{{recipe}}/dataset.json"),
    log:
        f"{DATASETS}/logs/{{name}}-{{source}}-{{recipe}}.log",
    priority: 1_000_000
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    # data.dir and storage.bucket say where it is read from, and change nothing of it: no parameters.
    script:
        "../scripts/dataset.py"


rule datasets:
    input:
        [PLAN.dataset_json(name) for name in PLAN.datasets()],
