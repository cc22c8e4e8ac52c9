"""An answer as a table: which rows it shows, how they are laid out, and the answers of a whole study.

A table has seven columns, and one of kWh with all rows; those that a terminal has no room for are left out.
Its words, and those around it, are made in words.py.
"""

from collections.abc import Sequence
from textwrap import shorten, wrap

from whichdevice.base.numbers import time_words, two, usd_words
from whichdevice.decide.decide import NEAR_SECONDS, Answer, Option, Reason, RuledOut
from whichdevice.decide.rows import DOES_NOT_FIT
from whichdevice.decide.words import (
    amount_words,
    batch_words,
    contradiction_lines,
    cost_words,
    fits_words,
    hurry_words,
    joined,
    known_words,
    lines,
    name_words,
    notes_without_command,
    settling_line,
    small,
    time_of,
    title,
    usd_of,
    why_words,
)

MIN_ROWS = 5  # of a table, as far as there are choices
MIN_WIDTH = 60
MAX_REASON = 40  # letters of a reason in a cell
MAX_AMOUNT = 20  # letters of the size of the work at the head of a column
MAX_ALIKE = 2  # devices without an answer that have a row each; more with the same reason are one line
FITS, STEP, SPEED = 1, 2, 3  # places of columns
NO_SPEED = "–"
INTERVALS = -1  # in place of a column's number: the ends of intervals are left out


def text(answer: Answer, width: int = 100, everything: bool = False) -> list[str]:
    """Return the whole answer for a terminal of this width."""
    width = max(width, MIN_WIDTH)
    above = [part for line in [title(answer), "", *lines(answer)] for part in (wrap(line, width) or [""])]
    under = [folded(answer, everything), *notes_without_command(answer)]
    below = [part for line in filter(None, under) for part in wrap(line, width)] + settling_line(answer)
    rows, brief = (cells(answer, everything, intervals) for intervals in (True, False))
    equal = len({row[SPEED] for _, row in rows} - {NO_SPEED}) < 2
    leave_out, hidden = [STEP, SPEED, INTERVALS, FITS], [SPEED] * equal
    return [*above, "", *in_columns(head(answer, everything), rows, brief, width, leave_out, hidden), "", *below]


Cells = list[tuple[bool, list[str]]]  # rows, and whether they are the pick


def in_columns(
    names: list[str], rows: Cells, brief: Cells, width: int, leave_out: Sequence[int], hidden: Sequence[int] = ()
) -> list[str]:
    """Return columns side by side but those that are hidden.

    Where they are too wide columns go, in the order of `leave_out`. `brief` are the same rows without intervals.
    """
    texts, kept = _marked(names, rows), [place for place in range(len(names)) if place not in hidden]
    widths: list[int] = []
    for left_out in (None, *leave_out):
        if left_out == INTERVALS:
            texts = _marked(names, brief)
        kept = [place for place in kept if place != left_out]
        widths = [max(len(row[place]) for row in texts) for place in kept]
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
    texts = [[row[place] for place in kept] for row in texts]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(size) if place in (0, last) else cell.rjust(size)
            for place, (cell, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()[:width]
        for row in texts
    ]


def _marked(names: list[str], rows: Cells) -> list[list[str]]:
    return [["  " + names[0], *names[1:]], *([("▶ " if pick else "  ") + row[0], *row[1:]] for pick, row in rows)]


def head(answer: Answer, everything: bool = False) -> list[str]:
    """Return the names of the table's columns."""
    amount = amount_words(answer)
    whole = amount if len(amount) < MAX_AMOUNT else "whole training"
    step = "a token" if answer.work.mode == "generate" else "a step"
    speed = "× here" if _is_timed(answer.here) else "× pick"
    return ["device", "memory, GB", step, speed, whole, "USD", *["kWh"] * everything, "source"]


def cells(answer: Answer, everything: bool = False, intervals: bool = True) -> Cells:
    """Return a row of texts for each device in the columns of `head`, and whether it is the pick; see `folded`."""
    options = shown(answer, everything)
    return [(option is answer.pick, _cells(answer, option, intervals, everything)) for option in options]


def _is_timed(option: Option | None) -> bool:
    return option is not None and bool(option.row.step_time)


