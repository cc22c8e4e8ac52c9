"""Table `fastest`: for each piece of work the fastest settings of every device, compared.

Table `cost_choices` defines a piece of work, and how settings are chosen and judged; here time is the cost.
"""

import pandas as pd

from whichdevice.tables.base import Column, Sources, table
from whichdevice.tables.cost_choices import COLUMNS as COST_COLUMNS
from whichdevice.tables.cost_choices import LESS, MORE, choices
from whichdevice.tables.costs import MILLION
from whichdevice.tables.measured import at_common_share, measured_values, without_rehearsals

SECONDS = "seconds_per_million"

COLUMNS: dict[str, Column] = COST_COLUMNS | {
    "quantity": Column("text", f"{SECONDS}; all rows are one family"),
    "value": Column("float", "s of steady state per million units, geometric mean over processes"),
    "ratio": Column("float", "time of this device / the lowest, above 1 is slower; geometric mean of paired repeats"),
    "verdict": Column("text", f"{MORE} or {LESS} time than the lowest, same within 5 % or undecided, by the one rule"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return fastest_table(sources.studied)


def fastest_table(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for every piece of work and device that measured it, at the largest share of the data most of them did."""
    good = at_common_share(without_rehearsals(measured_values(runs)))
    parts = list(choices(good.assign(value=MILLION / good["throughput"]), SECONDS))
    return table(pd.concat(parts, ignore_index=True) if parts else [], COLUMNS)
