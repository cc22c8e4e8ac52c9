# The report: one page that works offline, and the same as Markdown, made of tables and figures.
REPORT_FOLDER = Path(workflow.basedir) / "scripts/whichdevice/report"
REPORT_FILES = sorted(file for ending in ("html", "jinja", "css", "js") for file in REPORT_FOLDER.glob(f"*.{ending}"))


rule page:
    input:
        tables=TABLES,
        figures=rules.figures.output,
        # Asked for with --config against=..., the comparison stands in the page too.
        compared=lambda wildcards: rules.compare.output.page if PLAN.call.against else [],
    output:
        report(
            f"{ROOT}/report.html",
            caption=f"{CAPTIONS}/report.rst",
            category="Report",
            labels={"page": "The whole study on one page"},
        ),
        f"{ROOT}/report.md",
    log:
        f"{ROOT}/logs/report.log",
    benchmark:
        f"{ROOT}/benchmarks/report.tsv"
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
    params:
        config=CONFIG,
        study=STUDY,
        code=code_hash("whichdevice.report.write", files=REPORT_FILES),
    script:
        "../scripts/report.py"


rule report:
    input:
        rules.page.output,
