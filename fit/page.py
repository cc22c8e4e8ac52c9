"""The generated part of docs/reference/forecast-validation.md and its figure. Imports no framework."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fit.generated import DOCS, SCORES, percent, put_lines, score_cells, table, times
from fit.validation import Forecasts
from whichdevice.forecast.joint import Card

PAGE = DOCS / "reference" / "forecast-validation.md"
FIGURE = DOCS / "images" / "forecasts.png"
NAMES = {
    "xla": "Keras and JAX on GPUs, compiled by XLA",
    "xla on TPU": "Keras and JAX on TPUs, compiled by XLA",
    "eager": "PyTorch, operation by operation",
    "torch.compile": "PyTorch with torch.compile",
}
FAIR = {"families": "families of timm that no fit has seen", "an author": "an author, each of one weight",
        "an author, a chip and a model": "an author, a chip and a model, each author of one weight",
        "a measured chip": "a chip with measured rates",
        "a chip that nobody measured": "a chip without measured rates",
        "channels last over first": "ratio of channels last to first, model left out"}  # fmt: skip
SOFTWARE = {"eager": "operation by operation", "all": "all on GPUs", "predict": "forward passes", "train": "training"}
KINDS = {"product": "whichdevice", "peak": "peak", "bandwidth": "bandwidth", "speed": "one speed"}


def write_page(forecasts: Mapping[str, Forecasts], card: Card, decided: Mapping[str, Any]) -> None:
    """Replace the generated part of the page, and draw the figure."""
    put_lines(PAGE, "make forecasts, what no fit has seen", _fair(card["fair test"]))
    put_lines(PAGE, "make forecasts, decisions", _decisions(decided))
    lines = []
    for software, title in NAMES.items():
        figures, models = card[software], forecasts["models"].of_software(software)
        lines += [f"### {title}: {len(models.rows)} published times", ""]
        lines += table(("left out", *SCORES), ([name, *score_cells(its)] for name, its in figures.items()))
        lines += ["", *_ratios(figures), ""] if "pairs" in figures["models"] else [""]
        for what, name in (("family", "family"), ("chip", "chip"), ("source", "source_group")):
            lines += [*by_group(what, models, name), ""]
    lines += ["### Steps that the host may decide", ""]
    small = card["small steps"]["all"]
    lines.append(
        f"{small['rows']:.0f} published steps of PyTorch took less than 5 ms or little time a kernel. The median error "
        f"is {percent(small['median_error'])}, the stated interval {times(small['stated'])}, and it held "
        f"{percent(small['held'])}."
    )
    put_lines(PAGE, "make forecasts", lines)
    draw(forecasts["models"])


def _fair(figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    rows = []
    for name, line in figures.items():
        what, _, of = name.partition("|")
        number, _, *cells = score_cells(line)
        rows.append([FAIR.get(what, what), SOFTWARE.get(of, of), number, *cells])
    yield from table(("left out", "software", "rows", *SCORES[2:]), rows, words=2)


def _decisions(card: Mapping[str, Any]) -> Iterator[str]:
    heads = [f"{what}: {words}" for what in ("right", "loses") for words in KINDS.values()]
    heads = ["decided by", "comparisons", "authors", *heads, "skill", "in 9 of 10 at most", "at worst"]
    words = ("decided by", "sure", "of these within 5 %", "probably", "within 5 %", "less sure", "within 5 %")
    for name, kinds in card.items():
        yield from ("", f"Left out of the fit: {name}.", "")
        yield from table(heads, (_decision_row(kind, figures) for kind, figures in kinds.items()))
        yield ""
        shares = {kind: [share for pair in its["words"].values() for share in pair] for kind, its in kinds.items()}
        yield from table(words, ([kind, *map(percent, its)] for kind, its in shares.items()))
    worst = card["models"]["time"]["worst"] or ["none"]
    yield from ("", "Worst picks by time, models left out:", "", *(f"- {name}" for name in worst))


def _decision_row(kind: str, figures: Mapping[str, Any]) -> list[str]:
    cells = [percent(figures[what][rule], 1) for what in ("right", "regret") for rule in KINDS]
    skill = percent(min(figures["skill"].values(), default=0.0))
    ends = [percent(figures[name]) for name in ("regret_90", "regret_worst")]
    return [kind, figures["comparisons"], figures["sources"], *cells, skill, *ends]


def _ratios(figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    return table(
        ("ratio of two chips, left out", "pairs", *SCORES[3:]),
        (
            [name, line["pairs"], times(line["ratio_within"]), times(line["ratio_stated"]), percent(line["ratio_held"])]
            for name, line in figures.items()
            if "pairs" in line
        ),
    )


def by_group(what: str, forecasts: Forecasts, name: str) -> Iterator[str]:
    """A table of the groups of rows that share an attribute."""
    rows = []
    for value in sorted({getattr(row, name) for row in forecasts.rows}):
        chosen = forecasts.of(lambda row, wanted=value: getattr(row, name) == wanted)  # type: ignore[misc]
        number, _, _, *cells = score_cells(chosen.figures())
        rows.append([value, number, f"{np.exp(np.median(chosen.logs)):.2f}", *cells])
    return table((what, "rows", "published / forecast: median", *SCORES[3:]), rows)


def draw(forecasts: Forecasts) -> None:
    """Published over forecast time against the forecast, a panel for each software; models were left out.

    Each point is one published step; a ring is a point beyond the axis. The band has 8 of 10.
    """
    figure = Figure(figsize=(8, 6), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey=True)
    for axes, (software, title) in zip(panels.flat, NAMES.items(), strict=True):
        chosen = forecasts.of_software(software)
        ratios = np.exp(chosen.logs)
        forecast = np.array([row.seconds * 1e3 for row in chosen.rows]) / ratios
        outside = (ratios < LEAST) | (ratios > MOST)
        axes.plot(forecast[~outside], ratios[~outside], ".", ms=3, alpha=0.3, color="C0")
        axes.plot(forecast[outside], ratios[outside].clip(LEAST, MOST), "o", ms=4, mfc="none", mec="C3")
        inside = chosen.figures()["within"]
        axes.axhspan(1 / inside, inside, color="C0", alpha=0.12, lw=0)
        axes.axhline(1, color="0.4", lw=1)
        axes.set_title(
            f"{title}\n{len(chosen.rows):,} published steps; the band, × or ÷ {inside:.2f}, has 8 of 10", fontsize=9
        )
        axes.set(xscale="log", yscale="log", ylim=(LEAST / 1.06, MOST * 1.06))
        axes.minorticks_off()
        axes.set_xticks([1e-1, 1e1, 1e3, 1e5], ["0.1 ms", "10 ms", "1 s", "100 s"])
        axes.set_yticks(TICKS, [f"{tick:g} ×" for tick in TICKS])
        axes.grid(alpha=0.3)
    figure.supxlabel("forecast time of a training step or a forward pass", fontsize=9)
    figure.supylabel("published time as a multiple of its forecast (red ring: beyond the axis)", fontsize=9)
    figure.savefig(FIGURE, dpi=130)


LEAST, MOST = 0.5, 2.0  # of the ratios that are shown
TICKS = (0.5, 0.67, 0.8, 1, 1.25, 1.5, 2)
