"""Beside neighbour.py."""

WIDTH = 3
