"""PyTorch's loop on a GPU against loops written by hand: does Keras, and does this project, cost anything there?

python benchmarks/torch_gpu.py [--batch 1024] [--precision float32] [--pairs 5] [--device gpu]

Prints (1) for each workload how steps run and whether compiled and eager steps lose the same; (2) mnist_cnn against a
bare PyTorch loop, eager and as a CUDA graph, in alternating pairs; (3) matrix products against torch.mm.
"""

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

from backends.scenario import REQUEST, arrays_for, give_weights, without_dropout  # noqa: E402

from whichdevice.backends import backend_class  # noqa: E402
from whichdevice.backends.base import Backend, TrainingLoop  # noqa: E402
from whichdevice.models.loading import workload_class  # noqa: E402
from whichdevice.records.schema import Request  # noqa: E402
from whichdevice.workloads.base import Options  # noqa: E402

WORKLOADS = {
    "mnist_official": None,
    "mnist_cnn": None,
    "fashion_cnn": None,
    "shakespeare_lstm": 100,
    "weather_gru": 336,
}
STEPS = 20
WINDOW = 0.5  # seconds that one side of a pair runs at least


def request_for(chosen: argparse.Namespace, workload: str) -> Request:
    """What a run of this workload would be asked."""
    return Request(
        **{**REQUEST, "backend": "torch", "kind": chosen.device, "device": chosen.device, "workload": workload,
           "module": workload, "precision": chosen.precision, "batch_size": chosen.batch}
    )  # fmt: skip


def training_loop(backend: Backend, name: str, batch: int, dropout: bool) -> tuple[TrainingLoop, np.ndarray]:
    """The backend's own loop on random data, and batches for it."""
    workload = workload_class(name)(Options(batch, backend.request.precision, sequence_length=WORKLOADS[name]))
    model = workload.model() if dropout else without_dropout(workload.model())
    give_weights(model)
    train, validation = workload.splits(arrays_for(name))
    random = np.random.default_rng(1)
    batches = random.integers(0, train.examples, (STEPS, batch), dtype=np.int32)
    return backend.training_loop(workload, model, train, validation), batches


def seconds_a_step(run: Any, steps: int) -> float:
    """Wall time of a step over at least a window; `run(steps)` waits for the device."""
    done, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < WINDOW or not done:
        run(steps)
        done += steps
    return spent / done


def pairs(ours: Any, theirs: Any, steps: int, count: int) -> tuple[float, float, float]:
    """Geometric mean times of a step on both sides, and of their ratio, alternating."""
    ours(steps), theirs(steps)
    times = [(seconds_a_step(ours, steps), seconds_a_step(theirs, steps)) for _ in range(count)]
    mine, other = zip(*times, strict=True)
    return geometric_mean(mine), geometric_mean(other), geometric_mean(a / b for a, b in times)


def same_losses(backend: Backend, batch: int) -> None:
    """Compiled and eager steps of each workload without dropout: largest difference of their losses over 20 steps."""
    for name in WORKLOADS:
        loop, batches = training_loop(backend, name, batch, dropout=False)
        captured = [loop.run(batches[step : step + 1]).loss for step in range(STEPS)]
        way = backend.flags()["steps"]
        loop.reset()
        loop._advance = loop._step  # type: ignore[attr-defined]
        eager = [loop.run(batches[step : step + 1]).loss for step in range(STEPS)]
        difference = np.abs(np.array(captured) - np.array(eager)).max()
        print(f"{name}: steps run as {way}; compiled against eager {difference:.1e}, last loss {captured[-1]:.4f}")


def bare_model(torch: Any) -> Any:
    """mnist_cnn as a PyTorch user writes it."""
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(1, 64, 2, padding="same"), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3),
        nn.Conv2d(64, 32, 2, padding="same"), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3),
        nn.Flatten(), nn.Linear(1568, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10),
    )  # fmt: skip


