"""The words of an answer, for a terminal, the page, the report and a notebook: facts go into a template.

training.txt and serving.txt can be read as what they say. A terminal shows one screen: the title, the decision and what
would change it, a table of the pick, its rivals and one row of each kind of device, and what changes what a reader does
next. `why` shows the rest, too, under headings. Nothing reads what is written here.
"""

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from textwrap import shorten, wrap
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from whichdevice.base.numbers import between, counted, ends_in_words, number, time_words, two, usd_words
from whichdevice.base.sheets.machines import Cores
from whichdevice.base.sheets.prices import Z80
from whichdevice.decide import facts
from whichdevice.decide.decide import NEAR, NEAR_SECONDS, NEAR_USD, QUANTILES, SURE, Answer, Option, Reason, RuledOut
from whichdevice.decide.interruptions import HOUR, RATE
from whichdevice.decide.rows import ESTIMATED, MEASURED, AskedWork, Row
from whichdevice.decide.serving import SAFE, ServerOption, ServerRow, Serving, best_of_each
from whichdevice.decide.serving import as_dict as servers_as_dict
from whichdevice.models.address import ARGUMENTS

if TYPE_CHECKING:
    from whichdevice.forecast.serving.forecast import Load

LINES, WIDTH = 22, 100  # of a screen
ABOVE, ROWS, BELOW = 4, 8, 4  # lines of a screen: of the decision, of the table without its head, of notes
MIN_WIDTH = 60
CERTAIN = 0.99  # chance from which on no number is given
MAX_REASON = 40  # letters of a reason in a cell
NO_SPEED = "–"
FITS, STEP, SPEED, KWH = 1, 2, 3, 6  # places of columns
INTERVALS = -1  # in place of a column's number: the ends of intervals are left out
HALF = "mixed 16 bits"
FORMAT_NAMES = {"float32": "float32", "tf32": "TF32", "mixed_bfloat16": HALF, "mixed_float16": HALF}
SPELT = "AEFHILMNORSX"  # letters whose names begin with a vowel: an H100, an RX 7900
WHY = {
    Reason.FITS: "too small", Reason.TIGHT: "may not fit", Reason.TIME: "no time is known",
    Reason.PRICE: "no price known", Reason.SPOT: "may be taken away", Reason.PORT: "needs PyTorch/XLA",
    Reason.FREE: "is not free", Reason.SESSION: "a session ends after {hours:g} h",
}  # fmt: skip
LITTLE_USD = 1.0  # of a study's workload: less is not worth a sentence

Sections = Mapping[str, list[str]]
Cells = list[tuple[bool, list[str]]]  # rows, and whether they are the pick


def said(answer: Answer | Serving) -> Sections:
    """Return the sentences of an answer by the sections of its template."""
    if isinstance(answer, Serving):
        return filled("serving.txt", serving_facts(answer))
    return filled("training.txt", facts.facts(answer))


def filled(template: str, known: Mapping[str, Any]) -> Sections:
    """Return a template's sentences by their sections; a line that is indented goes on with the one before."""
    sections: dict[str, list[str]] = {}
    sentences: list[str] = []
    for line in templates().get_template(template).render(known).splitlines():
        if line.startswith("== "):
            sentences = sections.setdefault(line[3:], [])
        elif line.startswith(" ") and line.strip() and sentences:
            sentences[-1] += line.strip() if line.strip()[0] in ",;:." else f" {line.strip()}"
        elif line.strip():
            sentences.append(line.strip())
    return sections


