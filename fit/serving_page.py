"""The page of a server's forecasts: scores with something left out, decisions, and the naive rule beside them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from fit.generated import DOCS, SCORES, percent, put_lines, score_cells, table, times
from fit.scores import score, spread_of_others, weights_of
from fit.serving import GROUPS, FirstTokens, Fitted, Row
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.serving import SAFE
from whichdevice.forecast.serving.queue import Engines, Requests

PAGE = DOCS / "reference" / "serving-validation.md"
NAMES = {"model": "a model", "system": "a device", "source": "a source", "generation": "a generation of chips"}
NAMES |= {"server": "a server (its model on so many of a device)"}
NAMES |= {"engine of a year": "an engine with its source and year"}
NEW = "engine of a year"
TARGETS = (0.006, 0.008, 0.01, 0.015, 0.02, 0.03, 0.05)  # seconds a token
FIRST_TARGETS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)  # to the first token
NEAR = 1.5  # times its forecast, within which a target is near
SAME = 1.05  # of price and of the target's time: as good as the best
LEAST_CHOICES = 2  # that hold a target
WITHOUT = {
    "waits": "of ML.ENERGY, whose GPUs draw less than 0.8 of their power at a smaller batch: they wait for their host",
    "queues": "whose time to the first token is longer than the answer: nobody knows how many requests were in flight",
}
SURE_HEADS = ("seconds of", "rows", "stated 80 % interval", "it held", "targets sure to hold", "did", "near ones did")


def write_page(
    servers: Fitted, single: Fitted, tpus: Fitted, first: FirstTokens, every: Sequence[Row], left_out: Mapping[str, int]
) -> None:
    """Write the parts of the page, and nothing else; `left_out` has how many rows have no score, by reason."""
    of_first = {name: first.left_out(GROUPS[name]) for name in ("model", "server", NEW)}
    parts = {
        "tokens": _left_out(servers),
        "first tokens": _first(first, of_first),
        "targets": _sure(servers, first, of_first[NEW]),
        "decisions": _decided(servers),
        "one user": _left_out(single),
        "TPUs": _left_out(tpus),
        "full load": _full(every),
        "groups": _by_model(servers),
        "no score": table(("without a score", "rows"), [[WITHOUT[name], number] for name, number in left_out.items()]),
    }
    for name, lines in parts.items():
        put_lines(PAGE, f"python -m fit.serving, {name}", lines)


def _line(words: str, fitted: Fitted, name: str, chosen: np.ndarray) -> list[object]:
    """The cells of a line; a stated interval is as wide as the other groups' misses of its kind."""
    missed, dense = fitted.missed[name], fitted.chosen(lambda row: row.dense)
    groups, sd = np.array([str(GROUPS[name](row)) for row in fitted.rows]), np.zeros(len(missed))
    for kind in (dense, ~dense):
        among = kind if len(set(groups[kind])) > 1 else dense | ~dense
        sd[kind] = spread_of_others(missed[among], groups[among])[kind[among]]
    naive = np.log([row.seconds / row.naive for row, is_one in zip(fitted.rows, chosen, strict=True) if is_one])
    its = score(missed[chosen], sd[chosen], groups[chosen])
    return [words, *score_cells(its), percent(score(naive)["median_error"])]


def _left_out(fitted: Fitted) -> Iterator[str]:
    decode, dense = fitted.chosen(lambda row: row.kind != "prefill"), fitted.chosen(lambda row: row.dense)
    kinds = {"": decode, ", dense models": decode & dense, ", mixtures of experts": decode & ~dense}
    lines = [
        _line(NAMES[name] + words, fitted, name, chosen)
        for name, group in GROUPS.items()
        if len({str(group(row)) for row in fitted.rows}) > 1
        for words, chosen in (kinds if name == "model" else {"": decode}).items()
    ]
    if not decode.all():
        lines.append(_line("a device; reading a prompt alone", fitted, "system", ~decode))
    yield from table(("left out", *SCORES, "naive rule"), lines)


def _first(first: FirstTokens, missed: Mapping[str, np.ndarray]) -> Iterator[str]:
    rows = []
    for kind in ("", *sorted(set(first.kinds))):
        chosen = np.char.startswith(first.kinds, kind)
        its = [score(logs[chosen]) for logs in missed.values()]
        errors = [f"{percent(each['median_error'])}, {times(each['within'])}" for each in its]
        rows.append([kind or "all", its[0]["rows"], *errors])
    yield from table(("engine, source", "rows", *(f"{NAMES[name]} left out" for name in missed)), rows)


def _sure(servers: Fitted, first: FirstTokens, of_first: np.ndarray) -> Iterator[str]:
    lines = []
    for words, kind in (("a token, dense models", True), ("a token, mixtures of experts", False)):
        its = servers.chosen(lambda row, kind=kind: row.dense == kind)  # type: ignore[misc]
        rows = [row for row, is_one in zip(servers.rows, its, strict=True) if is_one]
        seconds = np.array([row.seconds for row in rows])
        lines.append([words, *_sure_cells(rows, seconds, servers.missed[NEW][its], TARGETS, weighs=True)])
    cells = _sure_cells(first.rows, first.measured, of_first, FIRST_TARGETS, weighs=False)
    yield from table(SURE_HEADS, [*lines, ["the first token", *cells]])


