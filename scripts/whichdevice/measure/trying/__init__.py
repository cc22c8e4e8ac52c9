"""Tries a workload file before a study does: a few steps on every backend, in processes of their own."""
