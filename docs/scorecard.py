"""Tables and the picture of docs/results/index.md, from the CSV files beside that page.

`claims.csv` has one row for each claim with the bounds of its aim; `sessions.csv` has every value that was ever
measured for it, the latest one last. Whether an aim is met follows from value, interval and bounds.
"""

import hashlib
import json
import math
from pathlib import Path
from statistics import median
from typing import Any

from whichdevice.base.numbers import time_words, two
from whichdevice.forecast.joint import read_scorecard
from whichdevice.study.claims import TODAY
from whichdevice.study.tables.base import read_rows

FOLDER = Path(__file__).resolve().parent / "results"
PICTURE = FOLDER.parent / "images" / "scorecard.png"
Row = dict[str, str]


def results_parts() -> dict[str, str]:
    """Each generated part of the page, by name."""
    sessions = _rows("sessions")
    machines = [
        [row["name"], row["processor"], row["cores"], row["memory"], row["software"]] for row in _rows("machines")
    ]
    return {
        "trust": _trust(sessions),
        "trust-short": _decided_in_short(),
        "forecast-errors": _forecast_errors(),
        "tpu-errors": _tpu_errors(),
        "gpu-or-tpu": _gpu_or_tpu(),
        "answers": _answers(),
        "machines": _table(["machine", "processor", "cores", "memory", "software"], machines),
        "simulation": _table(
            ["processes differ by", "n", "step times held", "ratios held", "alarm", "10 % found"],
            [list(row.values()) for row in _rows("simulation")],
        ),
        "claims": _claims(),
        "today": _today(),
        "reproduced": _table(
            ["workload", "quantity", "published", "on", "here", "note"],
            [[f"`{row['workload']}`", *list(row.values())[1:]] for row in _rows("reproduced")],
        ),
        "scorecard": _table(
            ["claim", "aim", "latest", "all sessions", "within aim", "latest met"],
            [_score(claim, sessions) for claim in _rows("claims")],
        ),
    }


def _trust(sessions: list[Row]) -> str:
    """What counts, for those who read no more: overhead, false alarms, planted slowdowns, decisions."""
    latest = {row["claim"]: row for row in sessions}
    overhead, alarms, found = (latest[name] for name in ("overhead_tensorflow", "false_alarms", "planted_found"))
    return "\n".join(
        [
            f"- The reported step time is {overhead['value']} [{overhead['low']}, {overhead['high']}] of the same step "
            f"in a bare loop, for TensorFlow. {_spread(sessions, 'overhead_tensorflow', '')}.",
            f"- Where nothing differs, {alarms['value']} % of families of comparisons raise a false alarm (aim: 5 %). "
            f"{_spread(sessions, 'false_alarms')}.",
            f"- Of planted slowdowns of 10 %, {found['value']} % are found with ten repeats. "
            f"{_spread(sessions, 'planted_found')}. Three repeats, the default, find {_found_by_three()} (simulated).",
            *_decided(),
        ]
    )


def _decided() -> list[str]:
    """Three sentences on picks by forecasts alone, from decisions.json, which `make forecasts` writes."""
    card = json.loads((FOLDER / "decisions.json").read_text(encoding="utf-8"))
    models, strangers = card["models"], card["model, chip and author"]["random markets"]
    markets, trained = models["random markets"], models["random markets, trainings"]
    off = [models[f"prices off by 20 %, {words}"]["words"]["sure"][1] for words in ("known", "not known")]

    def scored(its: dict[str, Any], rule: str = "product") -> str:
        return f"{_share(its['right'][rule])} ({_share(its['regret'][rule])})"

    return [
        f"- At random prices, a GPU picked by forecasts is within 3 % of the cheapest in {scored(markets)} of "
        f"{markets['comparisons']:,} published comparisons. In brackets is what it costs too much on average. By peak "
        f"a dollar that is {scored(markets, 'peak')}, by bandwidth a dollar {scored(markets, 'bandwidth')}, by one "
        f"fitted speed a card {scored(markets, 'speed')}.",
        "- The fit had not seen the model; it had seen the GPUs. Where it has seen neither model, chip nor author: "
        f"{scored(strangers)}. In the {trained['comparisons']} comparisons of trainings: {scored(trained)}.",
        "- A pick is called sure where its chance to be within 5 % of the best is 90 % or more. At random prices "
        f"{_share(markets['words']['sure'][0])} of picks are called so, and {_share(markets['words']['sure'][1])} of "
        f"these are within it. Where prices are off by 20 % it is {_share(off[0])} with their "
        f"spread, {_share(off[1])} without.",
    ]


