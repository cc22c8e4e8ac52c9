"""Built-in workloads: one file a workload; base.py says what a workload is."""