@cache
def templates() -> Environment:
    """Return the templates of this folder, with what writes facts as words."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), line_statement_prefix="%", line_comment_prefix="##",
        undefined=StrictUndefined, autoescape=select_autoescape(),
    )  # fmt: skip
    environment.globals |= {
        "SURE": SURE, "CERTAIN": CERTAIN, "NEAR": NEAR, "NEAR_SECONDS": NEAR_SECONDS, "NEAR_USD": NEAR_USD,
        "RATE": RATE * HOUR, "SAFE": SAFE,
    }  # fmt: skip
    environment.filters |= {
        "time": time_words, "usd": usd_words, "two": two, "number": number, "small": small, "counted": counted,
        "chance": chance, "joined": joined, "count": count_words, "usd_up": hour_words,
        "gb": lambda nbytes: two(nbytes / 1e9), "usd_or": usd_or, "for_many": for_many, "rounded_up": rounded_up,
        "amount": amount_words, "counted_as": counted_words, "batch": batch_words, "formats": formats,
        "format_of": format_of, "use": name_words,
        "begun": begun_of, "whole": time_of, "cost": cost_words, "usd_of": usd_of, "start_matters": start_matters,
        "start": start_of, "where": where, "rate": rate_words, "memory_of": memory_of, "why": why_words,
        "workers": lambda count: counted(count, "worker") if count else "no worker process", "cores": cores_words,
        "hour_range": range_words,
        "ends": lambda ends: ends_in_words(ends[0], ends[1], partial(time_words, like=max(ends))),
        "rent_command": rent_command, "devices": devices_words,
        "ages": lambda rows: joined([f"{row.device} {row.price.age} days" for row in rows]), "article": article,
    }  # fmt: skip
    return environment


def title(answer: Answer | Serving) -> str:
    """Return what the answer is about: model, size of the work, batch, number formats."""
    return said(answer)["title"][0]


def lines(answer: Answer | Serving) -> list[str]:
    """Return the decision, its first sentence, and what would change it."""
    return said(answer)["decision"]


def notes(answer: Answer | Serving) -> list[str]:
    """Return all other sentences."""
    return _notes(said(answer))


def _notes(sections: Sections) -> list[str]:
    return [line for name, part in sections.items() if name not in ("title", "decision") for line in part]


def as_json(answer: Answer | Serving) -> dict[str, Any]:
    """Return the facts of an answer as plain data, with its words beside them."""
    words = said(answer)
    if isinstance(answer, Serving):
        rows = [dict(zip(server_head(answer), row, strict=True)) for _, row in server_cells(answer, answer.options)]
        known = {"title": words["title"][0], "lines": words["decision"], "notes": _notes(words), "table": rows}
        return servers_as_dict(answer) | known
    plain: dict[str, Any] = facts.as_dict(answer)
    for row, option in zip(plain["rows"], answer.options, strict=True):
        row["why_not"] = None if option.ruled_out is None else why_words(option.ruled_out)
    plain["amount"]["words"] = amount_words(answer)
    return plain | {"words": words["decision"], "notes": _notes(words)}


@dataclass(frozen=True)
class Table:
    """A table in words, with and without intervals, their heads first.

    `leave_out` are places of columns that go first where it is too wide, `hidden` those that are never shown.
    """

    rows: Cells
    brief: Cells
    leave_out: Sequence[int] = ()
    hidden: Sequence[int] = ()

    def in_columns(self, width: int) -> list[str]:
        """Return its lines, no longer than a width."""
        texts, kept = _marked(self.rows), [place for place in range(len(self.rows[0][1])) if place not in self.hidden]
        widths: list[int] = []
        for left_out in (None, *self.leave_out):
            if left_out == INTERVALS:
                texts = _marked(self.brief)
            kept = [place for place in kept if place != left_out]
            widths = [max(len(row[place]) for row in texts) for place in kept]
            if sum(widths) + 2 * (len(widths) - 1) <= width:
                break
        last = len(widths) - 1
        return [
            "  ".join(
                row[place].ljust(size) if at in (0, last) else row[place].rjust(size)
                for at, (place, size) in enumerate(zip(kept, widths, strict=True))
            ).rstrip()[:width]
            for row in texts
        ]


def _marked(rows: Cells) -> list[list[str]]:
    return [[("▶ " if pick else "  ") + row[0], *row[1:]] for pick, row in rows]


def text(answer: Answer | Serving, width: int = WIDTH, why: bool = False, below: int = 0) -> list[str]:
    """Return the answer for a terminal: one screen with room for `below` further lines, or all that is known of it."""
    if isinstance(answer, Serving):
        table, under = _server_table(answer, why), _servers_folded(answer, why)
    else:
        table, under = _table(answer, why), folded(answer, why)
    return screen(said(answer), table, under, width, why, below)


def page_parts(answer: Answer | Serving, chart: str, typed: Any = None) -> dict[str, Any]:
    """Return what the page of an answer shows, under its names; `chart`: its pictures, `typed`: what a reader types."""
    table = _server_table(answer, True) if isinstance(answer, Serving) else _table(answer, True)
    kept = [place for place in range(len(table.rows[0][1])) if place not in table.hidden]
    (_, head), *rows = [(pick, [row[place] for place in kept]) for pick, row in table.rows]
    words, parts = said(answer), {"typed": typed, "chart": chart, "head": head, "cells": rows}
    return parts | {"title": words["title"][0], "lines": words["decision"], "notes": _notes(words)}


def _table(answer: Answer, why: bool) -> Table:
    full, brief = (
        [(False, head(answer, why, intervals)), *cells(answer, why, intervals)] for intervals in (True, False)
    )
    hidden = [SPEED] * (len({row[SPEED] for _, row in full[1:]} - {NO_SPEED}) < 2)
    hidden += [FITS] * (not any(row[FITS] for _, row in full[1:]))
    hidden += [KWH] * (why and all(row[KWH] == NO_SPEED for _, row in full[1:]))
    return Table(full, brief, (STEP, SPEED, FITS, INTERVALS), hidden)


def screen(sentences: Sections, table: Table, under: list[str], width: int, why: bool, below: int = 0) -> list[str]:
    """Return an answer's title, decision, table, what is `under` it, and notes; with `why` every sentence."""
    width = max(width if why else min(width, WIDTH), MIN_WIDTH)
    most = math.inf if why else max(ABOVE, len(wrap(sentences["decision"][0], width)))
    above = [*fitting(sentences["title"], width), "", *fitting(sentences["decision"], width, most), ""]
    above += [*table.in_columns(width), *fitting(under, width)]
    if not why:
        next_lines = fitting(sentences.get("next", []), width, min(BELOW, LINES - len(above) - 1 - below))
        return [*above, *([""] * bool(next_lines)), *next_lines]
    sections = {name: part for name, part in sentences.items() if name not in ("title", "decision") and part}
    headed = [(["What to do"] if name == "next" else [name]) + fitting(part, width) for name, part in sections.items()]
    return [*above, *(line for part in headed for line in ["", *part])]


