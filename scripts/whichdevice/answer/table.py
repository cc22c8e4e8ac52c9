"""An answer as a table: its rows in a terminal, what they leave out, and the answers of a whole study.

A table has at most six columns; what stands above it is made in words.py.
"""

from collections.abc import Sequence
from textwrap import wrap

from whichdevice.answer.decide import IN_TIME, NEAR_SECONDS, RULED_OUT, Answer, Option
from whichdevice.answer.rows import DOES_NOT_FIT, ESTIMATED, MEASURED
from whichdevice.answer.words import fastest_line, fits_words, joined, lines, name_words, notes, time_of, title, usd_of
from whichdevice.numbers import time_words, usd_words

LEAST_ROWS = 5  # of a table, as far as there are choices
LEAST_WIDTH = 60


def text(answer: Answer, width: int = 100, everything: bool = False) -> list[str]:
    """The whole answer for a terminal of this width."""
    width = max(width, LEAST_WIDTH)
    above = [part for line in [title(answer), "", *lines(answer)] for part in (wrap(line, width) or [""])]
    below = [part for line in filter(None, [folded(answer, everything), *notes(answer)]) for part in wrap(line, width)]
    return [*above, "", *_table(head(answer), cells(answer, everything), width, (2, -1, 1)), "", *below]


def _table(names: list[str], rows: list[tuple[bool, list[str]]], width: int, leave_out: Sequence[int]) -> list[str]:
    """Columns side by side. Where they are too wide columns go, in the order of `leave_out`; -1: ends of intervals."""
    marked = [[("▶ " if pick else "  ") + row[0], *row[1:]] for pick, row in rows]
    texts = [["  " + names[0], *names[1:]], *marked]
    kept = list(range(len(names)))
    for left_out in (None, *leave_out):
        if left_out == -1:
            texts = [[text.partition(" [")[0] for text in row] for row in texts]
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


def head(answer: Answer) -> list[str]:
    """Names of the table's columns."""
    whole = answer.amount.words if len(answer.amount.words) < 20 else "whole training"
    return ["device", "fits, GB", "a token" if answer.work.mode == "generate" else "a step", whole, "USD", "known by"]


def cells(answer: Answer, everything: bool = False) -> list[tuple[bool, list[str]]]:
    """A row of texts for each device in the columns of `head`, and whether it is the pick; see `folded`."""
    return [(option is answer.pick, _cells(option)) for option in shown(answer, everything)]


def shown(answer: Answer, everything: bool = False) -> list[Option]:
    """Options that the table shows: unless `everything`, without those that are dearer and slower than another."""
    named = [answer.pick, answer.here, answer.fastest, answer.cheapest, answer.rival, answer.avoid]
    places = [each for each in answer.options if each.ruled_out != RULED_OUT["spot"]]
    places = [each for each in places if everything or not (_without_answer(each) or _is_folded(answer, each))]
    kept = [bool(each.ruled_out) or each.on_front or any(each is one for one in named) for each in places]
    more = LEAST_ROWS - sum(kept)
    found = []
    for option, keeps in zip(places, kept, strict=True):
        if everything or keeps or more > 0:
            found.append(option)
            more -= not keeps
    return found


def _without_answer(option: Option) -> bool:
    """Whether nothing is known but why: neither a time nor that it does not fit."""
    return option.seconds is None and option.row.evidence != DOES_NOT_FIT and not option.row.is_here


def _is_folded(answer: Answer, option: Option) -> bool:
    """Whether it is a spot machine that nobody asked for, or one of several numbers of devices that is too few."""
    several = answer.pick is not None and any(
        each.row.devices > 1 and each.row.kind == "gpu" for each in answer.options
    )
    return option.ruled_out == RULED_OUT["spot"] or (several and option.row.evidence == DOES_NOT_FIT)


def folded(answer: Answer, everything: bool = False) -> str:
    """What the table leaves out and why; empty where it shows all."""
    kept = shown(answer, everything)
    left = [option for option in answer.options if not any(option is each for each in kept)]
    left = [option for option in left if option.ruled_out != RULED_OUT["spot"]]
    reasons: dict[str, list[str]] = {}
    for option in left:
        if _without_answer(option) or _is_folded(answer, option):
            reasons.setdefault(option.ruled_out or "", []).append(option.device)
    hidden = [option.device for option in left if option.ruled_out is None]
    found = [f"Dearer and slower: {joined(hidden, 6)} (--all shows them)."] if hidden else []
    small = reasons.pop(RULED_OUT["fits"], []) + reasons.pop(RULED_OUT["tight"], [])
    found += [f"Too small: {joined(small, 5)}."] if small else []
    return " ".join([*found, *(f"{joined(names, 4)}: {why}." for why, names in reasons.items())])


def _cells(option: Option) -> list[str]:
    row = option.row
    step = time_words(row.step_time, row.rough) if row.step_time else "–"
    whole = "–" if option.seconds is None else time_of(option)
    return [row.device, fits_words(row), step, whole, usd_of(option), known_words(option)]


