"""Measure deep-learning workloads on CPUs, GPUs and TPUs and tell which device to use."""

__version__ = "0.1.0"
