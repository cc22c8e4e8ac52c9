"""Start-up of a measured process: importing TensorFlow and Keras as a run does, against the plain import.

python benchmarks/start_up.py [PAIRS] prints pairs of processes and the ratio of their geometric means.
"""

import subprocess
import sys
import time
from pathlib import Path
from statistics import geometric_mean

SCRIPTS = Path(__file__).parents[1] / "scripts"
PLAIN = "import keras, tensorflow"
QUICK = f"""
import sys; sys.path.insert(0, {str(SCRIPTS)!r})
from whichdevice.processes import quick_imports
with quick_imports():
    import keras, tensorflow
"""


def seconds(code: str) -> float:
    """Wall time of a process that runs the code."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Alternate the two, after one of each to fill the file cache."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    seconds(PLAIN), seconds(QUICK)
    plain, quick = zip(*((seconds(PLAIN), seconds(QUICK)) for _ in range(pairs)), strict=True)
    for name, times in (("plain", plain), ("quick", quick)):
        print(f"{name}: {geometric_mean(times):.2f} s  ({', '.join(f'{value:.2f}' for value in times)})")
    print(f"quick / plain: {geometric_mean(quick) / geometric_mean(plain):.2f} over {pairs} pairs")


if __name__ == "__main__":
    main()
