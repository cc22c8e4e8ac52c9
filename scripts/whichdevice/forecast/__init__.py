"""Forecasts for GPUs and TPUs without them: the work of a step, by a count or a trace, and how long it takes."""
