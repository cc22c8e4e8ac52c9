"""Seconds of `snakemake -n` for a study of 1,000 runs: python benchmarks/dry_run.py [RUNS]."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Print the time of three dry runs."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    study = {
        "study": "dry_run_benchmark",
        "data": {"source": "standin"},
        "measure": {"repeats": 1},
        "workloads": {"mnist_cnn": {"batch_size": list(range(1, runs + 1))}},
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(study, file)
        file.flush()
        command = [sys.executable, "-m", "snakemake", "-n", "--cores", "1", "all", "--configfile", file.name]
        for _ in range(3):
            began = time.perf_counter()
            subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
            print(f"snakemake -n, {runs} runs: {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
