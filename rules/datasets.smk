# Each dataset once: prepared from its source into arrays that load memory-mapped and without TensorFlow.
from whichdevice.study_plan import DATASETS


def dataset_json(name):
    """Path of a prepared dataset's description; its source is the study's."""
    return f"{DATASETS}/{name}/{PLAN.study.data.sources[name]}/dataset.json"


rule dataset:
    output:
        update(f"{DATASETS}/{{name}}/{{source}}/dataset.json"),
    log:
        f"{DATASETS}/logs/{{name}}-{{source}}.log",
    benchmark:
        f"{DATASETS}/benchmarks/{{name}}-{{source}}.tsv"
    params:
        data_dir=lambda wildcards: PLAN.study.data.dir if wildcards.source == "files" else None,
        code=lambda wildcards: code_hash("whichdevice.datasets.prepare", f"whichdevice.datasets.{wildcards.name}"),
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    priority: 100_000
    script:
        "../scripts/dataset.py"


rule datasets:
    input:
        [dataset_json(name) for name in PLAN.datasets()],
