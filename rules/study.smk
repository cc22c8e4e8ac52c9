# The study that this call is about: config checked, devices found, data sources decided, folder locked.
from whichdevice.code_hash import code_hash
from whichdevice.locks import study_lock
from whichdevice.planning.study_plan import plan_study

PLAN = or_exit(plan_study, config)
ROOT = PLAN.study.root
CPU_ENVIRONMENT = f"{workflow.basedir}/envs/cpu.yaml"

if PLAN.call.retry == "failed":
    workflow.dag_settings.forcerun = frozenset({*workflow.dag_settings.forcerun, *PLAN.failed()})


wildcard_constraints:
    device=r"[^/]+",
    workload=r"[^/]+",
    cell=r"[^/]+",
    repeat=r"\d+",
    name=r"[^/]+",
    source=r"tfds|files|standin",
    figure=r"[^/]+",


localrules:
    study_config,


rule study_config:
    output:
        update(f"{ROOT}/config.yaml"),
    log:
        f"{ROOT}/logs/config.log",
    benchmark:
        f"{ROOT}/benchmarks/config.tsv"
    priority: 10_000_000
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=500,
    params:
        study=PLAN.study.model_dump(mode="json"),
    script:
        "../scripts/study_config.py"


onstart:
    LOCK = or_exit(study_lock, Path(ROOT))


onsuccess:
    print(PLAN.closing_line(), file=sys.stderr)


onerror:
    print(f"The study stopped; finished runs are kept. Logs: {ROOT}/logs", file=sys.stderr)