def fitting(sentences: Iterable[str], width: int, most: float = math.inf) -> list[str]:
    """Return the sentences in lines of a width, but for those that would make more than `most` lines."""
    shown: list[str] = []
    for sentence in sentences:
        head, command, arguments = sentence.partition(" whichdevice rent ")
        lines = wrap(sentence, width)
        if command and len(lines) > 1:  # as a shell takes it
            pieces = wrap(f"whichdevice rent {arguments}", width - 4, break_on_hyphens=False)
            lines = [head, *(f"  {piece} \\" for piece in pieces[:-1]), f"  {pieces[-1]}"]
        if len(shown) + len(lines) <= most:
            shown += lines
    return shown


def head(answer: Answer, why: bool = False, intervals: bool = True) -> list[str]:
    """Return the names of the table's columns; [80 %] is the interval in which the value is in 8 of 10 cases."""
    step = "a token" if answer.work.mode == "generate" else "a step"
    speed = "× here" if _is_timed(answer.here) else "× pick"
    rough = all(option.row.rough for option in shown(answer, why) if option.seconds)
    interval = "" if rough or not intervals else " [80 %]"
    return ["device", "memory, GB", step, speed, f"time{interval}", f"USD{interval}", *["kWh"] * why, "source"]


def cells(answer: Answer, why: bool = False, intervals: bool = True) -> Cells:
    """Return a row of texts for each device in the columns of `head`, and whether it is the pick; see `folded`."""
    return [(option is answer.pick, _cells(answer, option, intervals, why)) for option in shown(answer, why)]


def _cells(answer: Answer, option: Option, intervals: bool, why: bool) -> list[str]:
    row = option.row
    step = time_words(row.step_time, row.rough) if row.step_time else "–"
    source = known_words(option)
    if option.ruled_out is not None:
        source = shorten(why_words(option.ruled_out), MAX_REASON, placeholder=" …")
    elif answer.by == "cost" and answer.work.mode != "operation" and not option.timely:
        source = f"over {time_words(answer.wants.deadline)}"
    used = ["–" if option.kwh is None else small(option.kwh)] if why else []
    speed, time, usd = speed_words(answer, option), time_of(option, intervals), usd_of(option, intervals)
    return [row.device, fits_words(row), step, speed, time, usd, *used, source]


def _is_timed(option: Option | None) -> bool:
    return option is not None and bool(option.row.step_time)


