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
