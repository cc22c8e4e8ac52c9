"""How good forecasts are on published times that the fit did not see.

Whole groups (models, chips, sources, families) are left out, everything is fitted to the rest, and what was left out is
forecast: single times, ratios of two devices, and which of two is faster.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter

import numpy as np

from fit.fitting import Fitted, Published, Row, host_times, is_blind, name_family
from fit.scores import each_left_out, rounded, score
from whichdevice.forecast.joint import Card, interval, read_scorecard, residual, widened_by
from whichdevice.forecast.time_model import LAUNCH_SD

Group = Callable[[Row], str]
AUTHOR = attrgetter("author")


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of rows that were left out: log of published over forecast, and the spreads that were stated."""

    rows: tuple[Row, ...]
    logs: np.ndarray
    sd_shared: np.ndarray
    sd_own: np.ndarray
    host: np.ndarray  # seconds of a typical host
    host_sd: np.ndarray

    @property
    def sd(self) -> np.ndarray:
        """Log spread of each time."""
        return np.hypot(self.sd_shared, self.sd_own)

    def of(self, chosen: Callable[[Row], bool]) -> "Forecasts":
        """The figures of some rows."""
        mask = np.array([chosen(row) for row in self.rows], dtype=bool)
        rows = tuple(row for row, is_wanted in zip(self.rows, mask, strict=True) if is_wanted)
        return Forecasts(
            rows, *(values[mask] for values in (self.logs, self.sd_shared, self.sd_own, self.host, self.host_sd))
        )

    def of_software(self, name: str) -> "Forecasts":
        """The figures of one software."""
        return self.of(lambda row: row.software == name)

    def figures(self, group: Group | None = None, weighs: bool = False) -> dict[str, float]:
        """Error, width and share that held; where it `weighs`, each group weighs as one."""
        return rounded(score(self.logs, self.sd, [group(row) if group else "" for row in self.rows], weighs))


def left_out(
    published: Published, group: Callable[[Row], str | tuple[str, ...]], whole: Fitted, wanted: np.ndarray | None = None
) -> Forecasts:
    """Leave out each group in turn, fit to the rest, forecast what was left out. `whole` is the fit to all rows.

    A group of several names (a model, a chip) is fitted without the rows that have any of them.
    `wanted` rows [rows, of bool] are forecast; None: those that the device binds.
    """
    rows = published.rows
    groups = np.array([group(row) for row in rows]).reshape(len(rows), -1)
    wanted = published.device_bound & ~published.blind if wanted is None else wanted

    def missed(out: np.ndarray) -> np.ndarray:
        rest = (groups != groups[np.argmax(out)]).all(axis=1)
        fitted = published.fit(rest, whole)
        misses, unclocked = published.logs(fitted.factors), published.unclocked(rest, fitted.factors)
        hosts = host_times(published, misses, rest)
        found = np.full((5, len(rows)), np.nan)
        for place in map(int, np.flatnonzero(out & ~np.isnan(misses) & wanted)):
            row = rows[place]
            part = residual(fitted.residuals[row.software], row.family, row.chip, row.peaks.chip_class)
            launch = fitted.factors[row.software][published.designs[row.software].names.index("launch")]
            launches = row.at_peaks["launch"] * launch * math.exp(misses[place]) / row.seconds
            rates = hosts[row.software]
            found[:, place] = (
                misses[place] - part.offset, math.hypot(part.sd_shared, LAUNCH_SD * launches),
                math.hypot(part.sd_own, unclocked[place]), rates["step"] + rates["kernel"] * row.work.kernels,
                rates["log_sd"],
            )  # fmt: skip
        return found

    found = each_left_out(["|".join(names) for names in groups], missed, wanted)
    kept = ~np.isnan(found[0])
    return Forecasts(tuple(row for row, is_kept in zip(rows, kept, strict=True) if is_kept), *found[:, kept])


def folds(rows: Sequence[Row], number: int) -> Group:
    """Models in so many groups, for `left_out`."""
    models = sorted({row.model for row in rows})
    place = {model: str(count % number) for count, model in enumerate(models)}
    return lambda row: place[row.model]