def speed_words(answer: Answer, option: Option) -> str:
    """Return how many times as fast a batch is as here, or else as on the pick."""
    one = next((one.row for one in (answer.here, answer.pick) if one is not None and _is_timed(one)), None)
    times = [answer.work.batch_time(row) for row in (one, option.row) if row is not None]
    return two(times[0] / times[1]) if len(times) == 2 and all(times) else NO_SPEED


def shown(answer: Answer, why: bool = False) -> list[Option]:
    """Return the options of the table: the pick, its rivals, one of each kind of device, and what no other beats.

    Spot machines that nobody asked for have a sentence; what needs a port is one line.
    """
    options = [option for option in answer.options if option.why != Reason.SPOT]
    if why:
        return options
    options = [option for option in options if not _needs_port(answer, option)]
    kinds: dict[Any, Option] = {}
    for option in [*answer.pool, *options]:  # those in time first
        kinds.setdefault((option.row.is_here or option.row.kind, option.row.price.kind == "free"), option)
    named = [answer.pick, *answer.toss_up, answer.rival, answer.here, *kinds.values(), answer.fastest, answer.cheapest]
    front = [option for option in options if option.ruled_out is None and option.on_front]
    kept = list(dict.fromkeys(id(option) for option in [*named, *front] if option is not None))[:ROWS]
    return [option for option in options if id(option) in kept]


def _needs_port(answer: Answer, option: Option) -> bool:
    return option.row.needs_port and not answer.wants.port


def folded(answer: Answer, why: bool = False) -> list[str]:
    """Return what the table leaves out, in two lines: what needs other software, and the rest."""
    if why:
        return []
    kept = {id(option) for option in shown(answer)}
    left = [option for option in answer.options if option.why != Reason.SPOT and id(option) not in kept]
    ported = [option for option in left if _needs_port(answer, option)]
    groups: dict[str, list[str]] = {}
    for option in left:
        if option not in ported:
            groups.setdefault(_left_out_words(option.ruled_out), []).append(option.device)
    endings = ["How it is known, memory and prices: --why"]
    if groups:
        shortened = [[f"{joined(names, most)} ({why})" for why, names in groups.items()] for most in (5, 4, 3, 2)]
        shortened.append([f"{len(names)} ({why})" for why, names in groups.items()])
        endings = [f"Not shown: {'; '.join(parts)}. All: --why" for parts in shortened]
    return [*_ports_words(ported), next((line for line in endings if len(line) <= WIDTH), endings[-1])]


def _ports_words(ported: Sequence[Option]) -> list[str]:
    """The best free and the best rented device of those that need a port, in a line."""
    timed = [option for option in ported if option.seconds is not None]
    free = [option for option in timed if option.row.price.kind == "free"][:1]
    best = [*free, *[option for option in timed if option.row.price.kind != "free"][:1]]
    costs = [f"{option.device}: {begun_of(option, False)}, USD {usd_of(option, False)}" for option in best]
    line = f"Need PyTorch/XLA: {'; '.join(costs) or joined([option.device for option in ported], 4)}"
    how = " (--devices gpu,tpu)."
    return [line + (how if len(line + how) <= WIDTH else ".")] if ported else []


def _left_out_words(ruled_out: RuledOut | None) -> str:
    if ruled_out is None:
        return "dearer and slower"
    return shorten(why_words(ruled_out), MAX_REASON, placeholder=" …")


def batch_words(work: AskedWork) -> str:
    """Return `batch 1,024`."""
    if work.unit == "product":
        return f"N {work.batch:,}"
    if work.unit == "step":  # of a script whose batch does not show
        return "batch unknown"
    return f"batch {work.batch:,}" + " on each" * (work.fixed != "batch" and work.most_devices > 1)


def amount_words(answer: Answer) -> str:
    """Return the size of the work: `60,000 images × 10 epochs`."""
    amount, unit = answer.amount, answer.work.unit
    if not amount.given:
        return f"a million {counted_words(answer)}"
    count = f"{amount.number:,.0f}" if amount.counted == "steps" else count_words(amount.number)
    if amount.counted != "units":
        return f"{count} {amount.counted}"
    return f"{count} {unit}s" if amount.epochs == 1 else f"{count} {unit}s × {amount.epochs:,.10g} epochs"


def counted_words(answer: Answer) -> str:
    """Return what the amount is a number of: `steps`, `images`."""
    return f"{answer.work.unit}s" if answer.amount.counted == "units" else answer.amount.counted


