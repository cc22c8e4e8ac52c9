# The report: one page that works offline, made of tables and figures.
rule page:
    input:
        config=f"{ROOT}/config.yaml",
        tables=TABLES,
        figures=rules.figures.input,
    output:
        f"{ROOT}/report.html",
    log:
        f"{ROOT}/logs/report.log",
    benchmark:
        f"{ROOT}/benchmarks/report.tsv"
    params:
        code=code_hash("whichdevice.report"),
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
    script:
        "../scripts/report.py"


rule report:
    input:
        rules.page.output,
