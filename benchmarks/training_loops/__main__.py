"""This project's training loop against Keras' `fit` on this host's CPU, in rounds of interleaved processes.

python -m benchmarks.training_loops [--rounds 10] [--batch 1024] [--steps 10] [--turns 5] [--picture PNG] [--ways ...]

A way is "fit" (on arrays, as most people write it), "tuned fit" (as an expert does) or "epoch" (this project's loop),
with what differs from float32 on TensorFlow: "epoch, mixed_bfloat16", "epoch, float32, jax",
"epoch, without GLIBC_TUNABLES" (no huge pages).
Every process builds `mnist_cnn` anew and trains on the same generated images. The processes of a round, one of each
way, stand side by side; one at a time trains a few steps while the others wait, in turns, so that what the host does
meanwhile meets all. A process's number is its seconds over steps. The memory of all ways together is needed.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

import numpy as np

ROOT = Path(__file__).parents[2]
WAYS = ["fit", "fit, mixed_bfloat16", "tuned fit", "tuned fit, mixed_bfloat16", "epoch", "epoch, mixed_bfloat16"]


def interval(logs: np.ndarray) -> tuple[float, float, float]:
    """Geometric mean and 95 % t-interval of paired ratios."""
    from scipy import stats

    half = stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    middle = logs.mean()
    return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))


def one_round(ways: list[str], batch: int, steps: int, turns: int) -> dict[str, float]:
    """A new process of each way, warm; they train in turns, in this order and back. Mean seconds a step of each."""
    from benchmarks.training_loops.process import Trainer

    with ExitStack() as running:
        trainers = {way: running.enter_context(Trainer(way, batch, steps)) for way in ways}
        times: dict[str, list[float]] = {way: [] for way in ways}
        for turn in range(turns):
            for way in ways if turn % 2 == 0 else ways[::-1]:
                times[way].append(trainers[way].step_time())
    return {way: fmean(found) for way, found in times.items()}


def draw(times: dict[str, list[float]], file: Path) -> None:
    """Every process as a dot, pairs joined by a line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    values = 1e3 * np.array(list(times.values()))
    axes.plot(values, color="0.75", linewidth=0.8, zorder=1)
    for place, row in enumerate(values):
        mean = np.exp(np.log(row).mean())
        axes.scatter(np.full(len(row), place), row, s=26, color="#0072B2", zorder=2)
        axes.annotate(f"{mean:.0f}", (place + 0.1, mean), fontsize=11, va="center")
    axes.set_xticks(range(len(times)), [name.replace(", ", "\n") for name in times])
    axes.set_xlim(-0.4, len(times) - 0.5)
    axes.set_ylim(0)
    axes.set_ylabel("step time (ms)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("A dot is a process, a line a round, a number the geometric mean", loc="left", fontsize=11)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)


def main() -> None:
    """Print every step time, and how much quicker the last ways are than each earlier one."""
    sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="processes of each way")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=10, help="timed steps of a process in one turn")
    parser.add_argument("--turns", type=int, default=5, help="of each process")
    parser.add_argument("--ways", nargs="+", default=WAYS)
    parser.add_argument("--picture", type=Path, help="also draw every process")
    asked = parser.parse_args()
    times: dict[str, list[float]] = {way: [] for way in asked.ways}
    for turn in range(asked.rounds):
        ways = asked.ways if turn % 2 == 0 else asked.ways[::-1]
        for way, found in one_round(ways, asked.batch, asked.steps, asked.turns).items():
            times[way].append(found)
            print(f"round {turn + 1}: {way}: {1e3 * found:.0f} ms a step", flush=True)
    for way, found in times.items():
        print(f"{way}: {', '.join(f'{1e3 * each:.0f}' for each in found)} ms a step")
    for place, compared in enumerate(asked.ways):
        for base in asked.ways[:place]:
            middle, low, high = interval(np.log(times[base]) - np.log(times[compared]))
            print(f"{compared} against {base}: {middle:.2f} [{low:.2f}, {high:.2f}] times as quick, n = {asked.rounds}")
    if asked.picture:
        draw(times, asked.picture)


if __name__ == "__main__":
    main()
