"""Datasets: what each holds, where it comes from, and its prepared form. Knows no device and no framework."""