def count_words(value: float) -> str:
    """Return a count: `60,000`, `1.1 billion`."""
    for one, word in ((1e9, "billion"), (1e6, "million")):
        hundredths = round(value / one * 100)
        if value >= 1e9 or (value >= one and math.isclose(value, hundredths * one / 100, rel_tol=1e-9)):
            return f"{hundredths / 100:,g} {word}"
    return f"{value:,.0f}"


def formats(rows: Sequence[Row]) -> str:
    """Return number formats; where measured devices have other ones than forecasts, which is which."""
    timed = [row for row in rows if row.step_time and row.evidence != ESTIMATED]
    known = timed or [row for row in rows if not row.is_here] or list(rows)
    here = dict.fromkeys(format_of(row) for row in known if row.is_here and row.precision)
    elsewhere = dict.fromkeys(format_of(row) for row in known if not row.is_here and row.precision)
    if not here or not elsewhere or here == elsewhere:
        return ", ".join(here | elsewhere)
    return ", ".join([*(f"{name} here" for name in here), *(f"{name} elsewhere" for name in elsewhere)])


def format_of(row: Row) -> str:
    """Return the number format of a row's step, and that it is compiled."""
    name = FORMAT_NAMES.get(row.precision, row.precision)
    return f"{name} by torch.compile" if row.software == "torch.compile" else name


def small(value: float) -> str:
    """Return a number in two digits that may be very small: `<0.001`, `0.034`, `120`."""
    return "<0.001" if 0 < value < 0.001 else two(value)


def rate_words(answer: Answer, row: Row) -> str:
    """Return `128 products a second`."""
    rate = number(answer.work.units_on(row) / (row.step_time or math.inf))
    return f"{rate} {answer.work.unit}s a second"


def name_words(option: Option) -> str:
    """Return what to do: `Use this machine`, `Use a free T4 (Colab or Kaggle)`, `Rent an RTX 4090`."""
    row = option.row
    if row.is_here:
        return f"Use {row.device}"
    if row.price.kind == "free":
        card = f"a free machine with {row.card}" if row.devices > 1 else f"a free {row.card}"
        return f"Use {card} ({row.price.provider})"
    if row.spot:
        card = f"{row.card} as spot machines" if row.devices > 1 else f"a spot {row.card}"
        return f"Rent {card} ({row.price.provider})"
    called = row.device if " × " in row.card or row.device != row.card else f"{article(row.card)} {row.card}"
    if row.price.kind == "unknown":
        return f"Use {called}"
    if not row.price.provider:
        return f"Rent {called}"
    return f"Rent {called} ({'' if row.price.providers == 1 else 'lowest: '}{row.price.provider})"


def article(name: str) -> str:
    """Return `an` before a name that begins with a vowel when spoken, else `a`."""
    first = name.split()[0]
    return "an" if first[0] in (SPELT if first.isupper() else "AEIO") else "a"


def where(row: Row) -> str:
    """Return `here`, or `on cpu` where a study gives the machine another name."""
    return "here" if row.device == "this machine" else f"on {row.device}"


def time_of(option: Option, interval: bool = True) -> str:
    """Return the time of the whole work: `16 s [14–19 s] + 7 min` where a part of it is to start the machine."""
    start = f" + {time_words(option.row.start_time)}" if start_matters(option) else ""
    return begun_of(option, interval) + start


def begun_of(option: Option, interval: bool = True) -> str:
    """Return the time of the whole work once the machine has started."""
    if option.begun is None:
        return "–"
    rough = option.row.rough
    written = partial(time_words, like=option.begun)
    ends = "" if rough or not interval else between(option.begun_low, option.begun_high, written)
    return time_words(option.begun, rough) + ends


def start_matters(option: Option) -> bool:
    """Return whether a time without the start would mislead."""
    return option.begun is not None and option.row.start_time > NEAR * option.begun


def start_of(row: Row) -> str:
    """Return the time until the work begins: `7 min [4.2–12 min]`."""
    half, written = math.exp(Z80 * row.start_log_sd), partial(time_words, like=row.start_time)
    return time_words(row.start_time) + between(row.start_time / half, row.start_time * half, written)


def usd_of(option: Option, interval: bool = True) -> str:
    """Return the price of the whole work."""
    if option.usd is None:
        return "–"
    rough = option.row.rough
    ends = "" if rough or not interval else between(option.usd_low, option.usd_high, usd_words)
    return ("about " if rough and option.usd >= 0.1 else "") + usd_words(option.usd) + ends


