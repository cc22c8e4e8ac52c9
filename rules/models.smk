# The best learned model of each workload that asks for it: weights, .keras file and SavedModel, checked beside its run.
from whichdevice.planning.export_plan import export_inputs, export_parameters, exported_models


rule export:
    input:
        records=lambda wildcards: export_inputs(PLAN, wildcards.workload),
    output:
        update(f"{ROOT}/models/{{workload}}/export.json"),
    log:
        f"{ROOT}/logs/models/{{workload}}.log",
    benchmark:
        f"{ROOT}/benchmarks/models/{{workload}}.tsv"
    conda:
        CPU_ENVIRONMENT
    # All cores: no run is timed on this host meanwhile.
    threads: workflow.cores or 1
    resources:
        mem_mb=4000,
        runtime=70,
    params:
        depends=lambda wildcards: export_parameters(PLAN, wildcards.workload),
        script=f"{workflow.basedir}/scripts/export.py",
        config=CONFIG,
    shell:
        "exec python {params.script:q} {params.config:q} {output:q} --log {log:q} --end-with-parent"


rule models:
    input:
        exported_models(PLAN),
