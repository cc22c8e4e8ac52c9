# The report: one page that works offline, made of tables and figures.
REPORT_FOLDER = Path(workflow.basedir) / "scripts/whichdevice/report"
REPORT_FILES = [REPORT_FOLDER / name for name in ("template.html", "costs.html", "audit.html", "style.css")]


rule page:
    input:
        tables=TABLES,
        figures=rules.figures.input,
    output:
        report(f"{ROOT}/report.html", caption=f"{CAPTIONS}/report.rst", category="Report"),
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