def cost_words(option: Option, interval: bool = False) -> str:
    """Return `2.1 h, USD 1.20`: the time, with its interval where that is wanted, and the price of the whole work."""
    return f"{time_of(option, interval)}, USD {usd_of(option, interval=False)}"


def chance(share: float) -> str:
    """Return a chance, or another share: `93 %`, `> 99 %`."""
    return "> 99 %" if share > CERTAIN else f"{100 * share:.0f} %"


def range_words(row: Row) -> str:
    """Return what an hour costs: `0.29 to 0.69`, or a price without a spread."""
    low, high = (usd_words(end or 0.0) for end in row.usd_ends)
    return low if low == high else f"{low} to {high}"


def hour_words(usd: float) -> str:
    """Return the price of an hour, rounded up: `0.15`, `1.30`, `14`."""
    return f"{math.ceil(usd * 100 - 1e-6) / 100:.2f}" if usd < 10 else f"{math.ceil(usd):,}"


def cores_words(cores: Cores) -> str:
    """Return the cores of a machine, and how sure that is."""
    count = f"{cores.number:,.0f} cores"
    if cores.assumed:
        return f"{count} (assumed)"
    return count if cores.low == cores.high else f"about {count} ({cores.low:,.0f} to {cores.high:,.0f})"


def why_words(ruled_out: RuledOut) -> str:
    """Return why a device is no choice."""
    if ruled_out.reason == Reason.TIME and ruled_out.detail:
        return ruled_out.detail
    return WHY[ruled_out.reason].format(hours=ruled_out.hours or 0)


def known_words(option: Option) -> str:
    """Return how a row is known."""
    row = option.row
    known = row.evidence if row.evidence in (MEASURED, ESTIMATED) else "forecast"
    marks = {"untested": not row.tested, "rough": row.rough, "disturbed": row.disturbed}
    return ", ".join([known, *(word for word, holds in marks.items() if holds)])


def rent_command(work: AskedWork, settle: Mapping[str, Any]) -> str:
    """Return the command that measures the same step on a rented device, as a shell takes it."""
    model, _, script_arguments = work.module.partition(ARGUMENTS)
    command = ["whichdevice", "rent", model, "--on", settle["device"], *["--spot"] * settle["spot"]]
    command += ["--max-usd", str(settle["max_usd"]), "--batch", str(work.batch), "--precision", settle["precision"]]
    if work.mode != "train":
        command += ["--mode", work.mode]
    if work.sequence_length is not None:
        command += ["--sequence-length", str(work.sequence_length)]
    for name, value in work.options.items():
        command += ["--option", f"{name}={json.dumps(value)}"]
    return shlex.join(command) + (f"{ARGUMENTS}{script_arguments}" if script_arguments else "")


def fits_words(row: Row) -> str:
    """Return `3.5 of 25`, with `no` where it does not fit and `tight` where it may just fit."""
    if row.memory_needed is None:
        return "no" if row.fits is False else ""
    return ("tight: " if row.memory_tight else "no: " if row.fits is False else "") + memory_of(row)


def memory_of(row: Row) -> str:
    """Return `3.5 of 25`, in GB of a whole device; what is very small `<0.01 of 25`."""
    size = (row.memory_taken or 0.0) / 1e9
    needed = "<0.01" if 0 < size < 0.01 else two(size)
    return needed if not row.memory else f"{needed} of {two(row.memory / 1e9)}"


def joined(names: Iterable[str], most: int = 99) -> str:
    """Return `T4, L4 and A10G`; of many the first few; of none nothing."""
    listed = list(dict.fromkeys(names))
    if len(listed) > most:
        listed = [*listed[: most - 1], f"{len(listed) - most + 1} more"]
    return f"{', '.join(listed[:-1])} and {listed[-1]}" if len(listed) > 1 else "".join(listed)


CACHE, AT_ONCE, CONTEXT, TOKENS = 1, 2, 3, 4  # places of a server's columns
SERVING_HEAD = (
    "device", "GB: weights + cache", "at once", "context", "tok/s", "requests/s", "USD/h", "USD/M", "sure",
)  # fmt: skip
MADE_HEAD = {"GB: weights + cache": "GB", "tok/s": "alone", "USD/M": "USD/1000"}  # of images and videos
OF_TOKENS = [AT_ONCE, CONTEXT]  # columns that these lack
ENGINES = {"vllm": "vLLM", "llama.cpp": "llama.cpp", "diffusers": "diffusers"}
NEVER = 0.05  # chance of holding the targets, below which a server is never in time


