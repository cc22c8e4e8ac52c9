"""Forecasts for GPUs and TPUs without them: the program that a device's own compiler makes, and how long it takes."""