def _decided_in_short() -> str:
    """Return the sentence on picks for those who read no page but the first."""
    card = json.loads((FOLDER / "decisions.json").read_text(encoding="utf-8"))
    markets = card["models"]["random markets"]
    strangers = card["model, chip and author"]["random markets"]
    right = {rule: _share(share) for rule, share in markets["right"].items()}
    return (
        f"At random prices, a GPU picked by forecasts is within 3 % of the cheapest in {right['product']} of "
        f"{markets['comparisons']:,} published comparisons of unseen models. By peak a dollar it is {right['peak']}, "
        f"by bandwidth a dollar {right['bandwidth']}, by one fitted speed a card {right['speed']}. Of unseen models, "
        f"chips and authors: {_share(strangers['right']['product'])}."
    )


def _forecast_errors() -> str:
    """How far forecasts were off, from the scorecard that `make forecasts` writes."""
    card = read_scorecard()
    names = {
        "eager": "PyTorch, operation by operation",
        "torch.compile": "PyTorch with `torch.compile`",
        "xla": "Keras and JAX on GPUs, compiled by XLA",
    }
    rows = [
        [name, *(f"× / ÷ {card[software][left]['within']:.2f}" for left in ("models", "a chip"))]
        for software, name in names.items()
    ]
    return _table(["8 of 10 published times were within", "a model left out", "a chip left out"], rows)


def _tpu_errors() -> str:
    """How far a TPU's first estimates were off, from the scorecard."""
    card = read_scorecard()
    models, steps = (
        "published training of language models (MaxText)",
        "published steps of other models (MLPerf and others)",
    )
    tests = (
        ("forecast of the TPU compiler's program, a step left out (v5e, v6e)", "xla of a GPU on TPU", "a program"),
        (f"{steps}, a model left out", "xla of a GPU on TPU", "models"),
        (f"{steps}, a chip left out", "xla of a GPU on TPU", "a chip"),
        (f"{steps}, a source left out", "xla of a GPU on TPU", "a source"),
        (f"{models}, a model left out", "PyTorch on TPU", "models"),
        (f"{models}, a chip left out", "PyTorch on TPU", "a chip"),
    )
    figures = [(name, card[software][left]) for name, software, left in tests]
    rows = [
        [name, f"{each['rows']}", f"{each['median_error']:.0%}", f"× / ÷ {each['within']:.2f}", _share(each["held"])]
        for name, each in figures
    ]
    return _table(["tested on", "rows", "median error", "8 of 10 within", "inside of the interval"], rows)


def _gpu_or_tpu() -> str:
    """One paragraph on decisions between GPUs and TPUs, from kinds.json, which `make forecasts` writes."""
    time, cost = json.loads((FOLDER / "kinds.json").read_text(encoding="utf-8")).values()
    right, peak = ([_share(its["right"][rule]) for its in (time, cost)] for rule in ("product", "peak"))
    return (
        f"**GPU or TPU**: {time['comparisons']} published comparisons have both (MLPerf, users' tables). There the "
        f"pick is within 3 % of the fastest in {right[0]} and of the cheapest in {right[1]}. The highest peak is right "
        f"in {peak[0]}, the highest peak for a dollar in {peak[1]}. The worst pick is "
        f"{100 * time['regret_worst']:.0f} % slower or {100 * cost['regret_worst']:.0f} % dearer. "
        "[Every miss](../reference/forecast-validation.md)."
    )


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _found_by_three() -> str:
    """Smallest and largest share of slowdowns of 10 % that simulated studies of three repeats find."""
    shares = [float(row["found"].removesuffix(" %")) for row in _rows("simulation") if row["n"] == "3"]
    return f"{_plain(min(shares))} to {_plain(max(shares))} %"


def _spread(sessions: list[Row], claim: str, unit: str = " %") -> str:
    """Smallest, largest and middle value of all sessions of a claim."""
    values = [float(row["value"]) for row in sessions if row["claim"] == claim]
    lowest, middle, highest = (_plain(each) for each in (min(values), median(values), max(values)))
    return f"All {len(values)} sessions: {lowest} to {highest}{unit}, median {middle}{unit}"


