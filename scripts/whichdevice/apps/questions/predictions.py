"""A question about serving a model that predicts: how many requests a second each device answers in time, in batches.

The steps are those of `--mode predict` at several batches: measured here, forecast elsewhere. Where ONNX Runtime is
installed, the exported model is timed on it here, too, and counts: `exported` has its steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from whichdevice.apps.questions.serving import most_servers
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.decide import Answer, draws
from whichdevice.decide.rows import Row
from whichdevice.decide.serving import Load, Price, Server, Serving, decide
from whichdevice.forecast.serving.batches import capacity
from whichdevice.measure.trying.exported import ENGINE

TIMED_BATCHES = (1, 64)  # that are forecast and measured; a step of a batch between them is between theirs


def serve_predictions(
    model: str, load: Load, answers: Sequence[Answer], exported: Mapping[int, float] | None = None
) -> Serving:
    """Return the decision from the answers for the same model at several batches."""
    by_device: dict[str, dict[int, Row]] = {}
    for answer in answers:
        for option in answer.options:
            row = option.row
            if row.price.kind not in ("free", "spot") and not row.needs_port:  # which nobody serves with
                by_device.setdefault(row.card, {})[answer.work.batch] = row
    servers = [_server(rows, load, exported or {}) for rows in by_device.values()]
    return decide(model, load, servers, 0)


def _server(rows: Mapping[int, Row], load: Load, exported: Mapping[int, float]) -> Server:
    """One device, from its row at each batch."""
    largest = max(rows)
    row = rows[largest]
    needed = {"weights": row.memory_needed or 0.0}
    price = None
    if row.usd_per_hour is not None:
        low, high = row.usd_per_hour_low, row.usd_per_hour_high
        price = Price(
            row.usd_per_hour, low or 0.0, high or 0.0, row.price.source, provider=row.price.provider,
            lowest=row.price.lowest or row.usd_per_hour, providers=row.price.providers,
        )  # fmt: skip
    steps = {batch: one.step_time for batch, one in rows.items() if one.step_time and one.fits is not False}
    if exported and steps and row.is_here:
        steps = dict(exported)
    engine = ENGINE if exported and row.is_here else row.software
    device = None if row.is_here else hardware_rows().get(row.market)
    known = Server(
        row.card, 1, row.kind, "", engine, row.tested, False, needed, row.memory or 0.0, row.memory_available or 0.0,
        price=price, here=row.is_here, most_servers=most_servers(device, row.devices),
    )  # fmt: skip
    if not steps:
        return known
    last = max((one for one in rows.values() if one.step_time), key=lambda one: one.step_time or 0.0)
    slow = draws([last])[0] / (last.step_time or 1.0)
    most = capacity(steps, load.ttft, np.asarray(slow))
    return replace(
        known, fits=True, max_requests=max(steps), capacity=tuple(map(float, most)), first_token=steps[min(steps)]
    )
