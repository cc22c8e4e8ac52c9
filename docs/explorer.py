"""The explorer: one page that answers for well-known models on every device of the sheet, with nothing to install.

    python docs/explorer.py page [PAGE]      the page, from traced steps, constants and prices: `make explorer`
    python docs/explorer.py trace [NAME ...] the steps themselves, docs/explorer_steps.json.gz; needs PyTorch,
                                             transformers, and timm for classifiers; minutes

A step is traced as `whichdevice ask` does it. The page carries, for each choice of model, training and batch, the device
time of each GPU with its spreads and memory; explorer.js draws step times from them as forecast/joint.py does, and
report/live.js decides.
"""

import argparse
import gzip
import json
import math
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
STEPS = DOCS / "explorer_steps.json.gz"
PASSES = (1, 4)  # examples of one pass of a language model: what `ask` tries
BATCHES = {"hf": (1, 8, 32, 128), "timm": (32, 128, 256), "own": (32, 128, 512)}  # of a step
MIXED, SINGLE = "mixed 16 bits", "TF32 or float32"
LORA, QLORA = "LoRA", "QLoRA (4-bit weights)"
FORMATS = {MIXED: "mixed_bfloat16", SINGLE: "tf32", LORA: "mixed_bfloat16", QLORA: "mixed_bfloat16"}
TUNING = {LORA: {"method": "lora"}, QLORA: {"method": "qlora"}}
LARGE = 2e9  # parameters from which on nobody trains in float32
PARTS = ("weights", "gradients", "optimizer", "working", "peak", "activations")
# timm's names of models that many people train, with the size of an image.
CLASSIFIERS = {
    224: "resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d wide_resnet50_2 seresnet50 densenet121 "
    "densenet201 vgg11 vgg16 vgg19_bn mobilenetv2_100 mobilenetv3_large_100 mobilenetv3_small_100 efficientnet_b0 "
    "regnetx_032 regnety_032 regnety_160 convnext_tiny convnext_base convnext_large convnextv2_tiny hrnet_w32 ghostnet_100 "
    "swin_tiny_patch4_window7_224 swin_base_patch4_window7_224 deit_small_patch16_224 deit3_base_patch16_224 "
    "beit_base_patch16_224 mixer_b16_224 vit_small_patch16_224 vit_base_patch16_224 vit_large_patch16_224",
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

    hub = [("hf", name, 0) for name in known_models() if not name.startswith("llm-foundry")]
    return [*hub, *(("timm", name, size) for size, names in CLASSIFIERS.items() for name in names.split()),
            *(("own", name, 0) for name in MODELS)]  # fmt: skip


def trace(names: Iterable[str] = ()) -> None:
    """Trace the models that are named, or all, on two processes, and write the file after each."""
    held = read_steps() if STEPS.is_file() else {}
    todo = [each for each in wanted() if not names or each[1] in names]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(traced, *each): each for each in todo}
        for done in as_completed(running):
            library, name, _ = running[done]
            try:
                held[name] = done.result()
            except Exception as error:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
                continue
            print(name, ", ".join(held[name]["steps"]), flush=True)
            order = {each[1]: place for place, each in enumerate(wanted())}
            kept = dict(sorted(((k, v) for k, v in held.items() if k in order), key=lambda pair: order[pair[0]]))
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in kept.items())
            STEPS.write_bytes(gzip.compress(f"{{\n{lines}\n}}\n".encode(), mtime=0))


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
    return how != SINGLE or (known_models()[name].parameters or 0) < LARGE


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


if __name__ == "__main__":
    main()
