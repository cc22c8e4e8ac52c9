"""Figures, drawn from the tables with Matplotlib; each is one file of this folder."""

from whichdevice.figures.registry import draw, figure_facts, figure_names

__all__ = ["draw", "figure_facts", "figure_names"]
