"""How much faster one choice is than another: devices, replicas, batch sizes, other records."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whichdevice.figures import draws, style
from whichdevice.results import StudyResults
from whichdevice.study_cells import workflow_command
from whichdevice.tables.base import length_words, share_words
from whichdevice.tables.batch_sizes import OWN_BEST, DevicePair, crossings, device_pairs, ratios_between
from whichdevice.tables.comparison import BOTH
from whichdevice.tables.decision_rule import EQUAL_HIGH, EQUAL_LOW, FASTER, SAME, SLOWER, UNDECIDED
from whichdevice.tables.measured import without_rehearsals
from whichdevice.tables.speedups import STRONG, WEAK

SPEEDUPS_MOST_ROWS = 24
WORDS = {
    "backend": "Backends",
    "precision": "Number formats",
    "loop": "Training loops",
    "batch_size": "Batch sizes and matrix sizes N",
}


@draws(
    "Speed-ups on one device, all else equal",
    category="Speed",
    caption=(
        "Ratio of throughputs (of TFLOP/s for matrix products) of two cells that differ in one thing only, from "
        "repeats paired within the study: geometric mean with 95 % t-interval on a logarithmic axis. Right of 1 the "
        "compared choice is faster. The words are the verdict of the one rule that judges every comparison here, "
        "corrected over all rows of a panel and those left to the tables."
    ),
)
def draw_speedups(study: StudyResults) -> Figure:
    """A panel per kind of comparison, a row per pair of cells."""
    found = study.speedups[study.speedups["comparison"] != "device"]
    if found.empty:
        return style.empty(study, "No two measured cells of one device differ in one thing only, so there is no ratio.")
    groups = [
        (str(name), group, style.capped(group, SPEEDUPS_MOST_ROWS, ["fraction", "batch_size"]))
        for name, group in found.groupby("comparison", sort=False)
    ]
    heights = [len(shown) + 2.2 for _, _, shown in groups]
    figure = style.new_figure(9, 0.26 * sum(heights) + 1.2)
    panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
    colours, several = style.device_colours(study), found["device"].nunique() > 1
    for panel, (name, group, shown) in zip(panels, groups, strict=True):
        _speedups_rows(panel, shown, colours, [_speedups_name(row, name, several) for _, row in shown.iterrows()])
        more = f" — {len(shown)} of {len(group)}, largest sizes" if len(shown) < len(group) else ""
        more += style.left_out(group, shown)
        panel.set_title(WORDS.get(name, name) + more, parse_math=False)
        extent = shown[["ratio", "ratio_low", "ratio_high"]].to_numpy(float).ravel()
        style.ratio_axis(panel, extent)
    panels[-1].set_xlabel("ratio (logarithmic, each panel its own axis)")
    style.footnote(figure, f"bars: 95 % t-interval over n pairs; no bar from one pair; {style.UNNAMED}")
    return figure


def _speedups_rows(axes: Axes, rows: pd.DataFrame, colours: dict[str, str], names: list[str]) -> None:
    axes.axvline(1, color=style.GREY, lw=1)
    for place, (_, row) in enumerate(rows.iterrows()):
        low, high = row["ratio_low"], row["ratio_high"]
        colour = colours.get(row["device"], style.BLACK)
        if low == low:
            axes.plot([low, high], [place, place], color=colour, lw=2.2, solid_capstyle="butt")
        axes.plot(row["ratio"], place, "o", color=colour, mfc=colour if low == low else "white")
        interval = f" [{style.number(low)} – {style.number(high)}]" if low == low else ""
        text = f"×{style.number(row['ratio'])}{interval}, n = {row['n']}, {row['verdict']}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    axes.set_yticks(range(len(names)), names, fontsize=7.5, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")


def _speedups_name(row: pd.Series, comparison: str, several: bool) -> str:
    """The workload, what else tells this pair from others, and the two values compared."""
    letter = "N" if row["quantity"] == "tflops" else "b"
    words = [row["workload"], *([row["device"]] if several else [])]
    words += [f"{letter}{row['batch_size']}"] if comparison != "batch_size" else []
    for axis, usual in style.USUAL.items():
        if axis not in (comparison, "fraction") and row[axis] != usual:
            words.append(str(row[axis]))
    words += share_words(row)
    words += length_words(row)
    return f"{' '.join(words)}: {row['compared']} / {row['baseline']}"


MOST_PANELS = 6
MOST_LINES = 6
SHARES = np.linspace(0, 1, 17)


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
        "from paired repeats: geometric means, with the 95 % t-interval as a band, between measured sizes along "
        "straight lines on logarithmic axes. Above 1 the device named first is faster. Diamonds: where the faster "
        "device changes, and its 95 % interval. Nothing is drawn beyond measured sizes. With several backends or "
        "loops, each device's fastest."
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
    shown = list(by_workload)[:MOST_PANELS]
    widest = max(len(line.label) for name in shown for line in by_workload[name][:MOST_LINES])
    across = min(3 if widest < 36 else 2, len(shown))
    down = -(-len(shown) // across)
    deepest = max(min(MOST_LINES, len(by_workload[name])) for name in shown)
    figure = style.new_figure(
        max(6.5, (3.0 if widest < 36 else 4.5) * across + 0.4), (3.1 + 0.17 * deepest) * down + 0.6
    )
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel, workload in zip(panels, shown, strict=False):
        _crossover_panel(panel, by_workload[workload][:MOST_LINES])
        panel.set_title(workload, parse_math=False)
    panels[0].set_ylabel("ratio of speeds (logarithmic)")
    counts = style.runs_note(n for line in lines for n in line.pair.ratios["n"]).replace("processes", "pairs")
    notes = [counts.replace("bars:", "bands and diamonds:")]
    if len(by_workload) > len(shown):
        notes.append(f"{len(by_workload) - len(shown)} more workloads in the tables")
    if any(len(found) > MOST_LINES for found in by_workload.values()):
        notes.append("some pairs left to the tables")
    style.footnote(figure, "; ".join(notes))
    return figure


def _crossovers_shown(pairs: Sequence[DevicePair]) -> list[DevicePair]:
    """Pairs with two sizes or more, each at its largest share of the data; own best settings before the same ones."""
    pairs = [pair for pair in pairs if len(pair.logs.columns) > 1]
    largest: dict[tuple[str, ...], float] = {}
    for pair in pairs:
        largest[_work(pair)] = max(largest.get(_work(pair), 0), pair.work["fraction"])
    pairs = [pair for pair in pairs if pair.work["fraction"] == largest[_work(pair)]]
    own = {_work(pair) for pair in pairs if pair.comparison == OWN_BEST}
    return [pair for pair in pairs if pair.comparison == OWN_BEST or _work(pair) not in own]


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
    found = []
    for pair in pairs:
        own = kinds.setdefault(pair.work["workload"], {})
        turn = own.setdefault(_work(pair)[1:4], len(own))
        place = others.index((pair.first, pair.second)) if pair.first != base else 0
        colour = colours[pair.second] if pair.first == base else spare[place % len(spare)]
        marker = style.MARKERS[(named.index((pair.first, pair.second)) + 3 * turn) % len(style.MARKERS)]
        look = {"color": colour, "ls": ["-", "--", ":", "-."][turn % 4], "marker": marker}
        found.append(Line(pair, f"{style.shortened(_label(pair, pairs), 56)}: {_outcome(pair)}", look))
    return found


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
        for segment in range(len(ratios) - 1):
            band = ratios_between(pair.logs, segment, SHARES)
            axes.fill_between(band["size"], band["low"], band["high"], color=look["color"], alpha=0.18, lw=0)
            extent += [*band["low"], *band["high"]]
        extent += [*ratios["ratio"]]
        for at in crossings(pair.logs, pair.signs):
            ends = [[at.size - at.low], [at.high - at.size]]
            axes.errorbar(
                at.size, 1, xerr=ends, fmt="D", color=look["color"], ecolor=style.BLACK, mec=style.BLACK,
                markersize=5, capsize=4, elinewidth=2, zorder=5,
            )  # fmt: skip
    style.batch_axis(axes, [size for line in lines for size in line.pair.logs.columns])
    style.log_axis(axes, "y", extent)
    axes.set_xlabel("N" if lines[0].pair.quantity == "tflops" else "batch size")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), fontsize=7.5)


def _outcome(pair: DevicePair) -> str:
    found = crossings(pair.logs, pair.signs)
    if found:
        number = style.number
        return ", ".join(f"equal at {number(one.size)} [{number(one.low)} – {number(one.high)}]" for one in found)
    decided = set(pair.signs)
    if decided in ({1}, {-1}):
        return f"{pair.second if decided == {1} else pair.first} faster throughout"
    if set(pair.ratios["verdict"]) == {SAME}:
        return SAME
    return "undecided" if decided == {0} else "no crossing decided"


SCALING_AXES = ["scaling", "device_name", "backend", "precision", "loop", "fraction", "sequence_length"]
SETTINGS = ["device_name", "backend", "precision", "loop"]


@draws(
    "Scaling efficiency",
    category="Scaling",
    caption=(
        "Throughput with more replicas of the same device, over that with the fewest, over the ratio of replicas: 100 "
        "% is perfect. Strong: the same batch, shared by more replicas. Weak: the same batch on each replica. The "
        "largest batch of each that ran on the most replicas; geometric means of paired repeats, bars 95 % "
        "t-intervals; hollow where something else differs too. Virtual replicas on one CPU are left out: they "
        "rehearse a program and show no scaling."
    ),
)
def draw_scaling(study: StudyResults) -> Figure:
    """A panel per workload; efficiency over replicas."""
    rows = style.whole_data(without_rehearsals(study.scaling))
    if rows.empty:
        only = " other than virtual ones on a CPU" if len(study.scaling) else ""
        text = f"No device was measured with several replica counts{only}: name devices with other `replicas`."
        return style.empty(study, text)
    workloads = rows["workload"].unique().tolist()
    shown = workloads[:MOST_PANELS]
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = style.new_figure(max(7.5, 3.0 * across + 0.4), 3.1 * down + 0.9)
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel, workload in zip(panels, shown, strict=False):
        own = rows[rows["workload"] == workload]
        panel.axhline(100, color=style.GREY, lw=1)
        for turn, (label, part, look) in enumerate(_scaling_lines(own)):
            x = part["replicas"].to_numpy(float) * 1.025**turn  # beside each other
            style.with_interval(panel, x, part, "efficiency", 100, label=label, **look)
            noted = part["note"].notna().to_numpy()
            hollow = {"ls": "", "marker": look["marker"], "color": look["color"], "mfc": style.PAPER, "zorder": 4}
            panel.plot(x[noted], 100 * part["efficiency"].to_numpy(float)[noted], **hollow)
        style.batch_axis(panel, [*own["replicas"], *own["baseline_replicas"]])
        panel.set_title(workload, parse_math=False)
        panel.set_xlabel("replicas")
        panel.legend(loc="best", fontsize=7)
    top = 100 * np.nanmax(rows[["efficiency", "efficiency_high"]].to_numpy(float))
    panels[0].set_ylim(0, max(108, min(1.08 * top, 160)))
    panels[0].set_ylabel("efficiency (%)")
    names = ", ".join(f"{name} ({', '.join(own)})" for name, own in _devices(rows, study.devices))
    cut = f"; {len(workloads) - len(shown)} more workloads in the tables" if len(workloads) > len(shown) else ""
    cut += "".join(f"; hollow: {note}" for note in rows["note"].dropna().unique())
    style.footnote(figure, f"{names}; {style.runs_note(rows['n']).replace('processes', 'pairs')}{cut}")
    return figure


def _devices(rows: pd.DataFrame, order: list[str]) -> Iterator[tuple[str, list[str]]]:
    for name, group in rows.groupby("device_name", dropna=False, sort=False):
        found = {*group["baseline"], *group["device"]}
        yield "unnamed device" if pd.isna(name) else str(name), [device for device in order if device in found]


def _scaling_lines(rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame, dict[str, Any]]]:
    """A line per kind of scaling and settings: the batch size with the most replica counts, then the largest."""
    letter = "N" if (rows["quantity"] == "tflops").all() else "b"
    varied = [axis for axis in SETTINGS if rows[axis].nunique(dropna=False) > 1]
    colours: dict[tuple[Any, ...], str] = {}
    for key, group in rows.groupby(SCALING_AXES, dropna=False, sort=False):
        counts = group.groupby(["baseline", "baseline_batch_size"])["replicas"].nunique()
        name, size = max(counts[counts == counts.max()].index, key=lambda found: found[1])
        part = group[(group["baseline"] == name) & (group["baseline_batch_size"] == size)].sort_values("replicas")
        perfect: dict[str, Any] = {f"efficiency{end}": 1.0 for end in ("", "_low", "_high")}
        base = part.iloc[[0]].assign(replicas=part["baseline_replicas"].iloc[0], note=None, **perfect)
        colour = colours.setdefault(key[1:], style.CYCLE[len(colours) % 7])
        each = part["replica_batch_size"].iloc[0]
        batch = f"{letter}{size} in all" if key[0] == STRONG else f"{letter}{each:g} each"
        first = group.iloc[0]
        words = [*(str(first[axis]) for axis in varied), *share_words(first), *length_words(first)]
        label = ", ".join([f"{key[0]}: {batch}", *words])
        look = {"color": colour, "ls": "--" if key[0] == WEAK else "-", "marker": "s" if key[0] == WEAK else "o"}
        yield label, pd.concat([base, part]), look


COMPARISON_MOST_ROWS = 60
LOOKS: dict[str, dict[str, Any]] = {
    FASTER: {"color": style.GREEN, "marker": ">"},
    SLOWER: {"color": style.RED, "marker": "<"},
    SAME: {"color": style.BLUE, "marker": "o"},
    UNDECIDED: {"color": style.GREY, "marker": "o", "mfc": "white"},
}
TICKS = [0.25, 0.33, 0.5, 0.67, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25, 1.5, 2, 3, 4]
COMPARISON_AXES = ["device", "backend", "precision", "fraction", "loop", "sequence_length"]


@draws(
    "Compared with other records",
    category="Compare",
    caption=(
        "Speed here over speed there of every cell that both measured: ratio of geometric means with 95 % t-interval "
        "by Welch's method, on a logarithmic axis. Right of 1 it is faster here. The band is 0.95 to 1.05; colour and "
        "word are the verdict, corrected over all cells."
    ),
)
def draw_comparison(study: StudyResults) -> Figure:
    """A row per cell; where there are many, those with a difference first."""
    found = study.compare[(study.compare["measured"] == BOTH) & study.compare["ratio"].notna()]
    if found.empty:
        return style.empty(study, "No cell was measured on both sides.", workflow_command(study.study, "compare"))
    shown = found
    if len(found) > COMPARISON_MOST_ROWS:
        order = found["verdict"].map([FASTER, SLOWER, UNDECIDED, SAME].index)
        shown = found.loc[order.sort_values(kind="stable").index[:COMPARISON_MOST_ROWS]].sort_index()
    figure = style.new_figure(9, 0.24 * len(shown) + 1.6)
    panel = figure.add_subplot()
    _comparison_rows(panel, shown, [axis for axis in COMPARISON_AXES if found[axis].nunique(dropna=False) > 1])
    extent = shown[["ratio", "ratio_low", "ratio_high"]].to_numpy(float).ravel()
    _ratio_axis(panel, [*extent[np.isfinite(extent)], 0.9, 1.1])
    panel.set_xlabel("here / there (logarithmic)")
    cut = f"{len(shown)} of {len(found)} cells, differences first; " if len(shown) < len(found) else ""
    style.footnote(figure, f"{cut}bars: 95 % t-interval; no bar where one side has one process")
    style.without_data(figure)
    return figure


def _comparison_rows(axes: Axes, rows: pd.DataFrame, varied: Sequence[str]) -> None:
    axes.axvspan(EQUAL_LOW, EQUAL_HIGH, color=style.PALE, alpha=0.5, lw=0)
    axes.axvline(1, color=style.GREY, lw=1)
    for place, (_, row) in enumerate(rows.iterrows()):
        look = LOOKS[row["verdict"]]
        if pd.notna(row["ratio_low"]):
            axes.plot([row["ratio_low"], row["ratio_high"]], [place, place], color=look["color"], lw=2)
        axes.plot(row["ratio"], place, ls="", **look)
        text = f"×{style.number(row['ratio'])}  n = {row['n']}, {row['n_there']}  {row['verdict']}"
        axes.text(1.01, place, text, va="center", fontsize=7.5, transform=axes.get_yaxis_transform())
    names = [_comparison_name(row, varied) for _, row in rows.iterrows()]
    axes.set_yticks(range(len(names)), names, fontsize=7.5, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(False, axis="y")


def _ratio_axis(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis of just these ratios: small differences are what is looked for."""
    low, high = min(values) / 1.03, max(values) * 1.03
    style.log_axis(axes, "x", values)
    if high / low < 8:
        ticks = [tick for tick in TICKS if low <= tick <= high]
        axes.set_xticks(ticks, [style.number(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)


def _comparison_name(row: pd.Series, varied: Sequence[str]) -> str:
    letter = "N" if row["quantity"] == "tflops" else "b"
    words = [row["workload"], f"{letter}{row['batch_size']}"]
    words += [str(row[axis]) for axis in varied if axis != "fraction" and pd.notna(row[axis])]
    words += share_words(row)
    return style.shortened(" ".join(words), 64)
