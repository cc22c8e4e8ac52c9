"""Trace or count the steps of well-known models anew: scripts/whichdevice/apps/explorer/steps.json.gz.

    PYTHONPATH=scripts:. python -m tools.explorer_steps [NAME ...]     these models, in this order, or all

A maintainer's act of minutes: it needs PyTorch, transformers, and timm for classifiers. A step is counted
as `whichdevice ask` does it. The page is made from the steps by `whichdevice explorer`.
"""

import gzip
import json
import math
import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from fit.traces import step as timm_step
from fit.traces import sums
from tools.explorer_models import MODELS

from whichdevice.apps.explorer.steps import HALF, KEPT_STEPS, LORA, MEMORY_PARTS, MIXED, QLORA, SINGLE
from whichdevice.forecast.count.process import count_step
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.torch.memory import LIGHT, Plan
from whichdevice.forecast.torch.records import step_of
from whichdevice.forecast.tpu import of_trace
from whichdevice.models.hugging_face import known_models
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

PASSES = (1, 4)  # examples of one pass of a language model: what `ask` tries
BATCHES = {"timm": (32, 128, 256), "own": (32, 128, 512)}  # of a step
KERAS = {  # workloads of this project in Keras
    "mnist_official": (128, 1024), "mnist_cnn": (128, 1024), "fashion_cnn": (128, 1024), "weather_gru": (64, 256),
    "shakespeare_lstm": (128, 1024), "decoder": (8, 32), "resnet50 in Keras": (64, 128),
}  # fmt: skip
FORMATS = {
    HALF: "bfloat16", MIXED: "mixed_bfloat16", SINGLE: "tf32", LORA: "mixed_bfloat16", QLORA: "mixed_bfloat16",
}  # fmt: skip
TUNING = {LORA: {"method": "lora"}, QLORA: {"method": "qlora"}}
LARGE, HUGE = 5e8, 1.5e9  # parameters from which on nobody trains in float32, or keeps float32 next to 16 bits
LEFT_OUT = re.compile(  # of the table of hub models: earlier versions of one shape, and models that few train
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
Asked = tuple[str, str, int]  # library, name, and the size of an image


def main() -> None:
    """Trace or count the models that are named, in this order, or all, and write the file after each."""
    kept = json.loads(gzip.decompress(KEPT_STEPS.read_bytes())) if KEPT_STEPS.is_file() else {}
    places = {name: place for place, (_, name, _) in enumerate(wanted())}
    order = sys.argv[1:]
    asked = [model for model in wanted() if not order or model[1] in order]
    asked.sort(key=lambda model: order.index(model[1]) if order else 0)
    for name, steps in _steps(asked):
        kept[name] = steps
        print(name, ", ".join(steps["steps"]), flush=True)
        known = sorted((name for name in kept if name in places), key=lambda name: places[name])
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(kept[name], separators=(',', ':'))}" for name in known)
        KEPT_STEPS.write_bytes(gzip.compress(f"{{\n{lines}\n}}\n".encode(), mtime=0))


def wanted() -> list[Asked]:
    """Return library, name and size of each model, in the page's order."""
    hub = [("hf", name, 0) for name in known_models() if not LEFT_OUT.search(name)]
    return [*(("timm", name, size) for size, names in CLASSIFIERS.items() for name in names.split()), *hub,
            *(("own", name, 0) for name in MODELS), *(("keras", name, 0) for name in KERAS)]  # fmt: skip


def _steps(asked: Iterable[Asked]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each model with its steps: PyTorch's on two processes, then Keras'."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(traced, *model): model[1] for model in asked if model[0] != "keras"}
        for done in as_completed(running):
            if (error := done.exception()) is None:
                yield running[done], done.result()
            else:
                print(f"{running[done]}: {type(error).__name__}: {error}", file=sys.stderr)
    for library, name, _ in asked:
        if library == "keras":
            yield name, counted(name)


def counted(name: str) -> dict[str, Any]:
    """Return a Keras model's steps: the count of each training and batch, which serves all devices."""
    module = name.removesuffix(" in Keras")  # timm has another resnet50
    steps: dict[str, Any] = {}
    for how, precision in ((MIXED, "mixed_bfloat16"), (SINGLE, "float32")):
        for batch in KERAS[name]:
            asked = ProgramRequest(
                device="H100 SXM", workload=name, module=module, precision=precision, batch_size=batch
            )
            steps.setdefault(how, {})[str(batch)] = count_step(asked).model_dump(mode="json")
    workload = Model.read(module)
    return {"library": "keras", "unit": workload.unit, "tokens": workload.recipe.sequence_length, "steps": steps}


def traced(library: str, name: str, size: int) -> dict[str, Any]:
    """Return a model's steps: by training and, of a pass of some examples, `4` or with checkpointing `4c`."""
    warnings.simplefilter("ignore")
    steps: dict[str, Any] = {}
    unit, tokens = "image", None
    for how, precision in FORMATS.items():
        if not _is_usual(library, name, how):
            continue
        try:
            if library == "hf":
                plan, tokens = _hub_plan(name, how, precision)
                unit = "sequence"
            elif library == "timm":
                plan = Plan(timm_step(name, size, "train", precision))
            else:
                plan, unit = Plan(MODELS[name].step(precision)), MODELS[name].unit
            steps[how] = dict(_passes(plan, library))
        except Exception as error:  # a model that takes no adapters, or has no such format
            print(f"{name}, {how}: {type(error).__name__}: {str(error)[:120]}", file=sys.stderr)
    if not steps:
        raise ValueError("no training of it can be traced")
    return {"library": library, "unit": unit, "tokens": tokens, "steps": steps}


def _is_usual(library: str, name: str, how: str) -> bool:
    """Whether people train such a model so: adapters are for language models, float32 is not for large ones."""
    if library != "hf":
        return how in (MIXED, SINGLE)
    known = known_models()[name]
    largest = {SINGLE: LARGE, MIXED: HUGE}.get(how, math.inf)
    return (known.parameters or 0) < largest and (how != HALF or known.in_bfloat16)


def _hub_plan(name: str, how: str, precision: str) -> tuple[Plan, int | None]:
    chosen = Model.read(f"hf:{name}")
    given = TUNING.get(how, {})
    workload: Any = chosen.workload(Options(8, precision, 1.0, chosen.recipe.sequence_length, given=given))
    step = step_of(workload, workload.number_format(precision), "train")
    return Plan(step, copies=workload.copies), workload.length


def _passes(plan: Plan, library: str) -> Iterator[tuple[str, Any]]:
    is_hub = library == "hf"
    for changes in ((), (LIGHT,))[: 1 + is_hub]:
        for size in PASSES if is_hub else BATCHES[library]:
            step = plan.trace(size, changes)
            memory = [_short(step.memory[part]) for part in MEMORY_PARTS if part in step.memory]
            yield f"{size}{'c' * bool(changes)}", [sums(step.work), memory, sums(of_trace(step.fused))]


def _short(value: float) -> float:
    return float(f"{value:.6g}")


if __name__ == "__main__":
    main()
