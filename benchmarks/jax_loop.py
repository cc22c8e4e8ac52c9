"""JAX on this host's CPU: one compiled step a call against many steps in one compiled loop, in alternating pairs.

python benchmarks/jax_loop.py [WORKLOAD] [BATCH]
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
PAIRS, STEPS = 4, 32


def main() -> None:
    """Print step times of both and their ratio."""
    sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="?", default="mnist_cnn")
    parser.add_argument("batch", nargs="?", type=int, default=32)
    asked = parser.parse_args()
    os.environ |= {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    import jax
    from backends.scenario import arrays_for

    from whichdevice.backends.keras_on_jax import JaxTraining
    from whichdevice.models.loading import workload_class
    from whichdevice.workloads.base import Options

    workload = workload_class(asked.workload)(Options(asked.batch))
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("replica",))
    train, validation = workload.splits(arrays_for(asked.workload))
    batches = workload.order(train.examples, 1).take(STEPS)
    loops = {}
    for name, many in (("one step a call", False), ("one loop", True)):
        model = workload.model()
        model.optimizer = workload.optimizer()
        model.optimizer.build(model.trainable_variables)
        loops[name] = JaxTraining(jax, mesh, workload, model, train, validation, many)
        loops[name].run(batches)  # compiles
    times: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(PAIRS):
        for name, loop in loops.items():
            began = time.perf_counter()
            loop.run(batches)
            times[name].append((time.perf_counter() - began) / STEPS)
    for name, taken in times.items():
        print(f"{name}: {', '.join(f'{each * 1e3:.1f}' for each in taken)} ms a step")
    first, second = times.values()
    print(
        f"loop / one step a call: {np.exp(np.mean(np.log(np.array(second) / np.array(first)))):.2f} over {PAIRS} pairs"
    )


if __name__ == "__main__":
    main()
