"""The words for what tells one row's work from another's, alike wherever a row is told."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

CUT = "time budget"  # what ended learning: train.seconds


def length_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """The length of its sequences: one word group, none for work without sequences."""
    return [] if pd.isna(row["sequence_length"]) else [f"length {row['sequence_length']}"]


def share_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """The share of the data it trains on: one word group, none for all of them."""
    return [] if row["fraction"] == 1 else [f"{row['fraction'] * 100:.3g} % of data"]


def repeats_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """How many of a cell's repeats its numbers are of: a word group where some failed, one where some were not run."""
    failed = [f"{row['n_ok']} of {row['n_recorded']} ok"] if row["n_ok"] < row["n_recorded"] else []
    return failed + ([f"{row['n_recorded']} of {row['n']} measured"] if row["n_recorded"] < row["n"] else [])


def diverged_words(row: "pd.Series | Mapping[str, Any]") -> list[str]:
    """How many of the runs that learned diverged: one word group, none where none did."""
    count = row["n_diverged"]
    return [f"{count} of {row['n_learned']} diverged"] if pd.notna(count) and count else []


def epochs_words(row: "pd.Series | Mapping[str, Any]") -> str:
    """How many epochs the runs of a cell learned, with the fewest where they differ, and whether time ended them."""
    return epochs_text(row["fewest_epochs"], row["learned_epochs"], bool(row["n_cut"]))


def run_epochs_words(run: "pd.Series | Mapping[str, Any]") -> str:
    """How many epochs one run learned, and whether time ended it."""
    return epochs_text(run["learned_epochs"], run["learned_epochs"], bool(pd.notna(run["cut"]) and run["cut"]))


def epochs_text(fewest: float, most: float, cut: bool) -> str:
    """Return `3 epochs`, `12 to 18 epochs`, or `0.62 epochs (time budget)` where train.seconds ended learning."""
    few, many = (f"{count:.0f}" if count % 1 == 0 else f"{count:.3g}" for count in (fewest, most))
    span = many if few == many else f"{few} to {many}"
    return f"{span} epoch{'' if span == '1' else 's'}" + f" ({CUT})" * cut


def device_name(row: pd.Series) -> str:
    """`T4`, `8 × T4`, or a TPU with its slice."""
    if pd.notna(row["slice"]):
        return f"{row['device']} ({row['slice']})"
    return str(row["device"]) if row["devices"] == 1 else f"{row['devices']} × {row['device']}"
