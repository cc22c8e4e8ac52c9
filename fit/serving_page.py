"""The page of a server's forecasts: scores with something left out, decisions, and the naive rule beside them."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fit.generated import DOCS, percent, table, times
from fit.scores import Z80, score, spread_of
from fit.serving import GROUPS, LOW, FirstTokens, Fitted, Row, held
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.serving.forecast import OWN, SHARED
from whichdevice.forecast.serving.queue import Engines, Requests
from whichdevice.forecast.serving.server import read_constants

PAGE = DOCS / "reference" / "serving-validation.md"
NAMES = {"model": "a model", "system": "a device", "source": "a source", "generation": "a generation of chips"}
NAMES |= {"server": "a server (its model on so many of a device)"}
NAMES |= {"engine of a year": "an engine with its source and year"}
TARGETS = (0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05)  # seconds a token
SAME = 1.05  # of price and of the target's time: as good as the best
SURE = 0.8
LEAST_CHOICES = 2  # that hold a target
PRICE_DRAWS = 200
HEADS = ("rows", "groups", "median error", "80 % were within", "the 80 % interval held", "naive rule")


def write_page(
    servers: Fitted, single: Fitted, tpus: Fitted, first: FirstTokens, every: Sequence[Row], left_out: Mapping[str, int]
) -> None:
    """Write the page, and nothing else; `left_out` has how many rows have no score, by reason."""
    left_out_first = {name: first.left_out(GROUPS[name]) for name in ("model", "server", "engine of a year")}
    lines = [
        INTRODUCTION.format(rows=len(every) + len(single.rows) + len(tpus.rows)),
        *table(("what, left out", *HEADS), _first_table(servers, single, first, left_out_first)),
        "",
        _stated(servers, left_out_first),
        "",
        *_decided(servers),
        "",
        *_left_out(servers, "Time of an output token on data-centre GPUs"),
        *_left_out(single, "One user of llama.cpp on desktop cards, Macs and CPUs"),
        *_left_out(tpus, "TPUs"),
        ABOUT_TPUS,
        *_first(first, left_out_first),
        "",
        *_full(every),
        "",
        *_by_model(servers),
        ABOUT_REST.format(**left_out),
    ]
    PAGE.write_text("\n".join(lines), encoding="utf-8")


INTRODUCTION = """# Forecasts of servers against published ones

This page is made by `python -m fit.serving` from {rows:,} published servers of language models and single users:
InferenceX, NVIDIA, ML.ENERGY and TensorRT-LLM's overview, llama.cpp's and Ollama's users. What is forecast was left out
of the fit. A time is off by 10 % when it is 1.1 times or 1 / 1.1 of the published one. The naive rule is all bytes of
the weights and the cache that a token reads, over the memory's rate by the data sheet.

What limits it, of mixtures of experts: which experts a source's prompts ask for, and kernels of one model alone (those
of Llama 4 Scout, GLM-5's index of what it attends to). Uneven routing, products that pass while weights are read, and
collectives that take longer among more GPUs were tried, and helped nothing that was left out. vLLM and SGLang of 2025
have factors of their own, which no answer uses.
"""


ABOUT_FIRST = """## Time to the first token

Sources state means of requests that all begin together; the queue is simulated so. InferenceX starts SGLang so that it
looks for new requests after 10 or 30 iterations and sends up to 50 tokens together, and TensorRT-LLM so that it waits
up to 60 iterations for more requests: its recipes of those dates say so, and both count. Until 21 January 2026 no
requests warmed its servers up; SGLang then compiled kernels while the first ones waited, for which no queue is a model.
"""
ABOUT_DECISIONS = """## Decisions

Of the devices and numbers of them that one source measured for one model and one pair of lengths: the cheapest a token,
by the price sheet, that holds a target of time a token, each with as many requests at once as it can take
(interpolated). The price is of the tokens that were written in a second, the wait for the first one included. Right:
the pick's own measured price is at most 5 % above the best. What limits it: many choices are as near to each other as
the forecast is to them; and Qwen3-235B on 4 or 8 H100 with an early TensorRT-LLM gained less from the second four than
others do. The factors of mixtures' kernels made times of unseen models better, and these choices a little worse.
Picks of the largest chance or the least expected loss, in place of the lowest median price, were tried, and are no
better.
"""
ABOUT_TPUS = """Of v5e, v6e and TPU7x, published by SGLang-JAX, vLLM, JetStream and Google's recipes; factors start from
those of GPUs. The others (v4, v5p) are forecast as a device that was left out, and every interval is that of a source
that was left out, as a user's server is. A first token is timed as on GPUs: nothing published tests it. vLLM was
rewritten for TPUs in October 2025; what it took before has a factor of its own.
"""
ABOUT_REST = """## Rows that no score is of

