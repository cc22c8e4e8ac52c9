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
ABOUT_DECISIONS = """### Decisions: is the picked device the best?

Each published comparison of two devices or more is decided by least expected time or cost, from the joint draws of
`ask`. *Right*: within 3 % of the best published time or cost. *Loses*: how much worse than the best, mean. *Skill*:
the share of the best other rule's loss that goes. *Sure*: a chance of 90 % or more that nothing is better by 5 %;
*probably*: 70 % or more.

- **Random markets**: 40 times, the price of a card is what its fitted speed is worth, times a random factor as wide as
  providers' prices of a card are in the price sheet. Today's prices make some comparisons trivial.
- **Two of one tier**: each two devices whose published times differ by less than a factor of 1.5.
- **Prices off by 20 or 30 %**: the decision sees other prices than it pays (log spread, wider for cards whose offers
  differ more), and knows that or not.
- **Other rules**: most peak operations, most bandwidth, one fitted speed a card (per dollar where cost decides). The
  fitted speed had not seen the model; it had seen the chip and the author.

Each author has the same weight, of an author each set of devices. Near twins are not excused, such as V100s of 16 and
32 GB. By cost, devices without a price are left out. Steps that may wait for the host are left out.
"""
ABOUT_FAIR = """### What no fit has seen

A quarter of the families of timm's models never enters a fit, and no choice was made by them. A family has the letters
that a name begins with, behind what says whose weights it has (tf, tv, legacy, gluon, ssl, swsl, ig): `resnet` of
`tv_resnet50`. It is left out where the first byte of its SHA-256 is a multiple of four. The next rows leave out whole
authors, each of one weight, and every row of the same model, chip or author at once. The last rows are within the fit:
image models with attention, whose names' family is left out, the time with channels last over that with channels
first, and chips that were left out: those whose rate of large products or of memory somebody measured, with these rates
and as if nobody had, and the others, each chip of one weight.
"""
FAIR = {"families": "families of timm that no fit has seen", "an author": "an author, each of one weight",
        "an author, a chip and a model": "an author, a chip and a model, each author of one weight",
        "a measured chip": "a chip with measured rates", "a measured chip by its sheet": "the same, by its sheet",
        "a chip that nobody measured": "a chip without measured rates",
        "channels last over first": "ratio of channels last to first, model left out"}  # fmt: skip
SOFTWARE = {"eager": "operation by operation", "all": "all on GPUs", "predict": "forward passes", "train": "training"}
WAITING = {
    "all": "published steps of PyTorch took less than 5 ms or little time a kernel",
    "xla": "steps of XLA did",
    "every step of xla": "are all published steps of XLA, small ones with the host's time",
}
KINDS = {"product": "whichdevice", "peak": "peak", "bandwidth": "bandwidth", "speed": "one speed"}


def write_page(forecasts: Mapping[str, Forecasts], card: Card, decided: Mapping[str, Any]) -> None:
    """Replace the generated part of the page, and draw the figure."""
    lines = [*_fair(card["fair test"]), "", *_decisions(decided), ""]
    for software, title in NAMES.items():
        figures, models = card[software], forecasts["models"].of_software(software)
        lines += [f"### {title}: {len(models.rows)} published times", ""]
        lines += table(("left out", *SCORES), ([name, *score_cells(its)] for name, its in figures.items()))
        lines += ["", *_ratios(figures), ""] if "pairs" in figures["models"] else [""]
        for what, name in (("family", "family"), ("chip", "chip"), ("source", "source_group")):
            lines += [*by_group(what, models, name), ""]
    lines += ["### Steps that the host may decide", ""]
    for name, words in WAITING.items():
        small = card["small steps"][name]
        lines += [
            f"{small['rows']:.0f} {words}. The median error is {percent(small['median_error'])}, the stated interval "
            f"{times(small['stated'])}, and it held {percent(small['held'])}.",
            "",
        ]
    put_lines(PAGE, "make forecasts", lines[:-1])
    draw(forecasts["models"])


def _fair(figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    yield ABOUT_FAIR
    rows = []
    for name, line in figures.items():
        what, _, of = name.partition("|")
        number, _, *cells = score_cells(line)
        rows.append([FAIR.get(what, what), SOFTWARE.get(of, of), number, *cells])
    yield from table(("left out", "software", "rows", *SCORES[2:]), rows, words=2)


def _decisions(card: Mapping[str, Any]) -> Iterator[str]:
    yield ABOUT_DECISIONS
    heads = [f"{what}: {words}" for what in ("right", "loses") for words in KINDS.values()]
    heads = ["decided by", "comparisons", "authors", *heads, "skill", "in 9 of 10 at most", "at worst"]
    words = ("decided by", "sure", "of these within 5 %", "probably", "within 5 %", "less sure", "within 5 %")
    for name, kinds in card.items():
        if name == "contradict":
            continue
        yield from ("", f"Left out of the fit: {name}.", "")
        yield from table(heads, (_decision_row(kind, figures) for kind, figures in kinds.items()))
        yield ""
        shares = {kind: [share for pair in its["words"].values() for share in pair] for kind, its in kinds.items()}
        yield from table(words, ([kind, *map(percent, its)] for kind, its in shares.items()))
    yield ""
    yield from table(
        ("decided by, models left out", "chance stated", "it was so", "devices"),
        (
            [kind, percent(stated), percent(true), f"{number:,}"]
            for kind in ("time", "random markets", "prices off by 20 %, known")
            for stated, true, number in card["models"][kind]["calibration"]
        ),
    )
    for title, names in (
        ("Worst picks by time, models left out", card["models"]["time"]["worst"]),
        ("Published times more than × 1.5 from what their neighbours' times say, by the forecasts", card["contradict"]),
    ):
        yield from ["", f"{title}:", "", *(f"- {name}" for name in names or ["none"])]


def _decision_row(kind: str, figures: Mapping[str, Any]) -> list[str]:
    cells = [percent(figures[what][rule], 1) for what in ("right", "regret") for rule in KINDS]
    skill = percent(min(figures["skill"].values(), default=0.0))
    ends = [percent(figures[name]) for name in ("regret_90", "regret_worst")]
    return [kind, figures["comparisons"], figures["sources"], *cells, skill, *ends]


def _ratios(figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    return table(
        ("ratio of two chips, left out", "pairs", *SCORES[3:], "decided", "wrong", "time lost"),
        (
            [
                name, line["pairs"], times(line["ratio_within"]), times(line["ratio_stated"]),
                *map(percent, (line["ratio_held"], line["decided"])), percent(line["wrong"], 1),
                percent(line["regret"], 1),
            ]
            for name, line in figures.items()
            if "pairs" in line
        ),
    )  # fmt: skip


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
