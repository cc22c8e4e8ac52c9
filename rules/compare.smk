# This study against other records, cell by cell. Asked for by --config against=..., else no part of `all`.
from whichdevice.planning.against import against_records, record_times

COMPARE_FILES = [
    Path(workflow.basedir) / "scripts/whichdevice/report" / name for name in ("comparison.html", "style.css")
]


rule compare:
    input:
        tables=TABLES,
        # No file of the workflow: what is wrong with `against` is said before anything runs.
        against=lambda wildcards: [] if or_exit(against_records, PLAN.call) else [],
    output:
        table=f"{ROOT}/tables/compare.csv",
        svg=report(
            f"{ROOT}/figures/comparison.svg",
            caption=f"{CAPTIONS}/comparison.rst",
            category="Compare",
            labels={"figure": figure_facts("comparison").title},
        ),
        png=f"{ROOT}/figures/comparison.png",
        page=report(
            f"{ROOT}/compare.html",
            caption=f"{CAPTIONS}/comparison.rst",
            category="Compare",
            labels={"figure": "Cell by cell, on one page"},
        ),
    log:
        f"{ROOT}/logs/compare.log",
    benchmark:
        f"{ROOT}/benchmarks/compare.tsv"
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=4000,
    params:
        config=CONFIG,
        against=PLAN.call.against,
        times=lambda wildcards: record_times(against_records(PLAN.call)),
        code=code_hash("whichdevice.report.compare", "whichdevice.figures.comparison", files=COMPARE_FILES),
    script:
        "../scripts/compare.py"
