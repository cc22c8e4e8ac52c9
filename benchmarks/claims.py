"""Every claim of docs/results/index.md about a machine, measured in one run: `python benchmarks/claims.py [name ...]`.

About three hours on two cores (an estimate: 2 h 17 min on an AMD EPYC before several parts took longer), with nothing
else running; each part prints its ratios and can be run by itself: peak, overhead, learning, intervals, tables,
honesty.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLAIMS = {
    "peak": (
        "matmul of the instruction set's own loop: float32 at least 0.95, bfloat16 at least 0.85; reported / timed by "
        "hand within 2 %",
        ["benchmarks/peak.py", "--rounds", "12", "--sizes", "1024,2048,4096,6144"],
    ),
    "overhead": (
        "reported step time / a bare loop on the same model: within 2 %",
        ["benchmarks/harness_overhead.py", "--processes", "6", "--pairs", "60", "--seconds", "0.5", "--batch", "64"],
    ),
    "learning": (
        "final accuracy of every backend - that of its reference: within 0.3 points",
        ["-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "-m", "long", "tests/backends/test_same_accuracy.py"],
    ),
    "intervals": (
        "synthetic timings: intervals hold the truth in 93 to 97 % of 2,000 trials",
        ["benchmarks/simulated_studies.py"],
    ),
    "tables": ("10,000 records in 10 s", ["benchmarks/tables.py", "10000", "--tables"]),
    "honesty": (
        "false alarms of a family at most 5 %, half width at most 5 %, a planted 10 % found in at least 80 %, runs "
        "beside a load flagged",
        ["benchmarks/noise_floor.py", "--blocks", "24", "--patience", "15"],
    ),
}


def main(names: list[str]) -> None:
    """Run the parts asked for, all of them without names; a part that fails does not stop the others."""
    if unknown := set(names) - CLAIMS.keys():
        raise SystemExit(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(CLAIMS)}")
    failed = []
    for name in names or CLAIMS:
        goal, command = CLAIMS[name]
        print(f"\n== {name}: {goal}\n   python {' '.join(command)}", flush=True)
        if subprocess.run([sys.executable, *command], cwd=ROOT).returncode:
            failed.append(name)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
