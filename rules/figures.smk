# One figure is one file of the package; changing it redraws the figures and measures nothing. All in one job: reading the
# tables and importing Matplotlib takes longer than drawing most of them.
from whichdevice.figures.registry import figure_facts, figure_names


rule figures:
    input:
        tables=TABLES,
    output:
        [
            report(
                f"{ROOT}/figures/{figure}.svg",
                caption=f"{CAPTIONS}/figure.rst",
                category=figure_facts(figure).category,
                labels={"figure": figure_facts(figure).title, "shows": figure_facts(figure).caption},
            )
            for figure in figure_names()
        ],
        [f"{ROOT}/figures/{figure}.png" for figure in figure_names()],
    log:
        f"{ROOT}/logs/figures.log",
    benchmark:
        f"{ROOT}/benchmarks/figures.tsv"
    conda:
        CPU_ENVIRONMENT
    threads: 1
    resources:
        mem_mb=2000,
    params:
        config=CONFIG,
        study=STUDY,
        code=[code_hash("whichdevice.figures.registry", f"whichdevice.figures.{figure}") for figure in figure_names()],
    script:
        "../scripts/figures.py"
