# Tables are a pure function of the records: this call's and every other one that counts. Figures and report are one of the
# tables. Code is a parameter by its hash: changing a figure redraws the figures and measures nothing.
from whichdevice.study.figures import figure_facts, figure_names
from whichdevice.study.cells import workflow_command
from whichdevice.study.tables import table_about, table_names

FIGURES = {name: figure_facts(name) for name in figure_names()}
CODE = products.drawing_code(PLAN.study)


rule tables:
    input:
        records=PLAN.records(PLAN.wanted()),
        compiled=COMPILED,
    output:
        [
            shown(f"tables/{table}.csv", "table", "Tables", table=table, holds=table_about(table))
            for table in table_names()
        ],
    log:
        f"{ROOT}/logs/tables.log",
    conda:
        CPU_ENVIRONMENT
    threads: 4
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **asked("devices", "workloads", "run_on", "seed", "prices", "measure.repeats"),
        command=workflow_command(PLAN.study),
        config=CONFIG,
        records=sorted(PLAN.records(PLAN.wanted()) + PLAN.other_records()),
        other_times=PLAN.other_times(),
        compiled=sorted(COMPILED + products.other_compiled(PLAN)),
        code=CODE["tables"],
    script:
        "../scripts/tables.py"


# All in one job: reading the tables and importing Matplotlib takes longer than drawing most of them. Beside each SVG is
# a PNG, unless there was nothing to draw.
rule figures:
    input:
        tables=rules.tables.output,
    output:
        [
            shown(f"figures/{name}.svg", "figure", facts.category, figure=facts.title, shows=facts.caption)
            for name, facts in FIGURES.items()
        ],
    log:
        f"{ROOT}/logs/figures.log",
    conda:
        CPU_ENVIRONMENT
    threads: 4
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        **asked("devices", "workloads"),
        command=workflow_command(PLAN.study),
        config=CONFIG,
        code=CODE["figures"],
    script:
        "../scripts/figures.py"


# One page that works offline. It shows the whole config, and so follows every key.
rule report:
    input:
        tables=rules.tables.output,
        figures=rules.figures.output,
    output:
        shown("report.html", "report", "Report", page="The whole study on one page"),
    log:
        f"{ROOT}/logs/report.log",
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=PLAN.study.model_dump(mode="json"),
        config=CONFIG,
        code=CODE["report"],
    script:
        "../scripts/report.py"
