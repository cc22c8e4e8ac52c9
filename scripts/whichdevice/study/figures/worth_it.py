"""Draw what each training takes and costs on every device: hours against dollars."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from whichdevice.decide import Answer, Option
from whichdevice.decide.decide import HOUR
from whichdevice.decide.words import amount_words, by_stake, matters
from whichdevice.study.figures import draws, style
from whichdevice.study.report.chart import MIN_USD
from whichdevice.study.results import StudyResults

MAX_TRAININGS = 4  # those with most at stake
MAX_TITLE = 36  # characters of a line
PICK: dict[str, Any] = {"ls": "", "marker": "o", "ms": 11, "mfc": "none", "mec": style.RED, "mew": 1.6, "zorder": 4}


@draws(
    "Which device is worth its price?",
    category="Pictures",
    caption=(
        "Hours and dollars of each whole training (both logarithmic), with 80 % intervals. The line joins the devices "
        "that no other one beats in both. The ring is the pick (of nearly equal ones a GPU before a TPU), and hollow "
        "points are forecasts. Trainings for which little is at stake have no panel."
    ),
)
def draw_worth_it(study: StudyResults) -> Figure | str:
    """A panel per training whose choice matters, a point per device."""
    trainings = [answer for answer in study.answers if answer.work.mode != "operation" and len(priced(answer)) > 1]
    if not trainings:
        return "No training has a time and a price on two devices."
    chosen = [answer for answer in trainings if matters(answer)]
    little = ", ".join(answer.work.workload for answer in trainings if not matters(answer))
    if not chosen:
        return f"The choice matters little, in time and in money, for {little}."
    shown = by_stake(chosen)[:MAX_TRAININGS]
    figure = style.new_figure(style.WIDTH, 2.65 * -(-len(shown) // 2) + 1.0)
    panels = style.grid_of(figure, len(shown), 2)
    for panel, answer in zip(panels, shown, strict=True):
        _points(panel, answer)
        title = style.work_title(answer.work)
        title = title if len(title) > MAX_TITLE else title.replace("\n", ", ")
        panel.set_title(f"{title}\n{amount_words(answer)}", parse_math=False, fontsize=8)
        panel.set_ylabel("USD" if panel in panels[::2] else "")
        panel.set_xlabel("hours" if panel in panels[-2:] else "")
    pick = Line2D([], [], label="the pick", **PICK)
    front = Line2D([], [], color=style.FAINT, lw=1, label="not beaten in both")
    rows = [option.row for answer in shown for option in priced(answer)]
    style.kinds_legend(figure, ((row.kind, row.is_here) for row in rows), pick, front)
    unshown = f"; {len(chosen) - len(shown)} more trainings in the report" if len(chosen) > len(shown) else ""
    unshown += f"; little is at stake for {little}" if little else ""
    figure.supxlabel(f"hours until the result is there; USD {MIN_USD} stands for less, too{unshown}")
    style.lay_out(figure)
    for panel, answer in zip(panels, shown, strict=True):
        _names(panel, answer)
    return figure


def priced(answer: Answer) -> list[Option]:
    """Return the choices with a time and a price."""
    return [option for option in answer.choices if option.seconds and option.usd is not None]


def _place(option: Option) -> tuple[style.Interval, style.Interval]:
    hours = (option.seconds, option.seconds_low, option.seconds_high)
    dollars = (option.usd, option.usd_low, option.usd_high)
    return (
        style.Interval(*((value or 0.0) / HOUR for value in hours)),
        style.Interval(*(max(value or 0.0, MIN_USD) for value in dollars)),
    )


def _points(axes: Axes, answer: Answer) -> None:
    places = {option.device: _place(option) for option in priced(answer)}
    for option in priced(answer):
        style.point(axes, *places[option.device], option.row.kind, option.row.is_here)
        if option is answer.pick:
            axes.plot(*(one.value for one in places[option.device]), **PICK)
    front = sorted((places[option.device] for option in priced(answer) if option.on_front), key=lambda one: one[0])
    axes.plot([one.value for one, _ in front], [one.value for _, one in front], color=style.FAINT, lw=1, zorder=1)
    for which, place in (("x", 0), ("y", 1)):
        style.log_axis(axes, which, [end for one in places.values() for end in one[place]])
    axes.margins(0.14)


def _names(axes: Axes, answer: Answer) -> None:
    """The pick, this machine and the front have their names, and others where there is room."""

    def is_needed(option: Option) -> bool:
        return option is answer.pick or option.row.is_here or option.on_front

    options = sorted(priced(answer), key=lambda one: (one is not answer.pick, not one.row.is_here, not one.on_front))
    names = [(option.device, *_place(option)) for option in options]
    style.place_names(axes, names, sum(map(is_needed, options)))
