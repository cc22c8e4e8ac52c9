"""What the meter and the price of a device count, in words: said where those of compared devices count differently."""

import re
from collections.abc import Iterable

from whichdevice.results import StudyResults
from whichdevice.tables.cost_choices import JOULES, USD

METERED = {"cpu": "processor packages alone, memory not counted", "gpu": "board alone, host not counted"}
ONLY = re.compile(r"\b\w+ only\b")  # in the price's own words, which the price sheet gives


def scopes(study: StudyResults, devices: Iterable[str], quantity: str) -> dict[str, str]:
    """Device to what is counted of it, for those where that is known; empty where all count alike."""
    found = {device: _scope(study, device, quantity) for device in devices}
    return {device: words for device, words in found.items() if words} if len(set(found.values())) > 1 else {}


def _scope(study: StudyResults, device: str, quantity: str) -> str | None:
    if quantity == JOULES:
        return METERED.get(study.kind(device))
    if quantity != USD:
        return None
    prices = study.costs.loc[study.costs["device"] == device, "price"].dropna()
    only = ONLY.search(str(prices.iloc[0])) if len(prices) else None
    return f"price of the {only[0]}" if only else None
