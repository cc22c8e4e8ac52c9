"""Tests of the fit: part of `make test-all`. The product and its tests know nothing of them."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[2]))  # `fit` is no package that is installed
