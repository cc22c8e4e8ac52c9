"""Grams of CO2 of a kilowatt-hour of the grid, by region of a cloud: config/grids.csv, with year and source.

Values are of a whole year, by location: what a provider buys in certificates does not count.
"""

import math
import statistics
from dataclasses import dataclass
from functools import cache

from whichdevice.base.files import CONFIG, csv_rows

GRIDS = CONFIG / "grids.csv"
REGION_SD = 0.1  # of the logarithm: an hour's or a month's value of a region against its year


@dataclass(frozen=True)
class Grid:
    """The grid that a device is fed by; `region` is empty where nobody knows which."""

    g_per_kwh: float
    log_sd: float = 0.0
    region: str = ""
    source: str = ""


@cache
def grids() -> dict[str, Grid]:
    """Return the table by region, under every name of it."""
    table: dict[str, Grid] = {}
    for line in csv_rows(GRIDS):
        names = [line["region"], line["place"], *filter(None, line["also"].split(";"))]
        grid = Grid(float(line["g_per_kwh"]), REGION_SD, line["place"], f"{line['source']}, {line['year']}")
        table |= {name.casefold(): grid for name in names}
    return table


@cache
def any_grid() -> Grid:
    """Return the grid of a machine anywhere: the median of all regions, with their spread."""
    logs = [math.log(grid.g_per_kwh) for grid in {grid.region: grid for grid in grids().values()}.values()]
    source = next(iter(grids().values())).source
    return Grid(round(math.exp(statistics.median(logs))), round(statistics.stdev(logs), 2), "", source)


def grid_of(region: str) -> Grid:
    """Return the grid of a cloud's region, of any where the table has none of that name."""
    return grids().get(region.casefold(), any_grid())
