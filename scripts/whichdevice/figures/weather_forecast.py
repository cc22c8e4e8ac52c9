"""Predicted against true weather."""

from datetime import UTC, datetime

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from whichdevice.figures import style
from whichdevice.results import StudyResults
from whichdevice.tables.base import run_epochs_words

TITLE = "Weather: predicted and true"
CAPTION = (
    "A day-ahead forecast by the recurrent network beside what happened, on data that it was not trained on. In "
    "the greyed steps the network has seen too little to predict; neither the loss nor the eye should count them."
)
CATEGORY = "Learning"
MOST_STEPS = 600


def draw(study: StudyResults) -> Figure:
    """A panel per signal; the truth in black, one coloured line per device."""
    shown = list(study.best_artefacts("forecast"))
    if not shown:
        return style.empty(study, "No weather network has learned, so there is no forecast.")
    first = shown[0].content
    left_out = [f"{run['workload']} on {run['device']}" for run, content in shown if not _same_weather(content, first)]
    shown = [entry for entry in shown if _same_weather(entry.content, first)]
    figure = style.new_figure(9, 1.9 * len(first["names"]) + 0.9)
    panels = figure.subplots(len(first["names"]), 1, sharex=True, squeeze=False)[:, 0]
    colours, places = style.device_colours(study), style.device_places(study)
    steps = min(MOST_STEPS, len(first["times"]))
    times = [datetime.fromtimestamp(int(second), UTC) for second in first["times"][:steps]]
    workloads = {entry.run["workload"] for entry in shown}
    of = {name: f", {name}," if len(workloads) > 1 else "" for name in workloads}
    for signal, panel in enumerate(panels):
        panel.plot(times, first["truth"][:steps, signal], color=style.BLACK, lw=1, label="true")
        for run, content in shown:
            device = run["device"]
            panel.plot(
                times[: len(content["predicted"])], content["predicted"][:steps, signal], lw=1.2,
                color=colours[device], ls=["-", "--", ":"][places[device] % 3],
                label=f"predicted{of[run['workload']]} on {device}",
            )  # fmt: skip
        warm_up = min(int(first["warm_up"]), steps - 1)
        panel.axvspan(times[0], times[warm_up], color=style.PALE, alpha=0.75, lw=0, zorder=1.5)
        panel.set_title(str(first["names"][signal]), parse_math=False)
        panel.set_ylabel(str(first["units"][signal]), parse_math=False)
        panel.margins(x=0)
    _fit(panels, first, steps)
    locator = AutoDateLocator()
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator))
    handles, texts = panels[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside upper right", ncols=min(len(handles), 2 if len(workloads) > 1 else 3))
    run = shown[0].run
    more = f"; of other data, not drawn: {', '.join(left_out)}" if left_out else ""
    style.footnote(
        figure,
        f"grey: warm-up of {int(first['warm_up'])} steps; {first['split']} data; "
        f"first {steps} of {len(first['times'])} hours; "
        f"{run_epochs_words(run)} of {run['steps_per_epoch']} steps, b{run['batch_size']}{more}",
    )
    return figure


def _same_weather(content: dict[str, np.ndarray], first: dict[str, np.ndarray]) -> bool:
    """Whether a forecast is of the same signals, hours and truth, rounded as another library rounds."""
    if any(content[name].tolist() != first[name].tolist() for name in ("names", "times")):
        return False
    return np.allclose(content["truth"], first["truth"], rtol=1e-4, atol=1e-3, equal_nan=True)


def _fit(panels: np.ndarray, content: dict[str, np.ndarray], steps: int) -> None:
    """Limits from the truth and the warm forecast, so that a wild warm-up does not flatten the rest."""
    start = min(int(content["warm_up"]), steps - 1)
    for signal, panel in enumerate(panels):
        values = np.concatenate([content["truth"][:steps, signal], content["predicted"][start:steps, signal]])
        finite = values[np.isfinite(values)]
        if finite.size:
            room = 0.06 * (finite.max() - finite.min()) or 1
            panel.set_ylim(finite.min() - room, finite.max() + room)
