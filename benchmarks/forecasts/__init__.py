"""Forecasts against published times: rebuilds programs, fits, evaluates, writes docs/forecasts.md and its figure."""