def _answers() -> str:
    """The answers of the default study, from docs/results/tables/quick/answers.csv."""
    rows = read_rows(FOLDER / "tables" / "quick" / "answers.csv")
    return _table(list(rows[0]), [list(row.values()) for row in rows])


METRICS = {
    "epoch_time": "epoch", "first_epoch_time": "first epoch", "step_time": "step", "wall_time": "training",
    "total_time": "training", "throughput": "product", "throughput_cold": "cold product",
}  # fmt: skip


def published() -> list[Row]:
    """The sources' times and speeds beside the same work on the same device, then on today's."""
    rows = read_rows(FOLDER / "tables" / "published.csv")
    return [row for row in rows if row["metric"] in METRICS and (row["value"] or row["ours"])]


def _claims() -> str:
    """Each published measurement beside the forecast of the same work on the same device, and how good that was."""
    then = [row for row in published() if row["published_device"]]
    rows = [
        [
            _work(row),
            _amount(row["value"], row["unit"]),
            f"{row['published_device']}, {row['date'][:4]}",
            _with_interval(row),
            two(float(row["ratio"])) if row["ratio"] else "–",
            row["cause"],
        ]
        for row in then
    ]
    table = _table(["work", "published", "on", "forecast on the same device", "ratio", "cause"], rows)
    return f"{table}\n\n{_agreement(then)}"


def _agreement(then: list[Row]) -> str:
    """How far forecasts are from what was published on the same device, apart where a cause is named."""
    sentences = []
    for cause, words in ((False, "Where no cause is named"), (True, "Where one is")):
        rows = [row for row in then if row["ratio"] and bool(row["cause"]) is cause]
        within = sum(float(row["ours_low"]) <= float(row["value"]) <= float(row["ours_high"]) for row in rows)
        ratio = median(float(row["ratio"]) for row in rows)
        sentences.append(f"{words}, the median ratio is {two(ratio)}, and {within} of {len(rows)} lie in the interval.")
    return " ".join(sentences)


def _today() -> str:
    """The work of each experiment on today's devices and on those that measured it."""
    places = ("this CPU", *TODAY)
    works: dict[str, dict[str, str]] = {}
    for row in published():
        if not row["published_device"]:
            place = "this CPU" if row["evidence"] == "measured" else row["device"]
            works.setdefault(_work(row), {})[place] = _amount(row["ours"], row["unit"])
    rows = [[work, *(known.get(place, "–") for place in places)] for work, known in works.items()]
    return _table(["work", *places], rows)


def _work(row: Row) -> str:
    batch, length = row["published_batch_size"], row["published_sequence_length"]
    size = batch and f"{'N' if row['workload'] == 'matmul' else 'b'}{batch} "
    length = length and f"× {length} "
    return f"`{row['workload']}` {size}{length}{METRICS[row['metric']]}"


def _with_interval(row: Row) -> str:
    ours, low, high = (_amount(row[f"ours{end}"], row["unit"]) for end in ("", "_low", "_high"))
    if row["unit"] != "s":  # is said once
        ours, low = (text.removesuffix(f" {row['unit']}") for text in (ours, low))
    return f"{ours} [{low}, {high}]" if ours else "–"


def _amount(number: str, unit: str) -> str:
    if not number:
        return ""
    return time_words(float(number)) if unit == "s" else f"{two(float(number))} {unit}"


def _score(claim: Row, sessions: list[Row]) -> list[str]:
    own = [row for row in sessions if row["claim"] == claim["claim"]]
    latest = own[-1]
    values = [float(row["value"]) for row in own if row["value"]]
    whole = f"{_plain(min(values))} to {_plain(max(values))} ({len(own)})" if values else f"({len(own)})"
    within = [verdict(claim, row) in ("yes", "estimate only") for row in own]
    interval = f" [{latest['low']}, {latest['high']}]" if latest["low"] else ""
    unit = f" {claim['unit']}" if claim["unit"] else ""
    earlier = ", earlier code" if "earlier code" in latest["note"] else ""
    return [
        claim["what"],
        f"{_aim(claim)}{unit}",
        f"{latest['value']}{interval}".strip(),
        whole,
        f"{sum(within)} of {len(own)}",
        verdict(claim, latest) + earlier,
    ]


