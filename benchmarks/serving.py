"""Whether a service loses or changes anything: all test images served beside offline, many requests of many clients.

    python benchmarks/serving.py [--requests 10000] [--clients 32]

The model is mnist_cnn with initial weights, the images are stand-in digits. Prints the largest difference over 10,000
images; then requests answered and lost, and latency beside a bare call and a bare round trip of the same run.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from whichdevice.datasets.standin.digits import draw_digits
from whichdevice.host.affinity import usable_cores
from whichdevice.measuring.serving_run import called, latencies
from whichdevice.serving.application import BARE, Limits, application
from whichdevice.serving.exported import start_tensorflow
from whichdevice.serving.load_process import LoadProcess, load_process
from whichdevice.serving.saved_model import ServedModel, write_saved_model
from whichdevice.serving.server import background_server
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Options

IMAGES, PART = 10_000, 100
PREDICT = "/v1/models/mnist_cnn:predict"


def main() -> int:
    """Print what was found; 1 where anything was lost or differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load with one client")
    arguments = parser.parse_args()
    os.environ["KERAS_BACKEND"] = "tensorflow"
    start_tensorflow()
    workload = workload_class("mnist_cnn")(Options(1))
    images = draw_digits(1, {"train": 1, "test": IMAGES})["test_images"]
    with tempfile.TemporaryDirectory() as scratch:
        write_saved_model(workload, workload.model(), Path(scratch) / "1")
        loaded = ServedModel(Path(scratch) / "1")
        body = Path(scratch) / "body.json"
        body.write_text(json.dumps({"instances": images[:1].tolist()}), encoding="utf-8")
        limits = Limits(workers=usable_cores())
        with background_server(application({"mnist_cnn": loaded}, limits)) as port, load_process(port) as process:
            different = compare(port, loaded, images)
            lost = flood(process, body, arguments)
            show_latency(process, loaded, body, images[:1], arguments.seconds)
    return int(bool(different or lost))


def compare(port: int, loaded: Any, images: np.ndarray) -> int:
    """How many images are predicted otherwise over HTTP."""
    import httpx

    different, largest = 0, 0.0
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        for start in range(0, len(images), PART):
            part = images[start : start + PART]
            answer = client.post(PREDICT, json={"instances": part.tolist()}).raise_for_status().json()
            served, offline = np.array(answer["predictions"], np.float32), loaded.predict(part)
            different += int((served != offline).any(axis=1).sum())
            largest = max(largest, float(np.abs(served - offline).max()))
    print(f"{len(images)} test images served: {different} differ from offline, by at most {largest:.3g}")
    return different


def flood(process: LoadProcess, body: Path, arguments: argparse.Namespace) -> int:
    """How many of many requests were not answered."""
    began = time.perf_counter()
    answers = process.load(PREDICT, body, clients=arguments.clients, requests=arguments.requests)
    lost = arguments.requests - len(answers.latencies)
    found = latencies(arguments.clients, answers.latencies, answers.seconds)
    print(
        f"{arguments.requests} requests from {arguments.clients} clients in {time.perf_counter() - began:.1f} s: "
        f"{lost} lost; median {found.p50 * 1e3:.2f} ms, 99th percentile {found.p99 * 1e3:.2f} ms, "
        f"longest {found.longest * 1e3:.1f} ms{f' ({answers.reason})' if lost else ''}"
    )
    return lost


def show_latency(process: LoadProcess, loaded: Any, body: Path, image: np.ndarray, seconds: float) -> None:
    """Median latency of one image from one client, and what it is made of."""
    bare_call = called(lambda: loaded.predict(image), seconds)
    rows = {"a bare call of the model": bare_call}
    for name, path in {"a bare HTTP round trip": BARE, "a served prediction": PREDICT}.items():
        process.load(path, body, clients=1, seconds=seconds / 4)
        answers = process.load(path, body, clients=1, seconds=seconds)
        rows[name] = latencies(1, answers.latencies, answers.seconds)
    for name, row in rows.items():
        print(f"{name}: median {row.p50 * 1e3:.3f} ms, 99th percentile {row.p99 * 1e3:.3f} ms, n = {row.requests}")


if __name__ == "__main__":
    sys.exit(main())
