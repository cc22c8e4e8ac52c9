"""Forecasts against published times: rebuilds programs, fits, evaluates, writes the page of results and its figure."""
