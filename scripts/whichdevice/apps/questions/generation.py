"""A question about serving a model that makes images or videos: which GPU makes one in time, and what a thousand cost.

    ask_generation(generator("hf:black-forest-labs/FLUX.1-dev"), Load(None, 0, 1, 30.0, 30.0, "image"))

Nothing is measured: each GPU is forecast, one image after the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from whichdevice.apps.questions.serving import most_servers, price_of, rows_named
from whichdevice.decide.decide import DRAWS
from whichdevice.decide.rows import DOES_NOT_FIT, FORECAST
from whichdevice.decide.serving import ServerRow, Serving, decide
from whichdevice.forecast.serving.forecast import Load
from whichdevice.forecast.serving.generators import Generating, capacity
from whichdevice.forecast.serving.server import memory_of
from whichdevice.models.diffusion import Diffusion

ENGINE = "diffusers"


def ask_generation(
    model: Diffusion, load: Load, devices: Sequence[str] | None = None, prices: Mapping[str, float] = {}
) -> Serving:
    """Return the answer for these devices, or for common ones; `prices` are the user's own for an hour of a device."""
    frames = f", {model.frames} frames" if model.frames > 1 else ""
    title = f"{model.name} · {model.width} × {model.height}{frames} · {model.steps} steps"
    tried = [Generating(model, row) for row in rows_named(devices)]
    servers = [_row(one, load, prices) for one in tried if one.runs]
    without = tuple(one.row.device for one in tried if not one.runs and one.row.kind in ("gpu", "tpu"))
    return decide(title, load, servers, without)


def _row(one: Generating, load: Load, prices: Mapping[str, float]) -> ServerRow:
    row, memory = one.row, one.memory()
    weights = sum(size for name, size in memory.items() if name != "values")
    server = ServerRow(
        row.device, row.kind, FORECAST if one.fits else DOES_NOT_FIT, ENGINE, "bf16", tested=one.tested, fits=one.fits,
        memory_available=one.available, memory_whole=memory_of(row), memory_parts={"weights": weights, **memory},
        rented=True, most_servers=most_servers(row, 1), **vars(price_of(row, 1, prices)),
    )  # fmt: skip
    if not one.fits:
        return server
    seconds = one.seconds()
    most = capacity(seconds, load.ttft, one.slowness(DRAWS))
    return replace(server, max_requests=1, capacity=tuple(map(float, most)), first_token=seconds)
