"""The explorer: one page that answers for well-known models on every device of the sheet, in one file.

    python docs/explorer.py page [PAGE]      the page, from traced steps, constants and prices: `make explorer`
    python docs/explorer.py trace [NAME ...] the steps themselves, docs/explorer_steps.json.gz; needs PyTorch,
                                             transformers, timm for classifiers, and XLA for Keras models; minutes

A step is traced or compiled as `whichdevice ask` does it. The page carries, for each choice of model, training and
batch, the device time of each GPU with its spreads and memory; explorer.js draws step times from them as
forecast/joint.py does, and report/live.js decides.
"""

import argparse
import gzip
import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from whichdevice.answer import Answer, Row, Wants, words
from whichdevice.answer.decide import DRAWS, amount_of, decide
from whichdevice.answer.rows import works
from whichdevice.config.hardware import HardwareRow, hardware_rows
from whichdevice.files import write_atomically
from whichdevice.forecast.joint import draws
from whichdevice.forecast.study import usual_precision
from whichdevice.forecast.targets import Target, all_targets, program_device
from whichdevice.forecast.time_model import chip_of
from whichdevice.forecast.torch.memory import RESERVE, SPREAD, is_tight, need
from whichdevice.forecast.torch.several import way_that_fits
from whichdevice.forecast.work import Item, Software, Work
from whichdevice.forecast.xla.compile import MARGIN, compile_programs
from whichdevice.forecast.xla.device_memory import RESERVE as RESERVED
from whichdevice.records.products import CompiledRecord, CompileFacts, ProgramRequest
from whichdevice.report.live import live_data
from whichdevice.report.page import HERE as REPORT
from whichdevice.report.page import Script, in_script, live_script
from whichdevice.report.verdict import answer_parts
from whichdevice.tables.base import table
from whichdevice.tables.costs import COSTS_COLUMNS
from whichdevice.tables.forecasts import table_of_records
from whichdevice.tables.summary import SUMMARY_COLUMNS

DOCS = Path(__file__).resolve().parent
STEPS = DOCS / "explorer_steps.json.gz"
PASSES = (1, 4)  # examples of one pass of a language model: what `ask` tries
BATCHES = {"hf": (1, 8, 32, 128), "timm": (32, 128, 256), "own": (32, 128, 512)}  # of a step
KERAS = {  # workloads of this project in Keras, whose steps XLA compiles
    "mnist_official": (128, 1024), "mnist_cnn": (128, 1024), "fashion_cnn": (128, 1024), "weather_gru": (64, 256),
    "shakespeare_lstm": (128, 1024), "decoder": (8, 32), "resnet50 in Keras": (64, 128),
}  # fmt: skip
MIXED, HALF, SINGLE = "mixed 16 bits", "16-bit weights", "TF32 or float32"
LORA, QLORA = "LoRA", "QLoRA (4-bit weights)"
FORMATS = {
    HALF: "bfloat16", MIXED: "mixed_bfloat16", SINGLE: "tf32", LORA: "mixed_bfloat16", QLORA: "mixed_bfloat16",
}  # fmt: skip
TUNING = {LORA: {"method": "lora"}, QLORA: {"method": "qlora"}}
LARGE, HUGE = 5e8, 1.5e9  # parameters from which on nobody trains in float32, or keeps float32 beside 16 bits
PARTS = ("weights", "gradients", "optimizer", "working", "peak", "activations")
LEFT_OUT = re.compile(  # of config/llm_models.csv: earlier versions of one shape, and models that few train
    r"llm-foundry|405B|8x22B|Llama-2-[17]|CodeLlama|Llama-3-|Mistral-7B-v0.1|Qwen2-|gemma-2b|gemma-7b|phi-1_5|neox|pythia-[126]"
    r"|opt-[136]|mpt|falcon-40b|stablelm|roberta-large"
)
# timm's names of models that many people train, with the size of an image.
CLASSIFIERS = {
    224: "resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d wide_resnet50_2 seresnet50 densenet121 "
    "densenet201 vgg11 vgg16 vgg19_bn mobilenetv2_100 mobilenetv3_large_100 mobilenetv3_small_100 efficientnet_b0 "
    "regnetx_032 regnety_032 regnety_160 convnext_tiny convnext_base convnext_large convnextv2_tiny hrnet_w32 "
    "ghostnet_100 swin_tiny_patch4_window7_224 swin_base_patch4_window7_224 deit_small_patch16_224 "
    "deit3_base_patch16_224 beit_base_patch16_224 mixer_b16_224 vit_small_patch16_224 vit_base_patch16_224 "
    "vit_large_patch16_224 resnext101_32x4d convnext_small regnety_080 hrnet_w18 vgg13 dla60 dpn68 poolformer_s24 "
    "res2net50_26w_4s maxvit_tiny_tf_224 tinynet_a efficientnet_b1",
    256: "efficientnet_b2 darknet53 cspdarknet53",
    299: "inception_v3 xception41",
    320: "efficientnet_b4",
}  # fmt: skip


