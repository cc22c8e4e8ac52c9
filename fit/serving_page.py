"""The page of a server's forecasts: scores with something left out, decisions, and the naive rule beside them."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from fit.serving import GROUPS, LOW, FirstTokens, Fitted, Row, held, score, spread_of
from whichdevice.config.hardware import hardware_rows
from whichdevice.forecast.serving.queue import Engines, Requests

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "serving-validation.md"
NAMES = {"model": "a model", "system": "a device", "source": "a source", "generation": "a generation of chips"}
NAMES |= {"server": "a server (its model on so many of a device)"}
TARGETS = (0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05)  # seconds a token
SAME = 1.05  # of price and of the target's time: as good as the best
SURE, UNLIKELY = 0.8, 0.2
HALF = 0.5


def write_page(
    servers: Fitted, single: Fitted, first: FirstTokens, missed: np.ndarray, every: Sequence[Row], waits: np.ndarray
) -> None:
    """Write the page, and nothing else."""
    lines = [INTRODUCTION.format(rows=len(every) + len(single.rows)), *_first_table(servers, single, first, missed), ""]
    lines += [*_decided(servers), ""]
    lines += [*_left_out(servers, "Time of an output token on data-centre GPUs"), ""]
    lines += [*_left_out(single, "One user of llama.cpp on desktop cards, Macs and CPUs"), ""]
    lines += [*_first(first, missed), "", *_full(every), "", *_by_model(servers), "", *_not_used(every, waits)]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


INTRODUCTION = """# Forecasts of servers against published ones