def speed_words(answer: Answer, option: Option) -> str:
    """Return how many times as fast a batch is as here, or else as on the pick."""
    one = next((one.row for one in (answer.here, answer.pick) if one is not None and _is_timed(one)), None)
    times = [answer.work.batch_time(row) for row in (one, option.row) if row is not None]
    return two(times[0] / times[1]) if len(times) == 2 and all(times) else NO_SPEED


def shown(answer: Answer, everything: bool = False) -> list[Option]:
    """Return the options of the table: unless `everything`, without those that are dearer and slower than another."""
    named = [answer.pick, answer.here, answer.fastest, answer.cheapest, answer.rival, answer.avoid]
    places = [option for option in answer.options if option.why != Reason.SPOT]
    places = [
        option for option in places if everything or not (_has_a_line(answer, option) or _is_folded(answer, option))
    ]
    kept = [bool(option.ruled_out) or option.on_front or any(option is one for one in named) for option in places]
    room = MIN_ROWS - sum(kept)
    options = []
    for option, keeps in zip(places, kept, strict=True):
        if everything or keeps or room > 0:
            options.append(option)
            room -= not keeps
    return options


def _without_answer(option: Option) -> bool:
    """Return whether nothing is known but why: neither a time nor that it does not fit."""
    return option.seconds is None and option.row.evidence != DOES_NOT_FIT and not option.row.is_here


def _has_a_line(answer: Answer, option: Option) -> bool:
    """Return whether it is one of several of which nothing is known for the same reason, which is one line."""
    alike = [other for other in answer.options if other.ruled_out == option.ruled_out and _without_answer(other)]
    return _without_answer(option) and len(alike) > MAX_ALIKE


def _is_folded(answer: Answer, option: Option) -> bool:
    """Return whether it is a spot machine that nobody asked for, or a number of devices that is too few."""
    several = answer.pick is not None and any(other.row.is_several for other in answer.options)
    return option.why == Reason.SPOT or (several and option.row.evidence == DOES_NOT_FIT)


def folded(answer: Answer, everything: bool = False) -> str:
    """Return what the table leaves out and why; empty where it shows all."""
    kept = shown(answer, everything)
    left = [option for option in answer.options if not any(option is one for one in kept) or _is_cut(option)]
    reasons: dict[RuledOut, list[str]] = {}
    for option in left:
        if option.ruled_out is not None and option.why != Reason.SPOT:
            reasons.setdefault(option.ruled_out, []).append(option.device)
    hidden = [option.device for option in left if option.ruled_out is None]
    parts = [f"Dearer and slower: {joined(hidden, 6)} (--all shows them)."] if hidden else []
    too_small = [name for why, names in reasons.items() if why.reason in (Reason.FITS, Reason.TIGHT) for name in names]
    parts += [f"Too small: {joined(too_small, 5)}."] if too_small else []
    for why, names in reasons.items():
        if why.reason not in (Reason.FITS, Reason.TIGHT):
            parts.append(f"{joined(names, 4)}: {why_words(why)}.")
    return " ".join(parts)


def _is_cut(option: Option) -> bool:
    """Return whether its row has no room for the reason why nothing is known of it."""
    why = option.ruled_out
    return _without_answer(option) and why is not None and len(why_words(why)) > MAX_REASON


def _cells(answer: Answer, option: Option, intervals: bool, everything: bool) -> list[str]:
    row = option.row
    step = time_words(row.step_time, row.rough) if row.step_time else "–"
    source = known_words(option)
    if option.ruled_out is not None:
        source = shorten(why_words(option.ruled_out), MAX_REASON, placeholder=" …")
    elif answer.by == "cost" and answer.work.mode != "operation" and not option.timely:
        source = f"over {time_words(answer.wants.deadline)}"
    used = ["–" if option.kwh is None else small(option.kwh)] if everything else []
    speed, time, usd = speed_words(answer, option), time_of(option, intervals), usd_of(option, intervals)
    return [row.device, fits_words(row), step, speed, time, usd, *used, source]


def by_stake(answers: Sequence[Answer]) -> list[Answer]:
    """Return those first in which a wrong choice costs most; single operations last."""
    return sorted(answers, key=lambda one: (one.work.mode == "operation", [-worst for worst in _at_stake(one)]))