def ratios(forecasts: Forecasts) -> dict[str, float]:
    """How far ratios of two different chips are off, on the same question, software and source."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place, row in enumerate(forecasts.rows):
        groups.setdefault((row.software, row.source_group, row.question), []).append(place)
    two = [
        pair
        for places in groups.values()
        for pair in combinations(places, 2)
        if forecasts.rows[pair[0]].chip != forecasts.rows[pair[1]].chip
    ]
    if len(two) < FEW_PAIRS:
        return {}
    a, b = np.array(two).T
    its = rounded(score(forecasts.logs[a] - forecasts.logs[b], np.hypot(forecasts.sd_own[a], forecasts.sd_own[b])))
    return {"pairs": its["rows"]} | {f"ratio_{name}": its[name] for name in ("within", "stated", "held")}


def widths(forecasts: Forecasts, chosen: np.ndarray | None = None, least: float = 1.0) -> dict[str, dict[str, float]]:
    """Return by software and family how much wider the spread is than variances say, from models that were left out.

    The root of the mean square of misses over spreads, `least` at least: by 1 a family of many rows vouches for no
    other. "other" is the mean of the families; a family with few models is drawn to it.
    """
    squares = np.minimum(np.abs(forecasts.logs / forecasts.sd), MISSED) ** 2
    chosen = np.ones(len(squares), dtype=bool) if chosen is None else chosen
    models: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row, square, is_chosen in zip(forecasts.rows, squares, chosen, strict=True):
        if is_chosen:
            models.setdefault((row.software, row.family), {}).setdefault(row.model, []).append(square)
    of_family = {key: [float(np.mean(one)) for one in of_model.values()] for key, of_model in models.items()}
    result = {}
    for software in {row.software for row in forecasts.rows}:
        means = {family: values for (of, family), values in of_family.items() if of == software}
        other = float(np.mean([np.mean(values) for values in means.values()])) if means else 1.0
        squares_of = {"other": other} | {
            family: (sum(values) + PRIOR_MODELS * other) / (len(values) + PRIOR_MODELS)
            for family, values in sorted(means.items())
        }
        result[software] = {family: max(least, math.sqrt(square)) for family, square in squares_of.items()}
    return result


MISSED = 3.0  # spreads; what is missed by more counts as that
PRIOR_MODELS = 3.0  # so many models of the mean of families count beside a family's own


def widened(forecasts: Forecasts, group: Group, models: Forecasts, least: float = 1.0) -> Forecasts:
    """Forecasts with the widths of the other groups' rows; `models` come from `models_left_out`."""
    spreads = np.array([forecasts.sd_shared, forecasts.sd_own])
    groups, of_models = (np.array([group(row) for row in each.rows]) for each in (forecasts, models))
    for name in sorted(set(groups)):
        known = widths(models, of_models != name, least)
        for place in map(int, np.flatnonzero(groups == name)):
            row = forecasts.rows[place]
            of_software = known[row.software]
            spreads[:, place] = widened_by(of_software.get(row.family, of_software["other"]), *spreads[:, place])
    return replace(forecasts, sd_shared=spreads[0], sd_own=spreads[1])


LEFT_OUT: Mapping[str, Callable[[Sequence[Row]], Group]] = {
    "models": lambda rows: folds(rows, 8),
    # A chip that XLA's rows lack may still have rows of PyTorch.
    "a chip": lambda rows: lambda row: f"{row.chip} of XLA" if row.software == "xla" else row.chip,
    "a source": lambda rows: lambda row: row.source_group,
    "a family": lambda rows: lambda row: row.family,
}


def fair_test(
    published: Published, whole: Fitted, models: Forecasts, strangers: Forecasts, look: bool
) -> dict[str, dict[str, float]]:
    """The figures that stand first on the page: what no fit saw, and all that a new question may lack at once.

    `strangers` are forecast without model, chip and author. Blind families are forecast anew with `look` alone; their
    figures stay those of the scorecard else.
    """
    before = read_scorecard().get("fair test", {})
    figures = {name: values for name, values in before.items() if name.startswith("families")}

    def of_gpus(forecasts: Forecasts, group: Group) -> Forecasts:
        return widened(forecasts, group, models).of(lambda row: row.peaks.platform == "gpu")

    if look:
        unseen = left_out(published, lambda row: str(is_blind(row)), whole, published.device_bound & published.blind)
        gpus = of_gpus(unseen, name_family)
        for software in sorted({row.software for row in gpus.rows}):
            figures[f"families|{software}"] = gpus.of_software(software).figures()
    tests = {"an author": left_out(published, AUTHOR, whole), "an author, a chip and a model": strangers}
    for name, forecasts in tests.items():
        figures[f"{name}|all"] = of_gpus(forecasts, AUTHOR).figures(AUTHOR, weighs=True)
    return figures | layouts(models)