- {waits} of ML.ENERGY whose GPUs draw less than 0.8 of their power at a smaller batch: they wait for their host.
- {queues} whose time to the first token is longer than the whole answer: how many requests were in flight is not known.
- Runs with tokens drafted ahead, by the source's own list of changes; GB200 in parts of several machines; rows whose
  weights do not fit into the GPUs that they name. Equal rows count once.

How strongly factors are held to where they start was chosen on these rows, too.
"""


def _cells(name: str, logs: np.ndarray, groups: int | str = "") -> list[object]:
    """The cells of a line without an interval and a naive rule."""
    its = score(logs[np.isfinite(logs)])
    return [name, its["rows"], groups, percent(its["median_error"]), times(its["within"]), "", ""]


def _line(
    name: str, rows: Sequence[Row], missed: np.ndarray, chosen: np.ndarray, group: Callable[[Row], object]
) -> list[object]:
    its = [row for row, is_one in zip(rows, chosen, strict=True) if is_one]
    naive = score(np.log([row.seconds / row.naive for row in its]))["median_error"]
    cells = _cells(name, missed[chosen], len({str(group(row)) for row in its}))
    return [*cells[:-2], percent(held(rows, missed, group)[chosen].mean()), percent(naive)]


def _first_table(
    servers: Fitted, single: Fitted, first: FirstTokens, missed: Mapping[str, np.ndarray]
) -> Iterator[list[object]]:
    rows, every = servers.rows, np.ones(len(servers.rows), dtype=bool)
    dense, one = servers.chosen(lambda row: row.dense), servers.chosen(lambda row: row.server.count == 1)
    decode = single.chosen(lambda row: row.kind == "decode")
    new = "engine of a year"
    for words, of, name, chosen in (
        ("time a token, a model", servers, "model", every),
        ("time a token, a device", servers, "system", every),
        (f"…, an {new}", servers, new, every),
        ("… dense models, a model", servers, "model", dense),
        ("… mixtures of experts, a model", servers, "model", ~dense),
        ("… one GPU, a model", servers, "model", one),
        ("… one GPU, a server", servers, "server", one),
        ("one user of llama.cpp, a device", single, "system", decode),
        ("one user of llama.cpp, a model", single, "model", decode),
    ):
        yield _line(words, of.rows, of.missed[name], chosen, GROUPS[name])
    for name, logs in missed.items():
        for engine in ("", "vllm"):
            rows = [row for row in first.rows if row.server.engine.startswith(engine)]
            chosen = np.array([row.server.engine.startswith(engine) for row in first.rows])
            words = f"time to the first token below {LOW:g} of full load{', vLLM' if engine else ''}, {NAMES[name]}"
            yield _cells(words, logs[chosen], len({str(GROUPS[name](row)) for row in rows}))


def _stated(servers: Fitted, first: Mapping[str, np.ndarray]) -> str:
    """Say which intervals the package states, and how often they hold where an engine of a year is left out."""
    new, spread = "engine of a year", read_constants()["servers"]["sd"]
    rest = np.where(servers.chosen(lambda row: row.dense), spread["rest"]["dense"], spread["rest"]["experts"])
    held_tokens = np.mean(np.abs(servers.missed[new]) <= Z80 * rest)
    dense, experts = (math.exp(Z80 * spread["rest"][kind]) for kind in ("dense", "experts"))
    of_first = math.hypot(spread["rest"]["experts"], spread["first token"])
    held_first = np.mean(np.abs(first[new]) <= Z80 * of_first)
    return (
        "A user's engine is newer than all of them. So answers state the intervals of an engine with its source and\n"
        f"year that is left out, each of one weight: × / ÷ {dense:.2f} for a token of a dense model, "
        f"× / ÷ {experts:.2f}\nof a mixture of experts, × / ÷ {math.exp(Z80 * of_first):.2f} for the first token. "
        "They hold "
        f"{percent(float(held_tokens))} of the times a token\nand {percent(float(held_first))} of first tokens."
    )


def _left_out(fitted: Fitted, title: str) -> Iterator[str]:
    prefill = fitted.chosen(lambda row: row.kind == "prefill")
    lines = [
        _line(words, fitted.rows, fitted.missed[name], ~prefill, GROUPS[name])
        for name, words in NAMES.items()
        if len({str(GROUPS[name](row)) for row in fitted.rows}) > 1
    ]
    if prefill.any():
        lines.append(_cells("a device; reading a prompt alone", fitted.missed["system"][prefill]))
    yield from (f"## {title}", "", *table(("left out", *HEADS), lines), "")


def _first(first: FirstTokens, missed: Mapping[str, np.ndarray]) -> Iterator[str]:
    yield ABOUT_FIRST
    rows = []
    for kind in sorted(set(first.kinds)):
        model, server = (score(missed[name][first.kinds == kind]) for name in ("model", "server"))
        errors = [percent(its["median_error"]) for its in (model, server)]
        rows.append([kind, server["rows"], *errors, times(server["within"])])
    heads = ("engine, source", "rows", "median error, a model left out", "a server left out", "80 % were within")
    yield from table(heads, rows)


def _full(every: Sequence[Row]) -> Iterator[str]:
    """Tokens a second at full load, of which no row was fitted."""
    logs = []
    for row in every:
        if row.kind == "full" and row.rate and row.server.max_requests(row.prompt + row.answer):
            requests = Requests.drawn(100, row.prompt, row.answer)
            rate = float(Engines.of([row.server], requests.tokens).full_rate(requests)[0])
            logs.append(math.log(row.rate / (rate * row.answer)))
    its, bias = score(np.array(logs)), math.exp(float(np.median(logs)))
    yield "## Tokens a second at full load"
    yield ""
    yield f"{len(logs)} of TensorRT-LLM's own figures, none of them fitted: the published rate is {bias:.2f} times the"
    yield f"forecast at the median, the median error {percent(its['median_error'])}, and 80 % are within"
    yield f"{times(its['within'])}."


def _by_model(servers: Fitted) -> Iterator[str]:
    yield "## By model, device and source"
    yield ""
    for name in ("model", "system", "source"):
        names, rows = np.array([str(GROUPS[name](row)) for row in servers.rows]), []
        for known in sorted(set(names)):
            logs = servers.missed[name][names == known]
            title = known if name != "model" else _published_as(servers.rows, names == known)
            rows.append([title, len(logs), f"{np.exp(np.median(logs)):.2f}", times(score(logs)["within"])])
        yield from table((f"{NAMES[name]}, left out", "rows", "published / forecast: median", "80 % were within"), rows)
        yield ""


def _published_as(rows: Sequence[Row], chosen: np.ndarray) -> str:
    names = sorted({row.published_as.rpartition("/")[2] for row, is_one in zip(rows, chosen, strict=True) if is_one})
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


# Decisions

Name = tuple[str, int]  # device and number
Curve = tuple[np.ndarray, np.ndarray]  # logs of seconds a token, and of tokens a second


def _decided(servers: Fitted) -> Iterator[str]:
    """The table of decisions."""
    yield ABOUT_DECISIONS
    cards = {name: decisions(servers, name) for name in ("model", "system")}
    rows = [
        [
            NAMES[name], card["comparisons"], percent(card["right"]), percent(card["naive_right"]),
            f"{percent(card['more'])} more than the best", percent(card["sure"]), percent(card["sure_right"]),
        ]
        for name, card in cards.items()
    ]  # fmt: skip
    heads = ("comparisons", "right", "naive rule", "8 of 10 picks cost at most", "sure picks", "of these right")
    yield from table(("left out", *heads), rows)
    yield ""
    models = sorted(cards["model"]["of models"].items())
    yield from table(
        ("a model, left out", "comparisons", "right"), ([name, its, percent(right)] for name, (its, right) in models)
    )


@dataclass(frozen=True)
class Choices:
    """Measurements of one source for a model and lengths: its curves by device and number, measured and forecast."""

    usd: Mapping[Name, float]  # an hour
    measured: Mapping[Name, Sequence[Curve]]
    forecast: Mapping[Name, Sequence[Curve]]
    naive: Mapping[Name, Sequence[Curve]]
    sd: tuple[float, float]  # log spread that all share, and of each
    model: str

    def prices(self, curves: Mapping[Name, Sequence[Curve]], target: float) -> dict[Name, float]:
        """Return the price of so many tokens of each that holds a target (log seconds)."""
        tokens = {name: max(_tokens(curve, target) for curve in its) for name, its in curves.items()}
        return {name: self.usd[name] / rate if rate else math.inf for name, rate in tokens.items()}

    def pick(self, curves: Mapping[Name, Sequence[Curve]], target: float) -> Name:
        """Return the cheapest that holds the target; where none does, the fastest."""
        prices = self.prices(curves, target)
        return min(prices, key=lambda name: (prices[name], min(float(curve[0][0]) for curve in curves[name])))

    def chance(self, pick: Name, target: float) -> float:
        """Return the share of draws in which the pick is within 5 % of the best."""
        random, wins = np.random.default_rng(0), 0
        for _ in range(PRICE_DRAWS):
            shared = self.sd[0] * random.normal()
            slow = {name: shared + self.sd[1] * random.normal() for name in self.usd}
            moved = {
                name: [(log + slow[name], rate - slow[name]) for log, rate in its]
                for name, its in self.forecast.items()
            }
            prices = self.prices(moved, target)
            wins += math.isfinite(prices[pick]) and prices[pick] <= SAME * min(prices.values())
        return wins / PRICE_DRAWS


def _tokens(curve: Curve, target: float) -> float:
    """Return the most tokens a second at which a curve holds a target; 0 where it never does."""
    seconds, rates = np.maximum.accumulate(curve[0]), np.maximum.accumulate(curve[1])
    return 0.0 if seconds[0] > target else math.exp(float(np.interp(target, seconds, rates)))


def all_choices(servers: Fitted, left_out: str) -> Iterator[Choices]:
    """Yield each source's model and lengths."""
    missed, dense = servers.missed[left_out], servers.chosen(lambda row: row.dense)
    spreads = {kind: _spreads(missed[dense == kind], servers.missed["server"][dense == kind]) for kind in (True, False)}
    sheet = hardware_rows()
    alike: dict[tuple[object, ...], dict[Name, dict[tuple[object, ...], list[tuple[float, ...]]]]] = {}
    kinds: dict[tuple[object, ...], bool] = {}
    for row, miss in zip(servers.rows, missed, strict=True):
        if row.kind == "server" and sheet[row.system].market() is not None:
            question = (row.source, row.model, row.prompt, row.answer)
            kinds[question] = row.dense
            server = alike.setdefault(question, {}).setdefault((row.system, row.server.count), {})
            times = np.array([row.seconds, row.seconds / math.exp(miss), row.naive])
            rates = np.array([row.tokens_rate, row.batch / times[1], row.batch / times[2]])
            server.setdefault(row.kind_of_server, []).append((row.requests, *np.log(times), *np.log(rates)))
    for question, names in alike.items():
        usd = {name: sheet[name[0]].market().usd_per_hour * name[1] for name in names}
        columns = {name: [np.array(sorted(rows)).T for rows in its.values()] for name, its in names.items()}
        curves = [{name: [(c[at], c[at + 3]) for c in its] for name, its in columns.items()} for at in (1, 2, 3)]
        of_model = np.array([row.model == question[1] for row in servers.rows])
        yield Choices(usd, *curves, spreads[kinds[question]], _published_as(servers.rows, of_model))


