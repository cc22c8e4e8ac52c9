"""Made-up records of prediction services: latencies that follow from batch size and clients by a simple rule."""

import numpy as np

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Study, Workload
from whichdevice.records.facts import WorkloadFacts
from whichdevice.records.schema import Record
from whichdevice.records.timings import Latencies, Serving, Steady

CLIENTS = [1, 4, 16]


def serving_study(devices: tuple[str, ...] = ("cpu",), repeats: int = 3) -> Study:
    """One service with three sizes of request on devices named by their kinds."""
    return Study(
        study="served",
        devices={name: Device(kind=name) for name in devices},
        measure=Measure(repeats=repeats),
        workloads={
            "serve_mnist_cnn": Workload(module="serve", model="mnist_cnn", batch_size=[1, 8, 64], clients=CLIENTS)
        },
    )


def with_serving(run: Run, record: Record) -> Record:
    """The record as one of a service; to be given to `synthetic.write_study` as `change`."""
    size = run.cell.batch_size
    random = np.random.default_rng([run.repeat, size])
    call = (0.0008 + 0.00005 * size) * float(np.exp(random.normal(0, 0.02)))
    bare = (0.0004 + 0.000002 * size) * float(np.exp(random.normal(0, 0.02)))
    loads = [_latencies(clients, (call + bare) * max(1.0, clients / 2)) for clients in CLIENTS]
    record.workload = WorkloadFacts(unit="prediction", input_shape=[size, 28, 28], flops_per_step=1.4e7 * size)
    rate = loads[-1].requests / loads[-1].seconds
    record.steady = Steady(
        windows=[(100, 100 / rate)], steps=100, seconds=100 / rate, step_time=1 / rate, throughput=size * rate
    )
    record.serving = Serving(
        model="mnist_cnn",
        weights="initial ones",
        request_bytes=3_600 * size,
        response_bytes=220 * size,
        workers=2,
        bare_call=_latencies(1, call),
        bare_http=_latencies(1, bare),
        loads=loads,
    )
    return record


def _latencies(clients: int, p50: float) -> Latencies:
    return Latencies(
        clients=clients,
        requests=1000,
        seconds=1000 * p50 / clients,
        mean=1.05 * p50,
        p50=p50,
        p90=1.2 * p50,
        p99=1.8 * p50,
        longest=3 * p50,
    )