def serving_facts(answer: Serving) -> dict[str, Any]:
    """Return what serving.txt is filled with."""
    options, near, best = answer.options, answer.nearest, best_of_each(answer.options, answer.pick)
    engines = [option.row.software for option in options]
    rows = [option.row for option in servers_shown(answer)]
    shares = sorted(round(100 * (row.memory_available or 0.0) / (row.memory_whole or math.inf)) for row in rows)
    never = [one.row for one in best if not (one.row.is_here or in_time(one) or one.holds)]
    return {
        **vars(answer), "name": answer.model.rpartition("/")[2], "format": format_of_servers(answer),
        "formats": answer.other_formats, "engine": ENGINES[max(engines, key=engines.count)] if engines else "",
        "near": near and near.row, "token": 1 / near.row.one_user[1] if near and near.row.one_user[1] else 0.0,
        "largest": min((option.row for option in options), key=_missing, default=None),
        "engines": list(dict.fromkeys(ENGINES[row.software] for row in rows)),
        "taken": " to ".join(str(share) for share in dict.fromkeys((shares[0], shares[-1]))) if shares else "",
        "untested": [row.card for row in rows if not row.tested and not row.is_here],
        "measured": any(row.is_here for row in rows),
        "too_few": [f"{devices_words(one)} ({two(one.holds)})" for one in best if one.holds],
        "small": [row.card for row in never if not row.fits], "late": [row.card for row in never if row.fits],
    }  # fmt: skip


def _missing(row: ServerRow) -> float:
    return row.memory_parts.get("weights", 0.0) / max(row.memory_available or 0.0, 1.0)


def format_of_servers(answer: Serving) -> str:
    """Return the format of most rows' weights; a row of another says so."""
    formats = [option.row.precision for option in answer.options if not option.row.is_here]
    return max(formats or [option.row.precision for option in answer.options], key=formats.count, default="")


def devices_words(option: ServerOption) -> str:
    """Return all devices of an option, or that it is this machine."""
    return "this machine" if option.row.is_here else option.name


def rounded_up(seconds: float) -> str:
    """Return a time of two digits above this one, as an option takes it."""
    milliseconds = seconds * 1.2e3
    return f"{two(milliseconds)}ms".replace(",", "") if milliseconds < 1000 else f"{two(milliseconds / 1e3)}s"


def usd_or(usd: float | None) -> str:
    """Return a price, or that there is none."""
    return "–" if usd is None else usd_words(usd)


def for_many(million: float | None, load: "Load") -> str:
    """Return USD for a million tokens, or for a thousand images."""
    return usd_or(million / 1000 if million is not None and load.made else million)


def in_time(option: ServerOption) -> bool:
    """Return whether it sometimes holds the targets."""
    return bool(option.row.fits) and (option.sure or 0.0) >= NEVER


def servers_shown(answer: Serving, why: bool = False) -> list[ServerOption]:
    """Return the options of the table, one a device: the pick, its rivals and the best of each kind of device.

    `why` adds all but those that are too small or never in time.
    """
    best = [
        option for option in best_of_each(answer.options, answer.pick)
        if option.row.is_here or in_time(option) or option.holds
    ]  # fmt: skip
    if why:
        return best
    kinds: dict[str, ServerOption] = {}
    for option in best:
        kinds.setdefault("here" if option.row.is_here else option.row.kind, option)
    later = answer.take_over[1].row.card if answer.take_over else ""
    named = [answer.pick, answer.rival, *(one for one in best if one.row.card == later), *kinds.values(), *best]
    cards = list(dict.fromkeys(option.row.card for option in named if option is not None))[:ROWS]
    return [option for option in best if option.row.card in cards]


def server_cells(answer: Serving, options: Sequence[ServerOption] | None = None) -> Cells:
    """Return a row of texts in the columns of SERVING_HEAD for each option, and whether it is the pick."""
    usual = format_of_servers(answer)
    chosen = servers_shown(answer) if options is None else options
    return [(option is answer.pick, _server_cells(option, usual, answer.load)) for option in chosen]