def known_words(option: Option) -> str:
    """How a row is known, or why it is no choice."""
    row = option.row
    if option.ruled_out:
        return option.ruled_out.partition(":")[0] if len(option.ruled_out) > 40 else option.ruled_out
    known = row.evidence if row.evidence in (MEASURED, ESTIMATED) else "forecast"
    marks = [word for word, holds in (("rough", row.rough), ("busy", row.disturbed)) if holds]
    return ", ".join([known, *marks])


def by_stake(answers: Sequence[Answer]) -> list[Answer]:
    """Those first in which a wrong choice costs most; single operations last."""
    return sorted(answers, key=lambda each: (each.work.mode == "operation", [-worst for worst in _at_stake(each)]))


def _at_stake(answer: Answer) -> tuple[float, float]:
    """USD and seconds by which the worst choice that ends in time, or any where none does, exceeds the pick."""
    pick = answer.pick
    if pick is None:
        return 0.0, 0.0
    choices = [each for each in answer.options if each.ruled_out is None]
    timely = [each for each in choices if (each.in_time or 0.0) >= IN_TIME] or choices
    usd = max(((each.usd or 0.0) - (pick.usd or 0.0) for each in timely), default=0.0)
    seconds = max(((each.seconds or 0.0) - (pick.seconds or 0.0) for each in timely), default=0.0)
    return max(usd, 0.0), max(seconds, 0.0)


def study_lines(answers: Sequence[Answer]) -> list[str]:
    """What a study comes to, in sentences: which device for which of its workloads."""
    if not answers:
        return ["Nothing was measured yet, and nothing was forecast."]
    ordered = _trained(answers)
    groups: dict[str, list[str]] = {}
    for answer in ordered:
        if answer.pick is not None:
            groups.setdefault(name_words(answer.pick), []).append(answer.work.workload)
    uses = [f"{what} for {joined(names, 5)}" for what, names in groups.items()]
    found = [f"{'; '.join([*uses[:1], *(use[0].lower() + use[1:] for use in uses[1:])])}."] if uses else []
    same = [answer.work.workload for answer in ordered if _same_elsewhere(answer)]
    if same:
        found.append(f"Which rented device it is hardly matters for {joined(same, 5)}.")
    hurry = [
        f"{answer.work.workload} on {line[9:-1].partition(';')[0]}"
        for answer in ordered
        for line in fastest_line(answer)
    ]
    if hurry:
        found.append(f"In a hurry: {'; '.join(hurry[:2])}.")
    bad = [line for answer in answers for line in notes(answer) if "contradicts" in line]
    return found + bad


def _trained(answers: Sequence[Answer]) -> list[Answer]:
    """Those of trainings, or of operations where there is nothing else."""
    return by_stake([each for each in answers if each.work.mode != "operation"] or answers)


def _same_elsewhere(answer: Answer) -> bool:
    """Whether all machines elsewhere end within a quarter of an hour and a dollar of each other."""
    others = [each for each in answer.options if each.ruled_out is None and not each.row.is_here and each.seconds]
    others = [each for each in others if each.usd is not None]  # what nobody offers is no choice
    times, costs = [each.seconds or 0.0 for each in others], [each.usd or 0.0 for each in others]
    return len(others) > 2 and max(times) - min(times) <= NEAR_SECONDS and max(costs) - min(costs) <= LITTLE_USD


LITTLE_USD = 1.0  # of a study's workload: less is not worth a sentence
STUDY_HEAD = ["workload", "for", "here", "pick", "fastest", "a wrong choice costs"]


def study_rows(answers: Sequence[Answer]) -> list[list[str]]:
    """Rows of a study's table: each training here, by the pick and by the fastest, and what is at stake."""

    def brief(option: Option | None) -> str:
        if option is None or option.seconds is None:
            return "–" if option is None else option.ruled_out or "–"
        return f"{option.device}: {time_of(option, False)}, USD {usd_of(option, False)}"

    found = []
    for answer in _trained(answers):
        usd, seconds = _at_stake(answer)
        stakes = [f"USD {usd_words(usd)}"] * (usd >= LITTLE_USD) + [time_words(seconds)] * (seconds > NEAR_SECONDS)
        stake = f"up to {' or '.join(stakes)}" if stakes else "little"
        options = (answer.here, answer.pick, answer.fastest)
        found.append([answer.work.workload, answer.amount.words, *map(brief, options), stake])
    return found


def study_text(answers: Sequence[Answer], width: int) -> list[str]:
    """The answers of a study for a terminal of this width: sentences, then a row for each workload."""
    width = max(width, LEAST_WIDTH)
    above = [part for line in study_lines(answers) for part in wrap(line, width)]
    rows = [(False, row) for row in study_rows(answers)]
    return [*above, "", *_table(STUDY_HEAD, rows, width, (1, 4, -1, 5))] if rows else above