def main() -> None:
    """Trace the steps, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("page").add_argument("page", type=Path, nargs="?", default=DOCS / "_build" / "explorer.html")
    commands.add_parser("trace").add_argument("name", nargs="*", help="only these models")
    arguments = parser.parse_args()
    if arguments.command == "trace":
        trace(arguments.name)
        return
    arguments.page.parent.mkdir(parents=True, exist_ok=True)
    write_page(arguments.page)
    print(f"{arguments.page}: {arguments.page.stat().st_size / 1e6:.2f} MB")


# Traces.


def wanted() -> list[tuple[str, str, int]]:
    """Library, name and size of each model."""
    from explorer_models import MODELS

    from whichdevice.models.hugging_face import known_models

    hub = [("hf", name, 0) for name in known_models() if not LEFT_OUT.search(name)]
    return [*(("timm", name, size) for size, names in CLASSIFIERS.items() for name in names.split()), *hub,
            *(("own", name, 0) for name in MODELS), *(("keras", name, 0) for name in KERAS)]  # fmt: skip


def trace(names: Iterable[str] = ()) -> None:
    """Trace or compile the models that are named, in this order, or all, and write the file after each."""
    held = read_steps() if STEPS.is_file() else {}
    places = {each[1]: place for place, each in enumerate(wanted())}
    order = list(names)
    todo = [each for each in wanted() if not order or each[1] in order]
    todo.sort(key=lambda each: order.index(each[1]) if order else 0)
    for name, model in found(todo):
        held[name] = model
        print(name, ", ".join(model["steps"]), flush=True)
        kept = dict(sorted(((k, v) for k, v in held.items() if k in places), key=lambda pair: places[pair[0]]))
        lines = ",\n".join(
            f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in kept.items()
        )
        STEPS.write_bytes(gzip.compress(f"{{\n{lines}\n}}\n".encode(), mtime=0))


def found(todo: Iterable[tuple[str, str, int]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each model with its steps: those of PyTorch on two processes, then those that XLA compiles on two."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(traced, *each): each[1] for each in todo if each[0] != "keras"}
        for done in as_completed(running):
            if (error := done.exception()) is None:
                yield running[done], done.result()
            else:
                print(f"{running[done]}: {type(error).__name__}: {error}", file=sys.stderr)
    for library, name, _ in todo:
        if library == "keras":
            yield name, compiled(name)


def compiled(name: str) -> dict[str, Any]:
    """A Keras model's steps: by training, batch and the GPU of each architecture whose program it is."""
    from whichdevice.models.loading import workload_class

    asked = [(how, request) for how in (MIXED, SINGLE) for batch in KERAS[name] for target in _of_programs()
             if (request := _program(name, how, batch, target)) is not None]  # fmt: skip
    found: dict[str, Any] = {}
    for (how, request), made in zip(asked, compile_programs([each for _, each in asked], waits=False), strict=True):
        if made.work is None or made.facts is None:
            print(f"{name}, {how}, {request.device}: {made.reason}", file=sys.stderr)
            continue
        of_batch = found.setdefault(how, {}).setdefault(str(request.batch_size), {})
        needed, bound = _short(made.facts.memory_needed or 0.0), made.facts.memory_is_lower_bound
        of_batch[request.device] = [sums(Work.from_dict(made.work)), needed, bound]
    chosen: Any = workload_class(_module(name))
    return {"library": "keras", "unit": chosen.unit, "tokens": chosen.recipe.sequence_length, "steps": found}


