"""A test set that nobody fits: published trainings of MLPerf, AMD, Megatron and fine-tuning, next to their forecasts.

    python -m fit.test_set             # the table of docs/results/test-set.md, from the committed traces
    python -m fit.test_set --rebuild   # trace the steps anew

No row is in the fit or in a choice of the model. `compared` says how: `level` where the product describes the step;
`ratio` where only cards can be compared with each other, as the code is tuned by hand, is in FP8, or shares a layer
over GPUs: the nearest thing to forecast is a compiled step, without the host. What cannot be described has its reason.
Rates are of one GPU.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fit.fitting import DATA, Row
from fit.validation import Forecasts
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.time_model import Peaks, StepTime, forecast_step
from whichdevice.forecast.work import Item, Software, Work
from whichdevice.study.tables.base import read_rows

TABLE = DATA / "test_set.csv"
DIGESTS = DATA / "test_set.json"
PAGE = Path(__file__).parents[1] / "docs" / "results" / "test-set.md"
REFERENCE = "H200 SXM"  # whose time the others' are divided by


@dataclass(frozen=True)
class Line:
    """One published training."""

    id: str
    source_group: str
    source: str
    device: str
    gpus: str
    program: str
    precision: str
    batch: str
    examples_per_s: str
    compared: str
    reason: str
    notes: str

    @property
    def seconds(self) -> float:
        """An example, on one GPU."""
        return 1 / float(self.examples_per_s)


@dataclass(frozen=True)
class Scored:
    """A published training next to its forecast: seconds an example."""

    line: Line
    work: Work
    step: StepTime

    @property
    def forecast(self) -> float:
        """Seconds an example; without the host where only cards are compared."""
        seconds = self.step.device_time if self.line.compared == "ratio" else self.step.seconds
        return seconds / float(self.line.batch)

    @property
    def ratio(self) -> float:
        """Published over forecast."""
        return self.line.seconds / self.forecast

    @property
    def inside(self) -> bool:
        """Whether the published time is inside of the 80 % interval."""
        return self.step.low <= self.line.seconds * float(self.line.batch) <= self.step.high


def lines(path: Path = TABLE) -> list[Line]:
    """Every line of the table."""
    return [Line(**row) for row in read_rows(path)]


@cache
def programs() -> Mapping[str, Mapping[str, Any]]:
    """Traced steps by name: examples, and the work by software."""
    return dict(json.loads(DIGESTS.read_text(encoding="utf-8")))


def work_of(line: Line) -> Work:
    """The work of its step, operation by operation or, where only cards are compared, compiled."""
    program = programs()[line.program]
    software: Software = "torch.compile" if line.compared == "ratio" else "eager"
    times = float(line.batch) / program["size"]
    items = (
        Item(kind, precision, operations * times / count, nbytes * times / count, count, None, *devices)
        for kind, precision, operations, nbytes, count, *devices in program[software]
    )
    return Work("gpu", tuple(items), software=software)


def write_digests() -> None:
    """Trace the steps, and write one line a step; those that are there stay, unless all are traced anew."""
    known = {} if "--rebuild" in sys.argv or not DIGESTS.is_file() else dict(programs())
    names = sorted({line.program for line in lines() if line.compared})
    found = {name: known.get(name) or traced(name) for name in names}
    rows = (f'  "{name}": {json.dumps(its, separators=(",", ":"))}' for name, its in found.items())
    DIGESTS.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    programs.cache_clear()


def traced(program: str) -> dict[str, Any]:
    """Examples and work of a step: of a language model `model, method, n x length[, checkpointing][, words]`."""
    from fit.language_models import language_model_trace
    from fit.traces import sums
    from whichdevice.models.tuning import Tuning

    print(program, flush=True)
    if program in OTHERS:
        from whichdevice.forecast.torch.trace import trace_step

        size, step = OTHERS[program]()
        trace = trace_step(step, size)
    else:
        model, method, shape, *more = program.split(", ")
        size, length = map(int, shape.split(" x "))
        words = next((int(each.split()[0]) for each in more if each.endswith("words")), None)
        tuning = Tuning(method, 16, "all", 0.0, "checkpointing" in more)  # type: ignore[arg-type]
        trace = language_model_trace(model, tuning, size, length, False, words)
    return {"size": size, "eager": sums(trace.work), "torch.compile": sums(trace.fused)}


def _bert() -> tuple[int, Any]:
    """BERT large with fused attention, and the scores of 76 masked words of each sequence."""
    import torch
    from transformers import BertConfig, BertForMaskedLM

    from whichdevice.forecast.torch.trace import Step

    sizes = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}

    def loss(module: Any, words: Any) -> Any:
        hidden = module.bert(words).last_hidden_state[:, :76]
        return torch.nn.functional.cross_entropy(module.cls(hidden).flatten(0, 1), words[:, :76].flatten())

    return 48, Step(
        lambda: BertForMaskedLM(BertConfig(**sizes)),
        lambda n: torch.zeros(n, 512, dtype=torch.long),
        loss,
        lambda module: torch.optim.AdamW(module.parameters()),
        "mixed_bfloat16",
    )


def _resnet() -> tuple[int, Any]:
    import torch
    from transformers import ResNetConfig, ResNetForImageClassification

    from whichdevice.forecast.torch.trace import Step

    return 128, Step(
        lambda: ResNetForImageClassification(ResNetConfig(num_labels=1000)),
        lambda n: (torch.zeros(n, 3, 224, 224), torch.zeros(n, dtype=torch.long)),
        lambda module, batch: torch.nn.functional.cross_entropy(module(batch[0]).logits, batch[1]),
        lambda module: torch.optim.SGD(module.parameters(), 0.1, momentum=0.9),
        "mixed_bfloat16",
    )


def _u_net() -> tuple[int, Any]:
    from tools.explorer_models import MODELS

    return 16, MODELS[U_NET].step("mixed_bfloat16")


U_NET = "diffusion U-Net, 64 x 64 latents"
OTHERS = {"BERT large, 48 x 512": _bert, "ResNet-50, 224 x 224": _resnet, U_NET: _u_net}


def scored() -> list[Scored]:
    """The forecast of every line that can be described."""
    sheet = hardware_rows()
    return [
        Scored(line, work, forecast_step(work, sheet[line.device]))
        for line in lines()
        if line.compared
        for work in [work_of(line)]
    ]


def ratios(found: list[Scored]) -> Iterator[tuple[Scored, float, float]]:
    """Each line of MLPerf with how many times as long it takes as on REFERENCE: published, forecast."""
    base = {its.line.program: its for its in found if its.line.device == REFERENCE}
    for its in found:
        other = base.get(its.line.program)
        if its.line.source_group == "mlperf" and other is not None and other is not its:
            yield its, its.line.seconds / other.line.seconds, its.forecast / other.forecast


def as_forecasts(found: list[Scored]) -> Forecasts:
    """The lines in the form that decisions are scored in."""
    sheet = hardware_rows()
    rows = tuple(
        Row(
            its.line.source_group, its.line.device, its.line.seconds, 1.0, its.line.program, its.line.program,
            "train", its.work, Peaks.of(sheet[its.line.device]),
        )
        for its in found
    )  # fmt: skip
    columns = ([getattr(its.step, name) for its in found] for name in ("log_sd_shared", "log_sd_own"))
    host = ([getattr(its.step, name) for its in found] for name in ("host_time", "host_log_sd"))
    return Forecasts(rows, np.log([its.ratio for its in found]), *map(np.array, columns), *map(np.array, host))


def report() -> str:
    """The page: levels, ratios over REFERENCE, and what cannot be described."""
    found = scored()
    levels = [its for its in found if its.line.compared == "level"]
    over = list(ratios(found))
    errors = sorted(abs(np.log(forecast / published)) for _, published, forecast in over)
    off = median(max(its.ratio, 1 / its.ratio) - 1 for its in levels)
    inside = sum(its.inside for its in levels)
    text = [
        "<!-- Generated by `make forecasts` -->",
        "",
        "# A test set that nobody fits",
        "",
        "Published trainings of which no row is in the fit, or in any choice of the model. `make forecasts` writes",
        "this page last; `fit/data/test_set.csv` has every line with its source.",
        "",
        "## Times",
        "",
        f"{len(levels)} published times of fine-tuning: the median error is {100 * off:.0f} %, and {inside} of "
        f"{len(levels)} are inside of the stated 80 % interval.",
        "",
        *_table(
            ["published by", "device", "step", "ms an example", "forecast", "published / forecast", "inside"],
            (
                [
                    its.line.source_group, its.line.device, its.line.program, f"{1e3 * its.line.seconds:.4g}",
                    f"{1e3 * its.forecast:.4g}", f"{its.ratio:.2f}", "yes" if its.inside else "no",
                ]
                for its in levels
            ),
        ),
        "",
        f"## MLPerf: times over an {REFERENCE}'s",
        "",
        "Code tuned by hand, much of it in FP8: only cards are compared, by forecasts in 16 bits. The worst of "
        f"{len(over)} ratios is off by × / ÷ {np.exp(errors[-1]):.2f}, the median by "
        f"{100 * np.expm1(median(errors)):.0f} %.",
        "",
        *_table(
            ["device", "step", "published", "forecast", "forecast / published"],
            (
                [its.line.device, its.line.program, f"{true:.2f}", f"{ours:.2f}", f"{ours / true:.2f}"]
                for its, true, ours in over
            ),
        ),
        "",
        "## What cannot be described",
        "",
        *_table(
            ["published by", "what", "devices", "why"],
            (
                [group, program, ", ".join(devices), reason]
                for (group, program, reason), devices in _not_described().items()
            ),
        ),
    ]  # fmt: skip
    return "\n".join(text) + "\n"


def _not_described() -> dict[tuple[str, str, str], list[str]]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for line in lines():
        if not line.compared:
            devices = found.setdefault((line.source_group, line.program, line.reason), [])
            devices += [line.device] if line.device not in devices else []
    return found


def _table(head: list[str], rows: Iterator[list[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *(f"| {' | '.join(row)} |" for row in rows)]


def main() -> None:
    """Write the page, and print it."""
    write_digests()
    text = report()
    PAGE.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
