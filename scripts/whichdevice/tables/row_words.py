"""The words for what tells one row's work from another's, alike wherever a row is told."""

from collections.abc import Mapping
from typing import Any

import pandas as pd


def length_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """The length of its sequences: one word group, none for work without sequences."""
    return [] if pd.isna(row["sequence_length"]) else [f"length {row['sequence_length']}"]


def share_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """The share of the data it trains on: one word group, none for all of them."""
    return [] if row["fraction"] == 1 else [f"{row['fraction'] * 100:.3g} % of data"]


def repeats_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """How many of a cell's repeats its numbers are of: one word group, none where all ended well."""
    return [] if row["n_ok"] >= row["n"] else [f"{row['n_ok']} of {row['n']} ok"]


def epochs_words(row: "pd.Series | Mapping[str, Any]") -> str:
    """How many epochs its runs learned, with the fewest where they differ: `3 epochs`, `12 to 18 epochs`."""
    fewest, most = int(row["fewest_epochs"]), int(row["learned_epochs"])
    told = f"{most}" if fewest == most else f"{fewest} to {most}"
    return f"{told} epoch{'s' if most > 1 else ''}"
