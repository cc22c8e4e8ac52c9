"""Which of two devices is faster, by batch size."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import draws, style
from whichdevice.results import StudyResults
from whichdevice.tables.base import length_words, share_words
from whichdevice.tables.batch_sizes import OWN_BEST, DevicePair, crossings, device_pairs
from whichdevice.tables.decision_rule import SAME

MAX_PANELS = 6
MAX_LINES = 6


class Line(NamedTuple):
    """A pair of devices as it is drawn."""

    pair: DevicePair
    label: str
    look: dict[str, Any]


@draws(
    "Which device is faster, by batch size",
    category="Which device",
    caption=(
        "Ratio of the throughputs (of TFLOP/s for matrix products) of two devices at every batch size that both ran, "
        "from paired repeats: geometric means, with the 95 % t-interval as a band, joined by straight lines on "
        "logarithmic axes. Above 1 the device named first is faster. Diamonds: where the faster device changes. "
        "Nothing is drawn beyond measured sizes. With several backends or loops, each device's fastest."
    ),
)
def draw_crossover(study: StudyResults) -> Figure:
    """A panel per workload, a line per pair of devices."""
    lines = _crossover_lines(_crossovers_shown(device_pairs(study.runs, study.study)), study)
    if not lines:
        command = next(iter(study.absent.values()), None)
        return style.empty(study, "No two devices ran the same work at two batch sizes or more.", command)
    by_workload: dict[str, list[Line]] = {}
    for line in lines:
        by_workload.setdefault(line.pair.work["workload"], []).append(line)
    shown = list(by_workload)[:MAX_PANELS]
    widest = max(len(line.label) for name in shown for line in by_workload[name][:MAX_LINES])
    across = min(3 if widest < 36 else 2, len(shown))
    down = -(-len(shown) // across)
    deepest = max(min(MAX_LINES, len(by_workload[name])) for name in shown)
    figure = style.new_figure(
        max(6.5, (3.0 if widest < 36 else 4.5) * across + 0.4), (3.1 + 0.17 * deepest) * down + 0.6
    )
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel, workload in zip(panels, shown, strict=False):
        _crossover_panel(panel, by_workload[workload][:MAX_LINES])
        panel.set_title(workload, parse_math=False)
    panels[0].set_ylabel("ratio of speeds (logarithmic)")
    counts = style.runs_note(n for line in lines for n in line.pair.ratios["n"]).replace("processes", "pairs")
    notes = [counts.replace("bars:", "bands:")]
    if len(by_workload) > len(shown):
        notes.append(f"{len(by_workload) - len(shown)} more workloads in the tables")
    if any(len(lines_of_workload) > MAX_LINES for lines_of_workload in by_workload.values()):
        notes.append("some pairs left to the tables")
    figure.supxlabel("; ".join(notes))
    return figure


def _crossovers_shown(pairs: Sequence[DevicePair]) -> list[DevicePair]:
    """Pairs with two sizes or more, each at its largest share of the data; own best settings before the same ones."""
    pairs = [pair for pair in pairs if len(pair.logs.columns) > 1]
    largest: dict[tuple[str, ...], float] = {}
    for pair in pairs:
        largest[_work(pair)] = max(largest.get(_work(pair), 0), pair.work["fraction"])
    pairs = [pair for pair in pairs if pair.work["fraction"] == largest[_work(pair)]]
    with_best = {_work(pair) for pair in pairs if pair.comparison == OWN_BEST}
    return [pair for pair in pairs if pair.comparison == OWN_BEST or _work(pair) not in with_best]


def _work(pair: DevicePair) -> tuple[str, ...]:
    names = ("workload", "precision", "sequence_length", "model")
    return (*(str(pair.work[name]) for name in names), pair.first, pair.second)


def _crossover_lines(pairs: Sequence[DevicePair], study: StudyResults) -> list[Line]:
    """Colour by pair (of the device compared, where the other one is the first of all), dashes by format and length."""
    colours, base = style.device_colours(study), pairs[0].first if pairs else ""
    spare = [colour for colour in style.CYCLE if colour not in colours.values()] or [style.BLACK]
    others = list(dict.fromkeys((pair.first, pair.second) for pair in pairs if pair.first != base))
    named = list(dict.fromkeys((pair.first, pair.second) for pair in pairs))
    kinds: dict[str, dict[tuple[str, ...], int]] = {}
    lines = []
    for pair in pairs:
        kinds_of_workload = kinds.setdefault(pair.work["workload"], {})
        turn = kinds_of_workload.setdefault(_work(pair)[1:4], len(kinds_of_workload))
        place = others.index((pair.first, pair.second)) if pair.first != base else 0
        colour = colours[pair.second] if pair.first == base else spare[place % len(spare)]
        marker = style.MARKERS[(named.index((pair.first, pair.second)) + 3 * turn) % len(style.MARKERS)]
        look = {"color": colour, "ls": ["-", "--", ":", "-."][turn % 4], "marker": marker}
        lines.append(Line(pair, f"{style.shortened(_label(pair, pairs), 56)}: {_outcome(pair)}", look))
    return lines


def _label(pair: DevicePair, pairs: Sequence[DevicePair]) -> str:
    """The two devices, and what else tells this line from others."""
    work, words = pair.work, [f"{pair.second} / {pair.first}"]
    beside = [other.work for other in pairs if other.work["workload"] == work["workload"]]
    words += length_words(work) if len({str(other["sequence_length"]) for other in beside}) > 1 else []
    several = {other["model"] for other in beside if str(other["sequence_length"]) == str(work["sequence_length"])}
    words += [work["model"].removesuffix(" an example")] if len(several) > 1 else []
    words += [str(work["precision"]).replace("mixed_", "")] if work["precision"] != "float32" else []
    words += share_words(work)
    return ", ".join(words)


def _crossover_panel(axes: Axes, lines: Sequence[Line]) -> None:
    """Lines, bands and crossings; below the panel what each line says."""
    axes.axhline(1, color=style.BLACK, lw=1)
    extent = [1.0]
    for pair, label, look in lines:
        ratios = pair.ratios
        (drawn,) = axes.plot(ratios.index.to_numpy(float), ratios["ratio"], label=label, **look)
        if ratios["ratio_low"].isna().any():
            drawn.set_markerfacecolor("white")
        sizes = ratios.index.to_numpy(float)
        axes.fill_between(sizes, ratios["ratio_low"], ratios["ratio_high"], color=look["color"], alpha=0.18, lw=0)
        extent += [*ratios["ratio"], *ratios["ratio_low"].dropna(), *ratios["ratio_high"].dropna()]
        for crossing in crossings(pair.logs, pair.signs):
            axes.plot(crossing.size, 1, "D", color=look["color"], mec=style.BLACK, ms=5, zorder=5)
    style.batch_axis(axes, [size for line in lines for size in line.pair.logs.columns])
    style.log_axis(axes, "y", extent)
    axes.set_xlabel("N" if lines[0].pair.quantity == "tflops" else "batch size")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=7.5)


def _outcome(pair: DevicePair) -> str:
    passed = crossings(pair.logs, pair.signs)
    if passed:
        return ", ".join(f"equal at {style.number(one.size)} ({one.below} – {one.above})" for one in passed)
    decided = set(pair.signs)
    if decided in ({1}, {-1}):
        return f"{pair.second if decided == {1} else pair.first} faster throughout"
    if set(pair.ratios["verdict"]) == {SAME}:
        return SAME
    return "undecided" if decided == {0} else "no crossing decided"
