# The study that this call is about: config checked, devices found, data sources decided, folder locked.
import os
import sys
from pathlib import Path

sys.path.insert(0, f"{workflow.basedir}/scripts")
# `python` in shell commands is the interpreter that runs Snakemake, unless --sdm conda puts its own in front.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

from whichdevice.code_hash import code_hash
from whichdevice.errors import StudyError
from whichdevice.locks import study_lock
from whichdevice.study_plan import plan_study


def or_exit(function, *arguments):
    """Call a function of the package; an error that a person can mend becomes the one line they read."""
    try:
        return function(*arguments)
    except StudyError as error:
        sys.exit(f"error: {error}")


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
