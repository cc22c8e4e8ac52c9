# One run = one process = one record. Measured one at a time on a host, all first repeats before all second ones.
import json

from whichdevice.cells import parse_run
from whichdevice.measuring.measure import run_code_hash
from whichdevice.measuring.request import build_request, dataset_of


def run_of(wildcards):
    """The run that a record's path names."""
    return parse_run(f"{wildcards.device}/{wildcards.workload}/{wildcards.cell}/r{wildcards.repeat}")


def run_dataset(wildcards):
    """The dataset that a run reads; a newer file is no reason to measure again, its checksum is."""
    name = dataset_of(PLAN.study, wildcards.workload)
    return [] if name is None else ancient(dataset_json(name))


def run_checksum(wildcards, input):
    """Checksum of the data; unknown until they are prepared."""
    if not input.dataset:
        return None
    with open(input.dataset, encoding="utf-8") as file:
        return json.load(file)["checksum"]


def run_request(wildcards):
    """Everything asked of the run; any change measures it again."""
    return build_request(PLAN.study, run_of(wildcards)).model_dump(mode="json")


def run_code(wildcards):
    """Hash of the code that the run executes: its workload, its backend and the measuring itself."""
    request = run_request(wildcards)
    return run_code_hash(request["module"], request["backend"])


def run_environment(wildcards):
    """Software of the device's kind, for --sdm conda."""
    return f"{workflow.basedir}/envs/{PLAN.study.devices[wildcards.device].kind}.yaml"


ORDER = {run: number for number, run in enumerate(PLAN.runs)}


rule measure:
    input:
        config=ancient(f"{ROOT}/config.yaml"),
        dataset=run_dataset,
    output:
        update(f"{ROOT}/runs/{{device}}/{{workload}}/{{cell}}/r{{repeat}}/record.json"),
    log:
        f"{ROOT}/logs/runs/{{device}}/{{workload}}/{{cell}}/r{{repeat}}.log",
    benchmark:
        f"{ROOT}/benchmarks/runs/{{device}}/{{workload}}/{{cell}}/r{{repeat}}.tsv"
    priority: lambda wildcards: len(ORDER) - ORDER.get(run_of(wildcards), 0)
    conda:
        run_environment
    # All cores: nothing else runs on this host meanwhile. The run counts its own threads from its affinity.
    threads: workflow.cores or 1
    resources:
        mem_mb=8000,
        runtime=lambda wildcards: max(10, round(PLAN.study.measure.timeout / 60) + 5),
    params:
        request=run_request,
        code=run_code,
        checksum=run_checksum,
        script=f"{workflow.basedir}/scripts/measure.py",
    shell:
        "python {params.script:q} {input.config:q} {output:q} --log {log:q}"


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
