"""What an hour of a deployed model costs. An estimate: prices change, and other regions have others."""

import csv

from whichdevice.errors import StudyError
from whichdevice.package_path import CONFIG

PRICES = CONFIG / "vertex_prices.csv"
HOURS_A_MONTH = 730


def price_lines(machine_type: str, replicas: int, region: str, usd_per_hour: float | None = None) -> list[str]:
    """Lines for a person: price per hour and month, and where it is from; says so where no price is known."""
    if usd_per_hour is not None:
        return [_line(usd_per_hour * replicas, machine_type, replicas), "Price as given on the command line."]
    found = [row for row in _rows() if row["machine_type"] == machine_type]
    if not found:
        return [
            f"No price of {machine_type} is known here: see cloud.google.com/vertex-ai/pricing, and tell it by "
            "--usd-per-hour. It costs money for every hour until it is undeployed."
        ]
    row = next((row for row in found if row["region"] == region), found[0])
    other = "" if row["region"] == region else f" It is that of {row['region']}; {region} has its own."
    lines = [_line(float(row["usd_per_hour"]) * replicas, machine_type, replicas)]
    return [*lines, f"Price from {row['source']}.{other}"]


def _line(usd: float, machine_type: str, replicas: int) -> str:
    return (
        f"About {usd:.3f} USD per hour (estimate), {usd * HOURS_A_MONTH:.0f} USD per month, asked or not: "
        f"{replicas} × {machine_type}, until it is undeployed."
    )


def _rows() -> list[dict[str, str]]:
    try:
        with PRICES.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, csv.Error) as error:
        raise StudyError(f"cannot read {PRICES.name}: {error}") from error
