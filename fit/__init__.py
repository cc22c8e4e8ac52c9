"""Forecasts against published times: rebuilds programs, fits, evaluates, writes the page of results and its figure."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of small matrices: more threads wait for each other
