"""How near each framework comes to what this processor can do, and whether the reported number is a true one.

python benchmarks/peak.py [--backends tensorflow,jax,torch] [--rounds 5] [--seconds 0.5] [--sizes 1024,2048,4096]

An independent C program (benchmarks/peak/fma_loop.c, compiled here with -O3 -march=native) gives the limits: fused
multiply-adds that never leave the registers, products of bfloat16 by the processor's own instructions, a pass over
memory. Each is run in turn with the framework's matrix product or memory stream, so that drift cancels. The number that
a record of four times the seconds reports is compared with the framework's bare loop, written without this package,
window by window in turn. Ratios are geometric means over rounds with 95 % t-intervals. Linux or macOS with a C
compiler; about eight minutes (an estimate; 14 with 12 rounds).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "benchmarks" / "peak" / "fma_loop.c"
WORDS = {
    ("peak", "float32"): "matmul / FMA loop of float32 (goal: >= 0.95)",
    ("peak", "bfloat16"): "matmul / AVX512_BF16 loop (goal where AMX is not used: >= 0.85)",
    ("peak", "amx_bfloat16"): "matmul / AMX loop (goal where it is: >= 0.85)",
    ("hand", None): "reported / timed by hand (goal: 0.98 to 1.02)",
    ("stream", None): "memory_stream / C stream",
}
NAMES = {"bfloat16": "AVX512_BF16", "amx_bfloat16": "AMX_BF16", "float32": "FMA"}


def main() -> int:
    """Print every ratio; exit status 2 where nothing can be compared."""
    sys.path.insert(0, str(ROOT / "scripts"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", default="tensorflow,jax,torch")
    parser.add_argument("--precisions", default="float32,bfloat16")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement")
    parser.add_argument("--sizes", default="1024,2048,4096", help="N of the products; the best one is compared")
    parser.add_argument("--mebibytes", type=int, default=512, help="of each array of the memory stream")
    asked = parser.parse_args()
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        print("skipped: no C compiler (gcc or cc) on this machine; install one and run this again")
        return 2
    settings = {
        "seconds": asked.seconds,
        "rounds": asked.rounds,
        "sizes": [int(size) for size in asked.sizes.split(",")],
        "mebibytes": asked.mebibytes,
    }
    with tempfile.TemporaryDirectory() as folder:
        loop = Path(folder) / "fma_loop"
        command = [compiler, "-O3", "-march=native", "-pthread", str(SOURCE), "-o", str(loop)]
        print(" ".join([Path(compiler).name, *command[1:4], SOURCE.name]))
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode:
            print(f"skipped: {SOURCE.name} does not compile here: {built.stderr.strip().splitlines()[0]}")
            return 2
        for backend in asked.backends.split(","):
            if find_spec(backend) is None:
                print(f"{backend}: not installed here")
                continue
            for precision in asked.precisions.split(","):
                compare(backend, precision, loop, settings)
    return 0


def compare(backend: str, precision: str, loop: Path, settings: dict) -> None:
    """Run one backend in one format beside the C loops and print what it tells."""
    worker = ROOT / "benchmarks" / "peak" / "framework.py"
    command = [sys.executable, str(worker), backend, precision, str(loop), json.dumps(settings)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{backend} {precision}: ended with status {done.returncode}: {last}")
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    print(f"\n{backend} {precision}")
    for line in told:
        if line["what"] == "best":
            print("  " + ", ".join(f"N {size}: {rate / 1e9:.4g} GFLOP/s" for size, rate in line["rates"].items()))
        elif line["what"] == "none":
            print(f"  no {NAMES[line['kind']]} instructions on this processor")
    for (what, kind), words in WORDS.items():
        rows = [line for line in told if line["what"] == what and line.get("kind") == kind]
        if rows:
            print(f"  {words}: {ratio(rows)}")


def ratio(rows: list[dict]) -> str:
    """Geometric mean of measured / limit with its interval, and of both apart."""
    from whichdevice.study.tables.decision_rule import geometric

    frame = pd.DataFrame(rows)
    frame["ratio"] = frame["measured"] / frame["limit"]
    one = pd.Series(0, frame.index)
    means = {name: geometric(frame[name], one).iloc[0] for name in ("ratio", "measured", "limit")}
    unit = "GB/s" if rows[0]["what"] == "stream" else "GFLOP/s"
    size = f"{'MiB' if unit == 'GB/s' else 'N'} {rows[0]['size']}"
    middle = means["ratio"]
    return (
        f"{middle['mean']:.3f} [{middle['low']:.3f}, {middle['high']:.3f}]  "
        f"({means['measured']['mean'] / 1e9:.4g} / {means['limit']['mean'] / 1e9:.4g} {unit}, {size}, n = {len(rows)})"
    )


if __name__ == "__main__":
    sys.exit(main())
