"""A question about serving a model that makes images or videos: which GPU makes one in time, and what a thousand cost.

    ask_generation(GenerationQuestion(generator("hf:black-forest-labs/FLUX.1-dev"), Load(...)))

Nothing is measured: each GPU is forecast, one image after the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from whichdevice.apps.questions.serving import most_servers, price_of, rows_named
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.decide.decide import DRAWS
from whichdevice.decide.serving import Load, Server, Serving, decide
from whichdevice.forecast.serving.batches import capacity
from whichdevice.forecast.serving.generators import Generating
from whichdevice.forecast.serving.server import memory_of
from whichdevice.models.diffusion import Diffusion

ENGINE = "diffusers"


@dataclass(frozen=True)
class GenerationQuestion:
    """A model, its load, and what may serve it; steps and size are the authors' where they are None."""

    model: Diffusion
    load: Load
    devices: tuple[str, ...] | None = None
    steps: int | None = None
    size: tuple[int, int] | None = None  # height and width
    prices: Mapping[str, float] = field(default_factory=dict)  # an hour of a device: the user's own
    providers: tuple[str, ...] = ()


def ask_generation(question: GenerationQuestion) -> Serving:
    """Return the answer."""
    model = question.model
    height, width = question.size or (model.height, model.width)
    frames = f", {model.frames} frames" if model.frames > 1 else ""
    title = f"{model.name} · {width} × {height}{frames} · {question.steps or model.steps} steps"
    tried = [Generating(model, row, question.steps, height, width) for row in rows_named(question.devices)]
    servers = [_server(question, one) for one in tried if one.runs]
    without = tuple(one.row.device for one in tried if not one.runs and one.row.kind in ("gpu", "tpu"))
    return decide(title, question.load, servers, 0, without=without)


def _server(question: GenerationQuestion, one: Generating) -> Server:
    row: HardwareRow = one.row
    memory = one.memory()
    weights = sum(size for name, size in memory.items() if name != "values")
    known = Server(
        row.device, 1, row.kind, "bf16", ENGINE, one.tested, one.fits, {"weights": weights, **memory},
        memory_of(row), one.available, price=price_of(row, 1, question.prices, question.providers),
        most_servers=most_servers(row, 1),
    )  # fmt: skip
    if not one.fits:
        return known
    seconds = one.seconds()
    most = capacity({1: seconds}, question.load.ttft, one.slowness(DRAWS))
    return replace(known, max_requests=1, capacity=tuple(map(float, most)), first_token=seconds)