def _module(name: str) -> str:
    """The workload of a name: timm has another resnet50."""
    return name.removesuffix(" in Keras")


def _of_programs() -> list[Target]:
    """The GPU of each architecture that its programs are made for."""
    targets = (each for each in all_targets(1, "xla") if each.row.compiler == "cuda")
    return [target for target in targets if program_device(target) == target.device]


def _program(name: str, how: str, batch: int, target: Target) -> ProgramRequest | None:
    precision = usual_precision(target, "single" if how == SINGLE else "mixed")
    if target.refusal(precision):
        return None
    return ProgramRequest(
        device=target.device, workload=name, module=_module(name), precision=precision, batch_size=batch
    )


def traced(library: str, name: str, size: int) -> dict[str, Any]:
    """A model's steps: by training and, of a pass of so many examples, `4` or with checkpointing `4c`."""
    import warnings

    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    ways = [(how, each) for how, each in FORMATS.items() if _usual(library, name, how)]
    unit, tokens = "image", None
    for how, precision in ways:
        try:
            if library == "hf":
                plan, tokens = _of_hugging_face(name, how, precision)
                unit = "sequence"
            else:
                plan, unit = _of_own(library, name, size, precision)
            found[how] = dict(_passes(plan, library))
        except Exception as error:  # of a model that takes no adapters, or has no such format
            print(f"{name}, {how}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
    if not found:
        raise ValueError("no training of it can be traced")
    return {"library": library, "unit": unit, "tokens": tokens, "steps": found}


def _usual(library: str, name: str, how: str) -> bool:
    """Whether people train such a model so: adapters are for language models, float32 is not for large ones."""
    from whichdevice.models.hugging_face import known_models

    if library != "hf":
        return how in (MIXED, SINGLE)
    known = known_models()[name]
    most = {SINGLE: LARGE, MIXED: HUGE}.get(how, math.inf)
    return (known.parameters or 0) < most and (how != HALF or known.in_bfloat16)


def _of_hugging_face(name: str, how: str, precision: str) -> tuple[Any, int | None]:
    from whichdevice.forecast.torch.memory import Plan
    from whichdevice.forecast.torch.records import step_of
    from whichdevice.models.loading import workload_class
    from whichdevice.workloads.base import Options

    chosen: Any = workload_class(f"hf:{name}")
    workload = chosen(Options(8, precision, 1.0, chosen.recipe.sequence_length, given=TUNING.get(how, {})))
    return Plan(step_of(workload, workload.number_format(precision), "train")), workload.length


def _of_own(library: str, name: str, size: int, precision: str) -> tuple[Any, str]:
    from whichdevice.forecast.torch.memory import Plan

    if library == "timm":
        from benchmarks.forecasts.traces import step

        return Plan(step(name, size, "train", precision)), "image"
    from explorer_models import MODELS

    return Plan(MODELS[name].step(precision)), MODELS[name].unit


def _passes(plan: Any, library: str) -> Iterable[tuple[str, Any]]:
    from whichdevice.forecast.torch.memory import LIGHT

    sizes = PASSES if library == "hf" else BATCHES[library]
    for light in ((), (LIGHT,))[: 1 + (library == "hf")]:
        for size in sizes:
            step = plan.trace(size, light)
            yield f"{size}{'c' * bool(light)}", [sums(step.work), [_short(step.memory[part]) for part in PARTS]]


def sums(work: Any) -> list[list[Any]]:
    """Operations, bytes and kernels by kind and precision; a forecast is a sum over them."""
    found: dict[tuple[str, str], list[float]] = {}
    for item in work.items:
        its = found.setdefault((item.kind, item.precision if item.operations else ""), [0.0, 0.0, 0.0])
        for place, value in enumerate((item.operations, item.bytes, 1.0)):
            its[place] += value * item.count
    return [[*key, _short(its[0]), _short(its[1]), round(its[2])] for key, its in found.items()]


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def read_steps() -> dict[str, Any]:
    """The traced steps by model."""
    return dict(json.loads(gzip.decompress(STEPS.read_bytes())))


# The page.

CODES = "".join(map(chr, [*range(35, 92), *range(93, 127)]))  # letters of a number: neither quotes nor a backslash
SCALE = 100_000  # of logarithms and spreads, as whole numbers
LETTERS = 17  # of a device: which need, its mark, device's and step's time, spreads, which host's time
MARKS = "ftnFTN"  # fits, tight, does not fit; in capitals where the time is rough


@dataclass(frozen=True)
class Kept:
    """A trace as the file has it."""

    work: Work
    fused: Work
    memory: dict[str, float]


def write_page(page: Path, names: Iterable[str] = ()) -> None:
    """Write the page for these models, or all: the default choice as Python answers it, the others as numbers."""
    known = hardware_rows()
    targets = all_targets(1, "eager")
    all_devices = dict.fromkeys(target.device for target in targets)
    models: list[dict[str, Any]] = []
    rows: dict[str, dict[str, Any]] = {}
    noted: dict[str, int] = {}
    first = None
    steps = {name: model for name, model in read_steps().items() if not names or name in (*names, DEFAULT[0])}
    for name, model in steps.items():
        choices: dict[str, Any] = {}
        for how, batch in ((how, batch) for how in model["steps"] for batch in batches(name, model)):
            answer = decided(name, model, how, batch, targets, known)
            live = live_data(answer)
            for row in live["rows"]:
                rows.setdefault(row["device"], {key: row[key] for key in STATIC})
            choices.setdefault(how, {})[batch] = _packed(answer, list(all_devices))
            choices[how][batch].append([noted.setdefault(line, len(noted)) for line in words.lasting_notes(answer)])
            title = live["title"].rpartition(" · ")[2]
            choices[how]["format"] = title
            if first is None and (name, how, batch) == DEFAULT:
                first = answer
        group = GROUPS[model["library"]]
        models.append({
            "name": name, "group": group, "unit": model["unit"], "tokens": model["tokens"], "choices": choices,
            "software": software_of(model),
        })  # fmt: skip
    assert first is not None
    devices = sorted(rows)
    shown = answer_parts(first)
    shown["head"] = [*shown["head"][:3], "whole training", *shown["head"][4:]]
    data = {
        "common": {key: value for key, value in live_data(first).items() if key != "rows"} | {"head": shown["head"]},
        "devices": [rows[device] for device in devices],
        "draws": _draws(targets),
        "order": list(all_devices), "letters": LETTERS, "codes": CODES, "scale": SCALE, "marks": MARKS,
        "notes": list(noted), "models": models,
    }  # fmt: skip
    text = _environment().get_template("explorer.html.jinja").render(
        style=(REPORT / "style.css").read_text(encoding="utf-8"), live=live_script(),
        own=Script((DOCS / "explorer.js").read_text(encoding="utf-8")), answer=shown, data=data,
        models=models, total=len(read_steps()), default=DEFAULT, dates=_dates(known.values()),
        batches=sorted({size for sizes in [*BATCHES.values(), *KERAS.values()] for size in sizes}), ways=list(FORMATS),
    )  # fmt: skip
    write_atomically(text, page)


DEFAULT = ("resnet50", MIXED, 128)
GROUPS = {
    "hf": "Language, text and speech (Hugging Face)", "timm": "Images: classifiers (timm)", "own": "Others",
    "keras": "In Keras, compiled by XLA: workloads of WhichDevice",
}  # fmt: skip
STATIC = ("device", "is_here", "usd_per_hour", "provider", "start_time", "session_hours", "week_hours", "spot",
          "prompts", "memory", "use", "power", "rate", "waits")  # fmt: skip


def batches(name: str, model: Mapping[str, Any]) -> tuple[int, ...]:
    """Examples of a step that a model is asked about with."""
    return KERAS[name] if model["library"] == "keras" else BATCHES[model["library"]]


def software_of(model: Mapping[str, Any]) -> Software:
    """What runs a model's step."""
    return "xla" if model["library"] == "keras" else "eager"


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader([DOCS, REPORT]), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["in_script"] = in_script
    return environment


def decided(
    name: str, model: Mapping[str, Any], how: str, batch: int, targets: Iterable[Target],
    sheet: Mapping[str, HardwareRow], wants: Wants | None = None,
) -> Answer:  # fmt: skip
    """The answer that `ask NAME --no-measuring` has on a typical host, for every device that the choice exists on."""
    records = [each for target in targets if (each := record(name, model, how, batch, target)) is not None]
    frame = table_of_records(records, sheet)
    empty = (table([], SUMMARY_COLUMNS), table([], COSTS_COLUMNS))
    [work] = works(*empty, frame, {}, sheet)
    work = replace(work, sequence_length=model["tokens"], unit=model["unit"])
    wants = wants or Wants(examples=amount_of(work, Wants()).units)
    answer = decide(work, wants, amount_of(work, wants))
    return replace(answer, words=tuple(words.lines(answer)))


def record(name: str, model: Mapping[str, Any], how: str, batch: int, target: Target) -> CompiledRecord | None:
    """The record of a step on a device, as `ask` makes it of a trace or a program; None: there is no such one."""
    return (_of_program if model["library"] == "keras" else _of_trace)(name, model, how, batch, target)


def _of_program(name: str, model: Mapping[str, Any], how: str, batch: int, target: Target) -> CompiledRecord | None:
    """From the program of its architecture. One that misses the memory by little may fit when compiled for the card."""
    asked = None if target.row.compiler != "cuda" else _program(name, how, batch, target)
    kept = model["steps"][how][str(batch)].get(program_device(target))
    if asked is None or kept is None:
        return None
    needed, available = kept[1], target.memory - RESERVED
    missing = needed - available
    facts = CompileFacts(
        memory=target.memory, memory_available=available, memory_needed=needed, memory_is_lower_bound=kept[2],
        memory_missing=missing if missing > 0 else None,
        memory_tight=asked.device != program_device(target) and 0 < missing <= MARGIN * available,
        unit=model["unit"], units_per_step=float(batch),
    )  # fmt: skip
    status, work = "ok" if missing <= 0 else "does_not_fit", Work("gpu", _items(kept[0])).digest()
    return CompiledRecord(asked=asked, status=status, reason="", facts=facts, work=work, code_hash="")


def _of_trace(name: str, model: Mapping[str, Any], how: str, batch: int, target: Target) -> CompiledRecord | None:
    precision = usual_precision(target, "single" if how == SINGLE else "mixed")
    traced_as = SINGLE if how == MIXED and precision == "float32" else how
    if how == HALF and precision != "mixed_bfloat16":
        traced_as = MIXED
    elif how in (*TUNING, HALF) and precision == "mixed_bfloat16":  # as `ask` takes a large decoder where a GPU has it
        precision = "bfloat16"
    steps = model["steps"].get(traced_as)
    if steps is None or (how in (*TUNING, HALF) and precision == "float32") or target.refusal(precision, "eager"):
        return None
    available = target.memory - RESERVE

    def traced(size: int, ways: tuple[str, ...]) -> Any:
        return _kept(*steps[f"{size}{'c' * bool(ways)}"])

    def fits(trace: Any) -> bool:
        return need(trace) <= available * (1 - SPREAD)

    trace = way_that_fits(traced, batch, 1, fits, tunable=model["library"] == "hf").trace
    needed, work, gradients = need(trace), trace.work, trace.memory["gradients"]
    if precision == "mixed_float16" and gradients:
        work = replace(work, items=(*work.items, Item("optimizer", "float32", 0.0, 2 * gradients, 1)))
    facts = CompileFacts(
        evidence="traced", memory=target.memory, memory_available=available, memory_needed=needed,
        memory_missing=needed - available if needed > available else None, memory_tight=is_tight(needed, available),
        memory_parts=dict(trace.memory), kernels=work.kernels, unit=model["unit"], units_per_step=float(batch),
    )  # fmt: skip
    asked = ProgramRequest(
        device=target.device, workload=name.rpartition("/")[2], module=name, precision=precision, batch_size=batch
    )
    status = "ok" if needed <= available else "does_not_fit"
    return CompiledRecord(asked=asked, status=status, reason="", facts=facts, work=work.digest(), code_hash="")


def _kept(items: list[list[Any]], memory: list[float]) -> Kept:
    work = Work("gpu", _items(items), software="eager")
    return Kept(work, work, dict(zip(PARTS, memory, strict=True)))


def _items(items: list[list[Any]]) -> tuple[Item, ...]:
    return tuple(Item(kind, precision, operations / count, nbytes / count, count)
                 for kind, precision, operations, nbytes, count in items)  # fmt: skip


def _packed(answer: Answer, devices: Iterable[str]) -> list[Any]:
    """Times, spreads and memory of these devices, in LETTERS letters each; the host's time; bytes that are needed."""
    rows = {row.device.partition(", ")[0]: row for row in answer.work.rows}
    needs = sorted({row.memory_needed or 0.0 for row in rows.values()})
    hosts = sorted({(row.host_time or 1e-9, row.host_log_sd) for row in rows.values()})  # a step's way decides it
    texts = "".join(_letters(rows[device], needs, hosts) if device in rows else " " * LETTERS for device in devices)
    return [texts, hosts, [float(f"{each:.4g}") for each in needs]]


def _letters(row: Row, needs: list[float], hosts: list[tuple[float, float]]) -> str:
    mark = 2 if row.fits is False and not row.memory_tight else 1 if row.memory_tight else 0
    memory = _number(needs.index(row.memory_needed or 0.0), 1) + MARKS[mark + 3 * row.rough]
    if not row.step_time or not row.device_time:
        return memory.ljust(LETTERS)
    numbers = [(math.log(row.device_time * 1e9), 4), (math.log(row.step_time * 1e9), 4)]
    numbers += [(row.log_sd_shared, 3), (row.log_sd_own, 3)]
    letters = "".join(_number(round(value * SCALE), size) for value, size in numbers)
    return memory + letters + _number(hosts.index((row.host_time or 1e-9, row.host_log_sd)), 1)


def _number(value: int, letters: int) -> str:
    text = ""
    for _ in range(letters):
        value, rest = divmod(value, len(CODES))
        text = CODES[rest] + text
    assert not value
    return text


def _draws(targets: Iterable[Target]) -> dict[str, Any]:
    """The normal numbers that all step times are drawn from: their values once, and for each part their order."""
    half = DRAWS // 2
    chips = {target.device: chip_of(target.device) for target in targets}

    def normal(software: Software, part: str, chip: str = "") -> np.ndarray:
        row = {"device_time": 1.0, "log_sd_shared": 0.0, "log_sd_own": 0.0, "software": software, "chip": chip}
        if part == "host":
            row |= {"device_time": 1e-30, "host_time": 1.0, "host_log_sd": 1.0}
        else:
            row[f"log_sd_{part}"] = 1.0
        return np.asarray(np.log(draws([row], DRAWS)[0, :half]))

    def order(values: np.ndarray) -> str:
        return "".join(_number(int(rank), 2) for rank in np.argsort(np.argsort(values)))

    def orders(software: Software) -> dict[str, Any]:
        own = {chip: order(normal(software, "own", chip)) for chip in dict.fromkeys(chips.values())}
        return {"shared": order(normal(software, "shared")), "host": order(normal(software, "host")), "chips": own}

    values = [round(float(each), 9) for each in np.sort(normal("eager", "shared"))]
    return {"values": values, "of": chips, "eager": orders("eager"), "xla": orders("xla")}


def _dates(rows: Iterable[HardwareRow]) -> str:
    days = sorted(str(offer.date) for row in rows for offer in row.offers)
    return f"Prices: the oldest is of {days[0]}, the newest of {days[-1]}."


if __name__ == "__main__":
    main()
