# One figure is one file of the package; changing it redraws that figure and measures nothing.
from whichdevice.figures.registry import figure_facts, figure_names


rule figure:
    input:
        tables=TABLES,
    output:
        svg=report(
            f"{ROOT}/figures/{{figure}}.svg",
            caption=f"{CAPTIONS}/figure.rst",
            category=lambda wildcards: figure_facts(wildcards.figure).category,
            labels=lambda wildcards: {"figure": figure_facts(wildcards.figure).title},
        ),
        png=f"{ROOT}/figures/{{figure}}.png",
    log:
        f"{ROOT}/logs/figures/{{figure}}.log",
    benchmark:
        f"{ROOT}/benchmarks/figures/{{figure}}.tsv"
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
    params:
        config=CONFIG,
        study=STUDY,
        caption=lambda wildcards: figure_facts(wildcards.figure).caption,
        code=lambda wildcards: code_hash("whichdevice.figures.registry", f"whichdevice.figures.{wildcards.figure}"),
    script:
        "../scripts/figure.py"


rule figures:
    input:
        [f"{ROOT}/figures/{name}.{kind}" for kind in ("svg", "png") for name in figure_names()],