def bare_loop(torch: Any, chosen: argparse.Namespace, graph: bool) -> Any:
    """A loop by hand over data on the device, with fused Adam; `run(steps)` waits for the sum of the losses."""
    device = "cuda" if chosen.device == "gpu" else "cpu"
    model = bare_model(torch).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), fused=True, capturable=device == "cuda")
    arrays = arrays_for("mnist_cnn")
    images = torch.tensor(arrays["train_images"], device=device)[:, None]
    labels = torch.tensor(arrays["train_labels"], device=device).long()
    index = torch.randint(0, len(images), (STEPS, chosen.batch), device=device)
    static, total = index[0].clone(), torch.zeros((), device=device)
    narrow = {"mixed_bfloat16": torch.bfloat16, "mixed_float16": torch.float16}.get(chosen.precision)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, narrow, enabled=narrow is not None):
            prediction = model(images[static].float() / 255)
            loss = torch.nn.functional.cross_entropy(prediction.float(), labels[static])
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())

    play = captured(torch, step) if graph else step

    def run(steps: int) -> None:
        for number in range(steps):
            static.copy_(index[number % STEPS])
            play()
        assert np.isfinite(float(total))

    return run


def captured(torch: Any, step: Any) -> Any:
    """The step as a CUDA graph, as PyTorch's documentation has it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def against_bare(torch: Any, backend: Backend, chosen: argparse.Namespace) -> None:
    """Ours over theirs: below 1.05 is the aim."""
    loop, batches = training_loop(backend, "mnist_cnn", chosen.batch, dropout=True)

    def ours(steps: int) -> None:
        loop.run(batches[np.arange(steps) % STEPS])

    for graph in [False, True] if chosen.device == "gpu" else [False]:
        mine, bare, ratio = pairs(ours, bare_loop(torch, chosen, graph), 200 if graph else 20, chosen.pairs)
        kind = "bare graph" if graph else "bare eager"
        print(f"mnist_cnn b{chosen.batch}: ours {mine * 1e3:.3f} ms, {kind} {bare * 1e3:.3f} ms, ratio {ratio:.3f}")


def against_mm(torch: Any, backend: Backend, chosen: argparse.Namespace) -> None:
    """Products of our chain against torch.mm into a ready array, for each size."""
    for size in chosen.sizes:
        workload = workload_class("matmul")(Options(size, chosen.precision))
        loop: Any = backend.operation_loop(workload, np.random.default_rng(1))
        a, b = loop._initial, loop._operands["b"]
        out = torch.empty_like(a)

        def theirs(steps: int, a: Any = a, b: Any = b, out: Any = out) -> None:
            for _ in range(steps):
                torch.mm(a, b, out=out)
            float(out[0, 0])

        steps = max(10, min(2000, int(2e14 / workload.flops_per_step)))
        mine, best, ratio = pairs(loop.run, theirs, steps if chosen.device == "gpu" else 3, chosen.pairs)
        rates = [workload.flops_per_step / seconds / 1e12 for seconds in (mine, best)]
        print(f"matmul {size}: ours {rates[0]:.1f} TFLOP/s, torch.mm {rates[1]:.1f} TFLOP/s, time ratio {ratio:.3f}")


def main() -> None:
    """Start the backend as a run does, then each comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--device", choices=["cpu", "gpu"], default="gpu")
    parser.add_argument("--sizes", type=int, nargs="*", default=[512, 2048, 8192, 16384])
    parser.add_argument("--only", choices=["losses", "bare", "mm"], nargs="*", default=["losses", "bare", "mm"])
    chosen = parser.parse_args()
    request = request_for(chosen, "mnist_cnn")
    os.environ.update(backend_class("torch").environment(request, os.cpu_count() or 1))
    backend = backend_class("torch")(request, os.cpu_count() or 1)
    backend.start()
    backend.initialise()
    import torch

    print(f"PyTorch {torch.__version__}, {backend.device()[0] or 'CPU'}, {dict(backend.flags())}, {backend.types()}")
    if "losses" in chosen.only:
        same_losses(backend, chosen.batch)
    if "bare" in chosen.only:
        against_bare(torch, backend, chosen)
    if "mm" in chosen.only:
        against_mm(torch, backend, chosen)


if __name__ == "__main__":
    main()
