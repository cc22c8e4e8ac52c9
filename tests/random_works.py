"""Random pieces of work and wishes, for what holds of every answer."""

import random
from dataclasses import replace

from whichdevice.base.sheets.machines import Cores
from whichdevice.decide import Wants
from whichdevice.decide.decide import Amount
from whichdevice.decide.energy import Power
from whichdevice.decide.rows import DOES_NOT_FIT, FORECAST, MEASURED, UNKNOWN, AskedWork, Price, Row
from whichdevice.forecast.lived import Habits
from whichdevice.forecast.time_model import chip_of
from whichdevice.models.script.found import Evaluation

CARDS = ("T4", "L4", "A10G", "RTX 4090", "L40S", "A100 SXM 80GB", "H100 SXM", "H200 SXM", "TPU v5e")

EVALUATIONS = (Evaluation(7, 79, 200, 1), Evaluation(9, 10, 50, 1000, "step", 0.5, loads=False))  # of a script


def random_row(chance: random.Random, card: str) -> Row:
    """A device of a clear or unclear time, with or without a price, host, session or pause; some have no room."""
    fits = chance.random()
    step = None if fits < 0.15 else 10 ** chance.uniform(-3, -0.5)
    row = Row(
        card, chance.choice(["gpu", "gpu", "tpu"]), FORECAST if step else DOES_NOT_FIT if fits < 0.12 else UNKNOWN,
        rented=True, cores=Cores(chance.uniform(2, 64), 2, 64, chance.choice([0.0, 0.5])), chip=chip_of(card),
        target=card, needs_port=chance.random() < 0.1,
        software=chance.choice(["xla", "eager"]), precision="mixed_float16", step_time=step, kernels=1000.0,
        price=Price("on_demand", "Cloud"),
        device_time=step and step * chance.uniform(0.8, 1.0), log_sd_shared=chance.uniform(0, 0.5),
        log_sd_own=chance.uniform(0.01, 0.4), fits=fits >= 0.12, rough=chance.random() < 0.15,
        memory_needed=chance.choice([4e6, chance.uniform(1e9, 80e9)]),
        memory_available=chance.uniform(10e9, 80e9), memory_whole=chance.choice([None, 81e9]),
        memory_tight=chance.random() < 0.2, reason=chance.choice(["", "", "no forecast of such a step"]),
        usd_per_hour=chance.choice([None, 0.0, chance.uniform(0.1, 12), chance.uniform(0.1, 12)]),
        usd_log_sd_shared=chance.choice([0.0, 0.4]), usd_log_sd_own=chance.uniform(0.0, 0.4),
        start_time=chance.choice([0.0, 420.0]),
        start_log_sd=chance.choice([0.0, 0.4]),
        power=None if chance.random() < 0.1 else Power(chance.uniform(50, 700), 99.0, chance.random() / 3, "forecast"),
    )  # fmt: skip
    if chance.random() < 0.4 and step:
        row = replace(row, host_time=step * chance.uniform(0.2, 1.5), host_log_sd=chance.uniform(0, 0.4))
    if row.usd_per_hour == 0.0:
        row = replace(row, price=Price("free", "Cloud"), session_hours=12.0, week_hours=chance.choice([None, 30.0]))
    if row.usd_per_hour is None:
        row = replace(row, price=Price("unknown"))
    return row


def random_work(chance: random.Random) -> AskedWork:
    """Rows of some cards, of spot machines of them, and of this machine."""
    rows = [random_row(chance, card) for card in chance.sample(CARDS, chance.randint(1, len(CARDS)))]
    rows += [replace(row, price=Price("spot", "Cloud"), usd_per_hour=chance.uniform(0.05, 3)) for row in rows
             if chance.random() < 0.3]  # fmt: skip
    if chance.random() < 0.7:
        step = None if chance.random() < 0.1 else 10 ** chance.uniform(-2, 0.5)
        rows.insert(0, Row(
            "this machine", "cpu", MEASURED if step else UNKNOWN, step_time=step, usd_per_hour=0.03, chip="here",
            price=Price("electricity", watts=100.0), log_sd_own=0.02, precision="float32", fits=True,
        ))  # fmt: skip
    return AskedWork(
        "net", "net.py", chance.choice(["train", "train", "operation"]), 100, None, "image", 100.0, None, None,
        tuple(rows), pipeline_rate=chance.choice([None, chance.uniform(1e3, 1e5)]), pipeline_workers=2,
        pipeline_core_rate=chance.choice([0.0, 2e3]), written_rate=chance.choice([None, 1e3]), written_workers=1,
        lived=chance.choice([None, None, Habits(1.4, -0.2, 0.2, 0.3, 1, 1)]),
        between=chance.choice([0.0, 0.0, 0.002]), decodes=chance.random() < 0.5,
        evaluations=EVALUATIONS, script_batch=100, script_examples=10_000,
    )  # fmt: skip


def random_wants(chance: random.Random) -> tuple[Wants, Amount]:
    units = round(10 ** chance.uniform(4, 10))
    return Wants(
        by=chance.choice(["cost", "cost", "time"]), deadline=chance.choice([1, 6, 24, 240]) * 3600.0,
        only_free=chance.random() < 0.2, spot=chance.random() < 0.3, port=chance.random() < 0.5,
        prices={card: chance.uniform(0.1, 12) for card in CARDS if chance.random() < 0.1},
    ), Amount(units)  # fmt: skip
