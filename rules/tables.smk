# Tables are a pure function of the records: this call's and every other one that is there.
from whichdevice.tables.about import table_about

SHEETS = [Path(workflow.basedir) / "config" / name for name in ("published.csv", "hardware.csv")]
CAPTIONS = f"{workflow.basedir}/docs/captions"
TABLE_NAMES = (
    "runs epochs summary speedups crossover saturation scaling published audit compiled costs cost_choices time_to_target "
    "limits roofline breakdown noise_floor fastest serving"
).split()
TABLES = [f"{ROOT}/tables/{table}.csv" for table in TABLE_NAMES]


rule tables:
    input:
        records=PLAN.records(PLAN.wanted()),
        compiled=COMPILED,
    output:
        [
            report(
                f"{ROOT}/tables/{table}.csv",
                caption=f"{CAPTIONS}/table.rst",
                category="Tables",
                labels={"table": table, "holds": table_about(table)},
            )
            for table in TABLE_NAMES
        ],
    log:
        f"{ROOT}/logs/tables.log",
    benchmark:
        f"{ROOT}/benchmarks/tables.tsv"
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=3000,  # 100,000 records took 2.0 GB, with their readers
    params:
        config=CONFIG,
        study=STUDY,
        records=PLAN.records(PLAN.wanted()) + PLAN.other_records(),
        other_times=PLAN.other_times(),
        # Sheets by what they hold: as inputs from the future (a clock set back) they would be newer than any table.
        code=code_hash("whichdevice.tables.write", files=SHEETS),
    script:
        "../scripts/tables.py"