This page is made by `python -m fit.serving` from {rows:,} published servers of language models and single users:
InferenceX, NVIDIA, ML.ENERGY and TensorRT-LLM's overview, llama.cpp's and Ollama's users. What is forecast was left out
of the fit. A time is off by 10 % when it is 1.1 times or 1 / 1.1 of the published one. The naive rule is all bytes of
the weights and the cache that a token reads, over the memory's rate by the data sheet.
"""


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _line(name: str, rows: Sequence[Row], missed: np.ndarray, chosen: np.ndarray, group: Callable[[Row], object]) -> str:
    its = score(missed[chosen])
    inside = held(rows, missed, group)
    naive = score(np.log([row.seconds / row.naive for row, is_one in zip(rows, chosen, strict=True) if is_one]))
    groups = len({str(group(row)) for row, is_one in zip(rows, chosen, strict=True) if is_one})
    return (
        f"| {name} | {its['rows']:.0f} | {groups} | {_percent(its['median_error'])} | × / ÷ {its['within']:.2f} | "
        f"{_percent(float(inside[chosen].mean()))} | {_percent(naive['median_error'])} |"
    )


def _first_table(servers: Fitted, single: Fitted, first: FirstTokens, missed: np.ndarray) -> Iterator[str]:
    rows, every = servers.rows, np.ones(len(servers.rows), dtype=bool)
    dense, one = servers.chosen(lambda row: row.dense), servers.chosen(lambda row: row.server.count == 1)
    decode = single.chosen(lambda row: row.kind == "decode")
    yield "| what, left out | rows | groups | median error | 80 % were within | the 80 % interval held | naive rule |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, words in (("model", "time a token, a model"), ("system", "time a token, a device")):
        yield _line(words, rows, servers.missed[name], every, GROUPS[name])
    yield _line("… dense models, a model", rows, servers.missed["model"], dense, GROUPS["model"])
    yield _line("… mixtures of experts, a model", rows, servers.missed["model"], ~dense, GROUPS["model"])
    yield _line("… one GPU, a model", rows, servers.missed["model"], one, GROUPS["model"])
    yield _line("… one GPU, a server", rows, servers.missed["server"], one, GROUPS["server"])
    for name, words in (("system", "one user of llama.cpp, a device"), ("model", "one user of llama.cpp, a model")):
        yield _line(words, single.rows, single.missed[name], decode, GROUPS[name])
    its = score(missed)
    yield (
        f"| time to the first token below {LOW:g} of full load, a model | {its['rows']:.0f} | "
        f"{len({row.model for row in first.rows})} | {_percent(its['median_error'])} | × / ÷ {its['within']:.2f} | | |"
    )


def _left_out(fitted: Fitted, title: str) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| left out | rows | groups | median error | 80 % were within | the 80 % interval held | naive rule |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    chosen = fitted.chosen(lambda row: row.kind != "prefill")
    for name, words in NAMES.items():
        yield _line(words, fitted.rows, fitted.missed[name], chosen, GROUPS[name])
    prefill = fitted.chosen(lambda row: row.kind == "prefill")
    if prefill.any():
        its = score(fitted.missed["system"][prefill])
        yield (
            f"| a device; reading a prompt of 1,024 tokens | {its['rows']:.0f} | | {_percent(its['median_error'])} | "
            f"× / ÷ {its['within']:.2f} | | |"
        )


def _first(first: FirstTokens, missed: np.ndarray) -> Iterator[str]:
    yield "## Time to the first token"
    yield ""
    yield "Sources state means of requests that all begin together; the queue is simulated so. InferenceX has SGLang and"
    yield "TensorRT-LLM send several tokens at a time, so a constant for each engine and source is fitted, too."
    yield ""
    yield "| engine, source | rows | median error | 80 % were within |"
    yield "|---|--:|--:|--:|"
    kinds = [f"{row.server.engine}, {row.source}" for row in first.rows]
    for kind in sorted(set(kinds)):
        its = score(missed[np.array([known == kind for known in kinds])])
        yield f"| {kind} | {its['rows']:.0f} | {_percent(its['median_error'])} | × / ÷ {its['within']:.2f} |"


def _full(every: Sequence[Row]) -> Iterator[str]:
    """Tokens a second at full load, of which no row was fitted."""
    rows = [row for row in every if row.kind == "full" and row.rate and row.server.max_requests(row.prompt + row.answer)]
    logs = []
    for row in rows:
        requests = Requests.drawn(100, row.prompt, row.answer)
        rate = float(Engines.of([row.server], requests.tokens).full_rate(requests)[0])
        parts = row.server.count if row.server.whole_attention else 1
        del parts
        logs.append(math.log((row.rate or math.nan) / (rate * row.answer)))
    its = score(np.array(logs))
    bias = math.exp(float(np.median(logs)))
    yield "## Tokens a second at full load"
    yield ""
    yield f"{len(rows)} of TensorRT-LLM's own figures, none of them fitted: the published rate is {bias:.2f} times the"
    yield f"forecast at the median, the median error {_percent(its['median_error'])}, 80 % within × / ÷ {its['within']:.2f}."


def _by_model(servers: Fitted) -> Iterator[str]:
    yield "## By model, device and source"
    yield ""
    for name in ("model", "system", "source"):
        yield f"| {NAMES[name]}, left out | rows | published / forecast: median | 80 % were within |"
        yield "|---|--:|--:|--:|"
        names = np.array([str(GROUPS[name](row)) for row in servers.rows])
        for known in sorted(set(names)):
            logs = servers.missed[name][names == known]
            title = known if name != "model" else _published_as(servers.rows, names == known)
            yield (
                f"| {title} | {len(logs)} | {math.exp(float(np.median(logs))):.2f} | "
                f"× / ÷ {score(logs)['within']:.2f} |"
            )
        yield ""


def _published_as(rows: Sequence[Row], chosen: np.ndarray) -> str:
    names = sorted({row.published_as.rpartition("/")[2] for row, is_one in zip(rows, chosen, strict=True) if is_one})
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _not_used(every: Sequence[Row], waits: np.ndarray) -> Iterator[str]:
    yield "## Rows that no score is of"
    yield ""
    yield f"- {int(waits.sum())} of ML.ENERGY whose GPUs draw less than 0.8 of their power at a smaller batch: they wait"
    yield "  for their host."
    yield "- Runs with tokens drafted ahead, by the source's own list of changes; GB200 in parts of several machines; rows"
    yield "  whose weights do not fit into the GPUs that they name. Equal rows count once."


# Decisions


@dataclass(frozen=True)
class Choice:
    """One device and number, at one load and target."""

    usd: float
    measured: float
    forecast: float
    chance: float  # that it holds the target
    naive: float


def _decided(servers: Fitted) -> Iterator[str]:
    """The table of decisions."""
    card = decisions(servers)
    yield "## Decisions"
    yield ""
    yield "Of the devices and numbers of them that one source measured for one model, one pair of lengths and so many"
    yield "requests at once: the cheapest, by the price sheet, that holds a target of time a token, the model left out."
    yield "Right: it holds the target within 5 %, and costs at most 5 % more than the cheapest that does."
    yield ""
    yield "| | forecast | naive rule |"
    yield "|---|--:|--:|"
    yield f"| comparisons | {card['comparisons']} | {card['comparisons']} |"
    yield f"| right within 5 % | {_percent(card['right'])} | {_percent(card['naive_right'])} |"
    yield f"| picks that are sure | {_percent(card['sure'])} | |"
    yield f"| of these right within 5 % | {_percent(card['sure_right'])} | |"


def decisions(servers: Fitted) -> dict[str, Any]:
    """Return how often the cheapest device and number is picked that holds a target."""
    missed, dense = servers.missed["model"], servers.chosen(lambda row: row.dense)
    spread = {kind: spread_of(missed[dense == kind]) for kind in (True, False)}
    sheet = hardware_rows()
    alike: dict[tuple[object, ...], dict[tuple[object, ...], tuple[Row, float]]] = defaultdict(dict)
    for row, miss in zip(servers.rows, missed, strict=True):
        market = sheet[row.system].market()
        if row.kind == "server" and market is not None:
            question = (row.source, row.model, row.prompt, row.answer, row.requests)
            choice = (row.system, row.server.count)
            known = alike[question].get(choice)
            if known is None or row.seconds < known[0].seconds:
                alike[question][choice] = (row, float(miss))
    right: list[bool] = []
    naive: list[bool] = []
    sure: list[bool] = []
    for rows in alike.values():
        for target in TARGETS:
            choices = [_choice(row, miss, target, spread[row.dense]) for row, miss in rows.values()]
            holding = [choice for choice in choices if choice.measured <= target]
            if not 0 < len(holding) < len(choices):
                continue
            best = min(choice.usd for choice in holding)
            right.append(_is_right(_pick(choices, lambda choice: choice.chance >= HALF), best, target))
            naive.append(_is_right(_pick(choices, lambda choice, at=target: choice.naive <= at), best, target))  # type: ignore[misc]
            sure.append(_is_sure(choices))
    both = [is_right for is_right, is_sure in zip(right, sure, strict=True) if is_sure]
    return {
        "comparisons": len(right),
        "right": float(np.mean(right)),
        "naive_right": float(np.mean(naive)),
        "sure": float(np.mean(sure)),
        "sure_right": float(np.mean(both)) if both else math.nan,
    }


def _choice(row: Row, miss: float, target: float, sd: float) -> Choice:
    market = hardware_rows_once()[row.system].market()
    usd = (market.usd_per_hour if market else math.inf) * row.server.count
    forecast = row.seconds / math.exp(miss)
    chance = float(ndtr(math.log(target / forecast) / sd))
    return Choice(usd, row.seconds, forecast, chance, row.naive)


_SHEET: dict[str, Any] = {}


def hardware_rows_once() -> Mapping[str, Any]:
    """Return the hardware sheet, read once."""
    if not _SHEET:
        _SHEET.update(hardware_rows())
    return _SHEET


def _pick(choices: Sequence[Choice], holds: Callable[[Choice], bool]) -> Choice | None:
    """Return the cheapest that holds; where none does, none."""
    return min((choice for choice in choices if holds(choice)), key=lambda choice: choice.usd, default=None)


def _is_right(pick: Choice | None, best: float, target: float) -> bool:
    return pick is not None and pick.measured <= SAME * target and pick.usd <= SAME * best


def _is_sure(choices: Sequence[Choice]) -> bool:
    """Whether the pick surely holds, and what is cheaper surely does not."""
    pick = _pick(choices, lambda choice: choice.chance >= HALF)
    if pick is None or pick.chance < SURE:
        return False
    return all(choice.chance <= UNLIKELY for choice in choices if choice.usd < pick.usd / SAME)