def _at_stake(answer: Answer) -> tuple[float, float]:
    """USD and seconds by which the worst choice that ends in time, or any where none does, exceeds the pick."""
    pick = answer.pick
    if pick is None:
        return 0.0, 0.0
    timely = [option for option in answer.choices if option.timely] or answer.choices
    usd = max(((option.usd or 0.0) - (pick.usd or 0.0) for option in timely), default=0.0)
    seconds = max(((option.seconds or 0.0) - (pick.seconds or 0.0) for option in timely), default=0.0)
    return max(usd, 0.0), max(seconds, 0.0)


def study_lines(answers: Sequence[Answer]) -> list[str]:
    """Return what a study comes to, in sentences: which device for which of its workloads."""
    if not answers:
        return ["Nothing was measured yet, and nothing was forecast."]
    ordered = _trained(answers)
    groups: dict[str, list[str]] = {}
    for answer in ordered:
        if answer.pick is not None:
            groups.setdefault(name_words(answer.pick), []).append(answer.work.name)
    uses = [f"{use} for {joined(names, 5)}" for use, names in groups.items()]
    sentences = ["; ".join([*uses[:1], *(use[0].lower() + use[1:] for use in uses[1:])]) + "."]
    same = [answer.work.name for answer in ordered if _same_elsewhere(answer)]
    if same:
        sentences.append(f"All rented devices take about the same time and money for {joined(same, 5)}.")
    hurried = [f"{answer.work.name} on {fastest}" for answer in ordered if (fastest := hurry_words(answer))]
    if hurried:
        sentences.append(f"In a hurry: {'; '.join(hurried[:2])}.")
    return sentences[not uses :] + [line for answer in answers for line in contradiction_lines(answer)]


def _trained(answers: Sequence[Answer]) -> list[Answer]:
    """Those of trainings, or of operations where there is nothing else."""
    return by_stake([answer for answer in answers if answer.work.mode != "operation"] or answers)


def _same_elsewhere(answer: Answer) -> bool:
    """Return whether all machines elsewhere end within a quarter of an hour and a dollar of each other."""
    others = [option for option in answer.choices if not option.row.is_here and option.usd is not None]
    times, costs = [option.seconds or 0.0 for option in others], [option.usd or 0.0 for option in others]
    return len(others) > 2 and max(times) - min(times) <= NEAR_SECONDS and max(costs) - min(costs) <= LITTLE_USD


LITTLE_USD = 1.0  # of a study's workload: less is not worth a sentence


def study_head() -> list[str]:
    """Return the names of the columns of a study's table."""
    return ["workload", "for", "here", "pick", "fastest", "at stake"]


def study_rows(answers: Sequence[Answer]) -> list[list[str]]:
    """Return rows of a study's table: each training here, by the pick and by the fastest, and what is at stake."""

    def brief(option: Option | None) -> str:
        if option is None:
            return "–"
        if option.seconds is None:
            return "–" if option.ruled_out is None else why_words(option.ruled_out)
        return f"{option.device}: {cost_words(option)}"

    rows = []
    for answer in _trained(answers):
        options = (answer.here, answer.pick, answer.fastest)
        amount = f"{amount_words(answer)}, {batch_words(answer.work)}"
        rows.append([answer.work.name, amount, *map(brief, options), _stake_words(answer)])
    return rows


def _stake_words(answer: Answer) -> str:
    """The amount that the worst choice costs more than the pick."""
    usd, seconds = _at_stake(answer)
    stakes = [f"USD {usd_words(usd)}"] if usd >= LITTLE_USD else []
    stakes += [time_words(seconds)] if seconds > NEAR_SECONDS else []
    if not stakes:
        return "little"
    return f"up to {' or '.join(stakes)}"


def study_text(answers: Sequence[Answer], width: int) -> list[str]:
    """Return the answers of a study for a terminal of this width: sentences, then a row for each workload."""
    width = max(width, MIN_WIDTH)
    above = [part for line in study_lines(answers) for part in wrap(line, width)]
    rows = [(False, row) for row in study_rows(answers)]
    return [*above, "", *in_columns(study_head(), rows, rows, width, (1, 4, 5))] if rows else above