def _server_cells(option: ServerOption, usual: str, load: "Load") -> list[str]:
    row, (usd_low, usd_high) = option.row, option.row.usd_ends
    weights, cache = (max(row.memory_parts.get(part, 0.0), 0.0) for part in ("weights", "cache"))
    parts, alone = f"{two(weights / 1e9)} + {two(cache / 1e9)}", two(row.one_user[1])
    if load.made:
        weights += row.memory_parts.get("values", 0.0)
        parts, alone = two(weights / 1e9), time_words(row.first_token)
    parts = parts if row.fits else f"no: {two(weights / 1e9)}"
    low, middle, high = (option.servers * row.quantile(share) for share in QUANTILES)
    hour = usd_or(option.usd_per_hour)
    if usd_low and usd_high and usd_low < usd_high:
        hour += f" [{usd_words(usd_low * option.servers)}–{usd_words(usd_high * option.servers)}]"
    sure = "–" if option.sure is None else chance(option.sure)
    if option.holds:
        sure = f"no: {two(option.holds)} of {number(load.rps or 0)}"
    name = devices_words(option)
    return [
        name if row.precision == usual else f"{name}, {row.precision}",
        f"{parts} of {two((row.memory_whole or 0.0) / 1e9)}",
        f"{option.servers * row.max_requests:,}" if row.fits else "–",
        f"{row.max_context:,}" if row.fits else "–",
        alone if row.fits else "–",
        f"{two(middle)} [{two(low)}–{two(high)}]" if middle else "–",
        hour,
        for_many(option.usd_million, load) if in_time(option) else "–",
        sure,
    ]


def server_head(answer: Serving) -> list[str]:
    """Return the names of the columns."""
    return [MADE_HEAD.get(name, name) if answer.load.made else name for name in SERVING_HEAD]


def _server_table(answer: Serving, why: bool) -> Table:
    rows = [(False, server_head(answer)), *server_cells(answer, servers_shown(answer, why))]
    hidden = OF_TOKENS if answer.load.made else [] if why else [CONTEXT]
    return Table(rows, rows, (AT_ONCE, CACHE, TOKENS), hidden)


def _servers_folded(answer: Serving, why: bool) -> list[str]:
    rows = {option.row.card for option in servers_shown(answer)}
    left = [option.row.card for option in servers_shown(answer, why=True) if option.row.card not in rows]
    return [] if why else [f"Not shown: {joined(left, 5)}. All: --why" if left else "How it is known: --why"]


def by_stake(answers: Sequence[Answer]) -> list[Answer]:
    """Return those first in which a wrong choice costs most; single operations last."""
    return sorted(answers, key=lambda one: (one.work.mode == "operation", [-worst for worst in _at_stake(one)]))


def matters(answer: Answer) -> bool:
    """Return whether the worst choice costs more than little."""
    usd, seconds = _at_stake(answer)
    return usd >= LITTLE_USD or seconds > NEAR_SECONDS


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
    ordered = _trained(answers)
    uses: dict[str, list[str]] = {}
    for answer in ordered:
        if answer.pick is not None:
            uses.setdefault(name_words(answer.pick), []).append(answer.work.name)
    contradicting = [row for answer in answers for row in facts.contradicts(answer)]
    return filled("study.txt", {"answers": answers, "uses": uses, "contradicts": contradicting})["lead"]


def _trained(answers: Sequence[Answer]) -> list[Answer]:
    """Return answers for trainings, or for operations where there is nothing else."""
    return by_stake([answer for answer in answers if answer.work.mode != "operation"] or answers)


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
    if not matters(answer):
        return "little"
    usd, seconds = _at_stake(answer)
    stakes = [f"USD {usd_words(usd)}"] if usd >= LITTLE_USD else []
    stakes += [time_words(seconds)] if seconds > NEAR_SECONDS else []
    return f"up to {' or '.join(stakes)}"


def study_text(answers: Sequence[Answer], width: int) -> list[str]:
    """Return the answers of a study for a terminal of this width: sentences, then a row for each workload."""
    width = max(width, MIN_WIDTH)
    above = fitting(study_lines(answers), width)
    rows = [(False, row) for row in study_rows(answers)]
    heads = [(False, study_head()), *rows]
    return [*above, "", *Table(heads, heads, (1, 4, 5)).in_columns(width)] if rows else above
