"""The sources' experiments: what they published, forecasts of the same work on the same devices, and today's below."""

import textwrap
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from whichdevice.base.numbers import time_words, two
from whichdevice.study.claims import SPEED, STEADY
from whichdevice.study.figures import draws, style
from whichdevice.study.results import StudyResults

EXPERIMENT = ["source", "date", "workload", "published_sequence_length"]
PUBLISHED: dict[str, Any] = {
    "ls": "", "marker": "X", "ms": 6.5, "mfc": style.RED, "mec": style.PAPER, "mew": 0.5, "zorder": 5,
}  # fmt: skip
IMPOSSIBLE = PUBLISHED | {"mfc": style.PAPER, "mec": style.RED, "mew": 1.0}
TICKS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0)  # seconds
SENTENCE = 50  # letters of a line above a panel


@draws(
    "Then and now: what the sources measured",
    category="Pictures",
    caption=(
        "Above the line are the source's own devices, as published and as this project forecasts the very same work. "
        "Below it is the same work on today's devices, and on this machine where it ran that size."
    ),
)
def draw_claims(study: StudyResults) -> Figure | str:
    """A panel for each source's experiment that has a forecast on the source's own device."""
    panels = panels_of(study.published)
    return then_and_now(panels) if panels else "This study forecasts no work of which somebody published a time."


def then_and_now(panels: list[pd.DataFrame]) -> Figure:
    """Return the figure of these experiments."""
    figure = style.new_figure(style.WIDTH, 2.3 * -(-len(panels) // 2) + 0.9)
    for axes, rows in zip(style.grid_of(figure, len(panels), 2), panels, strict=True):
        _draw(axes, rows)
    drawn = pd.concat(panels).dropna(subset="ours")
    crosses = [Line2D([], [], label="published", **PUBLISHED)]
    if any((rows["standing"] == "disputed").any() for rows in panels):
        crosses.append(Line2D([], [], label="published, impossible", **IMPOSSIBLE))
    style.kinds_legend(figure, zip(drawn["kind"], drawn["evidence"] == "measured", strict=True), *crosses)
    figure.supxlabel(
        "above the line the devices of then; forecasts are of steps alone, with 80 % intervals: table published says "
        "what else the published times hold; float32, which TPUs multiply in bfloat16"
    )
    return figure


def panels_of(published: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the rows of each experiment, CPU, GPU and TPU of then first; of several batch sizes the largest."""
    rows = published[published["metric"].isin(STEADY) & (published["value"].notna() | published["ours"].notna())]
    of_experiment = (part for _, part in rows.groupby(EXPERIMENT, sort=False, dropna=False))
    largest = (part[part["published_batch_size"] == part["published_batch_size"].max()] for part in of_experiment)
    return [
        part.sort_values("device_class", kind="stable") for part in largest if part["ratio"].notna().any()
    ]  # cpu, gpu, tpu as the alphabet has them, and rows of today last


def _draw(axes: Axes, rows: pd.DataFrame) -> None:
    ends: list[float] = []
    rows = rows[~rows.apply(_name, axis=1).duplicated()]
    for place, (_, row) in enumerate(rows.iterrows()):
        if pd.notna(row["value"]):
            axes.plot(row["value"], place, **(IMPOSSIBLE if row["standing"] == "disputed" else PUBLISHED))
        ours = style.Interval(row["ours"], row["ours_low"], row["ours_high"])
        if pd.notna(row["ours"]):
            style.point(axes, ours, style.Interval(place), row["kind"], row["evidence"] == "measured", ms=4)
        ends += [end for end in (row["value"], *ours) if pd.notna(end)]
    first = rows.iloc[0]
    axes.axhline(rows["value"].notna().sum() - 0.5, color=style.FAINT, lw=0.8)
    style.log_axis(axes, "x", ends)
    if first["unit"] != SPEED:
        shown = [tick for tick in TICKS if min(ends) * 0.8 <= tick <= max(ends) * 1.2]
        axes.set_xticks(shown[:: 1 + len(shown) // 6], minor=False)
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_words(value)))
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks(range(len(rows)), [_name(row) for _, row in rows.iterrows()], fontsize=7, parse_math=False)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel(_work(first), fontsize=7.5, parse_math=False)
    sentence = "\n".join(textwrap.wrap(what_follows(rows), SENTENCE))
    axes.set_title(sentence, fontsize=7.5, fontweight="normal", x=-0.3, ha="left", parse_math=False)


def _name(row: pd.Series) -> str:
    """Return the short name of a device: `K80`, `TPU v2-8`, `Colab CPU`."""
    named = row["device"] if row["kind"] == "gpu" or pd.isna(row["published_device"]) else row["published_device"]
    return str(named).split(" (")[0]


def _work(row: pd.Series) -> str:
    size = f"{'N =' if row['unit'] == SPEED else 'batch'} {row['published_batch_size']:,}"
    of = {"throughput": SPEED, "step_time": "a step", "epoch_time": "an epoch"}.get(row["metric"], "the training")
    source = style.shortened(str(row["source"]).split(", ")[0].replace('"', ""), 38)
    return f"{row['workload']}, {size}: {of}\n{source}, {row['date'][:4]}"


def what_follows(rows: pd.DataFrame) -> str:
    """Return how the devices of then compare, and the fastest GPU and TPU of today on the same work."""
    speed = rows["unit"].iloc[0] == SPEED
    then = rows[rows["value"].notna() & (rows["standing"] != "disputed")]
    now = rows[rows["value"].isna() & (rows["evidence"] == "forecast")].sort_values("ours", ascending=not speed)
    old = {kind: part.iloc[0] for kind, part in then.groupby("device_class")}
    best = {kind: part.iloc[0] for kind, part in now.groupby("kind")}
    if {"gpu", "tpu"} <= old.keys() & best.keys():
        then_words = f"a {_name(old['tpu'])} was {_times(old, 'value', speed)} a {_name(old['gpu'])}"
        today = f"a {_name(best['tpu'])} is about {_times(best, 'ours', speed)} an {_name(best['gpu'])}"
    else:
        then_words = ", ".join(f"{_amount(row['value'], speed)} on a {_name(row)}" for row in old.values())
        today = "about " + ", ".join(f"{_amount(row['ours'], speed)} on {_name(row)}" for row in best.values())
    return f"Then {then_words}; by forecast, the same work today: {today}."


def _times(rows: dict[Any, pd.Series], column: str, speed: bool) -> str:
    """How many times as fast as the GPU the TPU is."""
    gpu, tpu = (rows[kind][column] for kind in ("gpu", "tpu"))
    return f"{two(tpu / gpu if speed else gpu / tpu)} times"


def _amount(value: float, speed: bool) -> str:
    return f"{two(value)} {SPEED}" if speed else time_words(value)
