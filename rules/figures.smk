# One figure is one file of the package; changing it redraws that figure and measures nothing.
from whichdevice.figures import figure_names


rule figure:
    input:
        config=f"{ROOT}/config.yaml",
        tables=TABLES,
    output:
        svg=f"{ROOT}/figures/{{figure}}.svg",
        png=f"{ROOT}/figures/{{figure}}.png",
    log:
        f"{ROOT}/logs/figures/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/figures/{{figure}}.tsv"
    params:
        code=lambda wildcards: code_hash("whichdevice.figures", f"whichdevice.figures.{wildcards.figure}"),
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
    script:
        "../scripts/figure.py"


rule figures:
    input:
        expand(rules.figure.output, figure=figure_names()),