def _plain(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _aim(claim: Row) -> str:
    low, high = claim["low"], claim["high"]
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}"


def verdict(claim: Row, session: Row) -> str:
    """`yes`: the whole interval is within the aim; `estimate only`: the value is; else `no`."""
    low, high = float(claim["low"] or -math.inf), float(claim["high"] or math.inf)
    ends = [float(session[end]) for end in ("low", "high") if session[end]]
    if ends and low <= min(ends) and max(ends) <= high:
        return "yes"
    value = float(session["value"]) if session["value"] else None
    if value is None or not low <= value <= high:
        return "no"
    return "estimate only"


KINDS = {  # of ratios, with what each divides, in words
    "step ÷ bare loop": "Is the reported time of a step right?  Reported time ÷ time in a bare loop",
    "product ÷ second clock": "Is that of a matrix product right?  Reported time ÷ time by a second clock",
    "float32 product ÷ C loop": "Do float32 matrix products use the whole processor?  Their speed ÷ a C loop's",
    "bfloat16 product ÷ C loop": "Do bfloat16 matrix products?  Their speed ÷ a C loop's",
}
COLOURS = {"epyc": "#0072b2", "xeon": "#d55e00"}


def draw(path: Path = PICTURE) -> None:
    """Draw every session of each claim that is a ratio, with interval and aim; the file names the hash of its data."""
    from matplotlib.figure import Figure

    sessions = _rows("sessions")
    kinds: dict[str, list[tuple[str, Row]]] = {kind: [] for kind in KINDS}
    for claim in _rows("claims"):
        kind, _, name = claim["what"].replace("`", "").partition(", ")
        if kind in kinds and not claim["unit"]:
            kinds[kind].append((name, claim))
    heights = [len(claims) + 0.9 for claims in kinds.values()]
    figure = Figure(figsize=(8, 0.44 * sum(heights) + 0.9), layout="constrained")
    panels = figure.subplots(len(kinds), sharex=True, height_ratios=heights)
    for axes, (kind, claims) in zip(panels, kinds.items(), strict=True):
        axes.set_title(KINDS[kind], fontsize=9, loc="left")
        axes.set_yticks(range(len(claims)), [name for name, _ in claims], fontsize=8)
        axes.set_ylim(len(claims) - 0.5, -0.5)
        axes.axvline(1, color="0.4", lw=0.7)
        for place, (_, claim) in enumerate(claims):
            low, high = float(claim["low"] or 0.5), float(claim["high"] or 1.9)
            axes.fill_betweenx([place - 0.42, place + 0.42], low, high, color="#bbbbbb", alpha=0.45, lw=0)
            own = [row for row in sessions if row["claim"] == claim["claim"]]
            for number, row in enumerate(own):
                y = place - 0.32 + 0.64 * (number + 0.5) / len(own)
                newest, colour = number == len(own) - 1, COLOURS[row["machine"]]
                axes.plot([float(row["low"]), float(row["high"])], [y, y], color=colour, lw=1)
                axes.plot(float(row["value"]), y, "o" if newest else ".", color=colour, ms=5 if newest else 4)
    panels[-1].set_xlim(0.15, 1.9)
    panels[-1].set_xlabel("ratio, with its 95 % interval", fontsize=9)
    handles = [axes.plot([], [], "o", color=colour, label=_processor(name))[0] for name, colour in COLOURS.items()]
    handles += axes.plot([], [], "o", color="0.4", ms=5, label="large dot: the latest session")
    handles.append(axes.fill_between([], [], color="#bbbbbb", alpha=0.45, label="the aim"))
    figure.legend(handles=handles, frameon=False, fontsize=8, loc="outside upper left", ncols=4)
    figure.savefig(path, dpi=130, metadata={"Description": data_hash()})


def _processor(name: str) -> str:
    [found] = [row["processor"] for row in _rows("machines") if row["name"] == name]
    return f"{found.partition(',')[0]} ({name})"


def data_hash() -> str:
    """A hash of what the picture shows."""
    return hashlib.sha256(
        b"".join((FOLDER / f"{name}.csv").read_bytes() for name in ("claims", "sessions"))
    ).hexdigest()


def _rows(name: str) -> list[Row]:
    return read_rows(FOLDER / f"{name}.csv")


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n"


if __name__ == "__main__":
    draw()