def measured_chips(chips: Forecasts) -> dict[str, dict[str, float]]:
    """How chips that were left out are forecast: those with rates that somebody measured, and the others.

    Each chip has the same weight.
    """
    gpus = chips.of(lambda row: row.peaks.platform == "gpu")
    measured, others = gpus.of(lambda row: bool(row.peaks.measured)), gpus.of(lambda row: not row.peaks.measured)
    tests = {"a measured chip": measured, "a chip that nobody measured": others}
    return {f"{name}|all": found.figures(attrgetter("chip"), weighs=True) for name, found in tests.items()}


def layouts(models: Forecasts) -> dict[str, dict[str, float]]:
    """How well the ratio of both layouts of a model is forecast, its model left out."""
    places: dict[tuple[str, ...], int] = {}  # the first of each device: of the PyTorch that both layouts were timed in
    for place, row in enumerate(models.rows):
        if row.software == "eager":
            places.setdefault((row.source_group, row.device, row.mode, row.question), place)
    figures = {}
    for mode in ("predict", "train"):
        pairs = []
        for (*others, question), place in places.items():
            first = places.get((*others, question.removesuffix(LAYOUT_NAME)))
            if question.endswith(LAYOUT_NAME) and first is not None and models.rows[place].mode == mode:
                pairs.append((place, first))
        logs = np.array([models.logs[last] - models.logs[first] for last, first in pairs])
        if len(logs):
            figures[f"channels last over first|{mode}"] = rounded(score(logs))
    return figures


LAYOUT_NAME = " channels last"


def models_left_out(published: Published, whole: Fitted) -> Forecasts:
    """Forecasts of all rows, their models left out in eight groups, by variances alone: what widths come from."""
    return left_out(published, LEFT_OUT["models"](published.rows), whole)


def evaluations(published: Published, whole: Fitted, models: Forecasts) -> dict[str, Forecasts]:
    """Forecasts of all rows, by what was left out; `models` come from `models_left_out`."""
    groups = {name: group(published.rows) for name, group in LEFT_OUT.items()}
    forecasts = {
        name: models if name == "models" else left_out(published, group, whole) for name, group in groups.items()
    }
    return {name: widened(known, groups[name], models) for name, known in forecasts.items()}


def scorecard(forecasts: Mapping[str, Forecasts]) -> Card:
    """How good forecasts are, by software and what was left out: single times, and ratios of two chips."""
    card: Card = {}
    for software in sorted({row.software for row in forecasts["models"].rows}):
        cards: dict[str, dict[str, float]] = {}
        for name, every in forecasts.items():
            chosen = every.of_software(software)
            if chosen.rows:
                cards[name] = chosen.figures(LEFT_OUT[name](chosen.rows)) | ratios(chosen)
        card[software] = cards
    return card


SMALL = 5e-3  # seconds
FEW_PAIRS = 10  # below, nothing is stated of ratios


def steps_that_wait(published: Published, whole: Fitted) -> dict[str, dict[str, float]]:
    """How forecasts do where the host may decide: error, stated width, share of intervals that held.

    Steps of PyTorch are small below SMALL seconds, or by their time a kernel. A chip and the hosts that it was in are
    left out for its rows.
    """
    small = np.array([row.host_bound or row.seconds < SMALL for row in published.rows]) & ~published.blind
    small &= np.isin(published.software, ("eager", "torch.compile"))
    forecasts = left_out(published, lambda row: row.chip, whole, small)
    errors, halves, held = [], [], []
    columns = (forecasts.rows, forecasts.logs, forecasts.sd, forecasts.host, forecasts.host_sd)
    for row, log, sd, host, host_sd in zip(*columns, strict=True):
        low, middle, high = interval(row.seconds / math.exp(log), sd, host, host_sd)
        errors.append(math.log(row.seconds / middle))
        halves.append(math.log(high / low) / 2)
        held.append(low <= row.seconds <= high)
    stated, share = float(np.exp(np.median(halves))), float(np.mean(held))
    return {"all": rounded(score(np.array(errors)) | {"stated": stated, "held": share})}