def _spreads(missed: np.ndarray, of_servers: np.ndarray) -> tuple[float, float]:
    """Return the spread that all servers of a question share, and the one of each."""
    rest = min(spread_of(of_servers), spread_of(missed))
    return math.hypot(math.sqrt(spread_of(missed) ** 2 - rest**2), SHARED * rest), OWN * rest


def decisions(servers: Fitted, left_out: str) -> dict[str, Any]:
    """Return how often the device and number is picked that holds a target at the lowest price a token."""
    found, models = [], []
    for choices in all_choices(servers, left_out):
        for target in np.log(TARGETS):
            measured = choices.prices(choices.measured, target)
            if sum(math.isfinite(price) for price in measured.values()) < LEAST_CHOICES:
                continue
            pick, by_rule = choices.pick(choices.forecast, target), choices.pick(choices.naive, target)
            best = min(measured.values())
            found.append((measured[pick] / best, measured[by_rule] / best, choices.chance(pick, target)))
            models.append(choices.model)
    pick_price, rule_price, chance = np.array(found).T
    sure, right = chance >= SURE, pick_price <= SAME
    known = np.array(models)
    return {
        "of models": {model: (int((known == model).sum()), float(right[known == model].mean())) for model in models},
        "comparisons": len(found),
        "right": float(np.mean(pick_price <= SAME)),
        "naive_right": float(np.mean(rule_price <= SAME)),
        "more": float(np.quantile(pick_price, 0.8, method="lower")) - 1,
        "sure": float(np.mean(sure)),
        "sure_right": float(np.mean(pick_price[sure] <= SAME)),
    }