def _sure_cells(
    rows: Sequence[Row], measured: np.ndarray, missed: np.ndarray, targets: Sequence[float], weighs: bool
) -> list[object]:
    """The cells of SURE_HEADS; where it `weighs`, each engine of a year is of one weight in a spread."""
    names = np.array([str(GROUPS[NEW](row)) for row in rows])
    sd = spread_of_others(missed, names, weights_of(names) if weighs else None)
    over = np.log(np.array(targets) / measured[:, None]) + missed[:, None]  # the forecast
    sure, right = ndtr(over / sd[:, None]) >= SAFE, measured[:, None] <= np.array(targets)
    near = sure & (over < math.log(NEAR))
    its = score(missed, sd, names)
    shares = [percent(float(right[chosen].mean())) for chosen in (sure, near)]
    return [its["rows"], times(its["stated"]), percent(its["held"]), f"{sure.sum():,}", *shares]


def _full(every: Sequence[Row]) -> Iterator[str]:
    """Tokens a second at full load, of which no row was fitted."""
    logs = []
    for row in every:
        if row.kind == "full" and row.rate and row.server.max_requests(row.prompt + row.answer):
            requests = Requests.drawn(100, row.prompt, row.answer)
            rate = float(Engines.of([row.server], requests.tokens).full_rate(requests)[0])
            logs.append(math.log(row.rate / (rate * row.answer)))
    its, bias = score(np.array(logs)), math.exp(float(np.median(logs)))
    yield f"{len(logs)} of TensorRT-LLM's own figures, which are in no fit: the published rate is {bias:.2f} times the"
    yield f"forecast at the median, the median error {percent(its['median_error'])}. 80 % are within"
    yield f"{times(its['within'])}."


def _by_model(servers: Fitted) -> Iterator[str]:
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
    """The table of how often the pick holds a target at the lowest price a token."""
    rows = []
    for name in ("model", "system"):
        over = np.array(list(_overpaid(servers, name)))
        right = [percent(share) for share in np.mean(over <= SAME, axis=0)]
        most = percent(float(np.quantile(over[:, 0], 0.8, method="lower")) - 1)
        rows.append([NAMES[name], len(over), *right, f"{most} more than the best"])
    yield from table(("left out", "comparisons", "right", "naive rule", "8 of 10 picks cost at most"), rows)


def _overpaid(servers: Fitted, left_out: str) -> Iterator[tuple[float, float]]:
    """Yield for each choice and target the price of the pick, and of the naive rule's, over the lowest one."""
    for choices in all_choices(servers, left_out):
        for target in np.log(TARGETS):
            measured = choices.prices(choices.measured, target)
            if sum(math.isfinite(price) for price in measured.values()) >= LEAST_CHOICES:
                best, picks = min(measured.values()), (choices.forecast, choices.naive)
                pick, by_rule = (measured[choices.pick(curves, target)] for curves in picks)
                yield pick / best, by_rule / best


@dataclass(frozen=True)
class Choices:
    """Measurements of one source for a model and lengths: its curves by device and number, measured and forecast."""

    usd: Mapping[Name, float]  # an hour
    measured: Mapping[Name, Sequence[Curve]]
    forecast: Mapping[Name, Sequence[Curve]]
    naive: Mapping[Name, Sequence[Curve]]

    def prices(self, curves: Mapping[Name, Sequence[Curve]], target: float) -> dict[Name, float]:
        """Return the price of so many tokens of each that holds a target (log seconds)."""
        tokens = {name: max(_tokens(curve, target) for curve in its) for name, its in curves.items()}
        return {name: self.usd[name] / rate if rate else math.inf for name, rate in tokens.items()}

    def pick(self, curves: Mapping[Name, Sequence[Curve]], target: float) -> Name:
        """Return the cheapest that holds the target; where none does, the fastest."""
        prices = self.prices(curves, target)
        return min(prices, key=lambda name: (prices[name], min(float(curve[0][0]) for curve in curves[name])))


def _tokens(curve: Curve, target: float) -> float:
    """Return the most tokens a second at which a curve holds a target; 0 where it never does."""
    seconds, rates = np.maximum.accumulate(curve[0]), np.maximum.accumulate(curve[1])
    return 0.0 if seconds[0] > target else math.exp(float(np.interp(target, seconds, rates)))


def all_choices(servers: Fitted, left_out: str) -> Iterator[Choices]:
    """Yield each source's model and lengths."""
    sheet = hardware_rows()
    alike: dict[tuple[object, ...], dict[Name, dict[tuple[object, ...], list[tuple[float, ...]]]]] = {}
    for row, miss in zip(servers.rows, servers.missed[left_out], strict=True):
        if row.kind == "server" and sheet[row.system].market() is not None:
            question = (row.source, row.model, row.prompt, row.answer)
            server = alike.setdefault(question, {}).setdefault((row.system, row.server.count), {})
            times = np.array([row.seconds, row.seconds / math.exp(miss), row.naive])
            rates = np.array([row.tokens_rate, row.batch / times[1], row.batch / times[2]])
            server.setdefault(row.kind_of_server, []).append((row.requests, *np.log(times), *np.log(rates)))
    for names in alike.values():
        usd = {name: sheet[name[0]].market().usd_per_hour * name[1] for name in names}
        columns = {name: [np.array(sorted(rows)).T for rows in its.values()] for name, its in names.items()}
        curves = [{name: [(c[at], c[at + 3]) for c in its] for name, its in columns.items()} for at in (1, 2, 3)]
        yield Choices(usd, *curves)
