"""`benchmarks` and `fit` are no part of the package and not installed: they are imported from the repository's root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
