# Each dataset once: prepared from its source into arrays that load memory-mapped and without TensorFlow.
from whichdevice.measuring.request import DATASETS
from whichdevice.planning.kept_sources import require_archives

if workflow.is_main_process:  # a job may run where the archives are not
    or_exit(require_archives, PLAN)

# Of the stand-in data alone: one fixed number, so that studies of any seed share them.
STANDIN_SEED = 1


rule dataset:
    output:
        info=update(f"{DATASETS}/{{name}}/{{source}}/dataset.json"),
    log:
        f"{DATASETS}/logs/{{name}}-{{source}}.log",
    benchmark:
        f"{DATASETS}/benchmarks/{{name}}-{{source}}.tsv"
    priority: 1_000_000
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        name=lambda wildcards: wildcards.name,
        source=lambda wildcards: wildcards.source,
        seed=STANDIN_SEED,
        made_of=lambda wildcards: PLAN.made_of(wildcards.name),
    script:
        "../scripts/dataset.py"


rule datasets:
    input:
        [PLAN.dataset_json(name) for name in PLAN.datasets()],
