"""Print what an hour of a device costs, who asks it and how old that is; --update takes newer offers into your cache.

examples:
  whichdevice prices
  whichdevice prices "RTX 4090"
  whichdevice prices --update
"""

import argparse
import csv
import io
from collections.abc import Iterable
from typing import get_args

from whichdevice.base.files import write_atomically
from whichdevice.base.numbers import counted, usd_words
from whichdevice.base.sheets.prices import Kind, Offer, age_days, offers_of_today, users_offers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    from whichdevice.base.sheets.catalogue import ADDRESS

    add = parser.add_argument
    add("device", nargs="?", metavar="DEVICE", help="print each offer of this device; default: a line for each device")
    add("--update", action="store_true", help="take the offers of a published catalogue (gpuhunt's) into your cache")
    add("--from", dest="address", default=ADDRESS, metavar="ADDRESS", help="of a catalogue of the same form")


def run(args: argparse.Namespace) -> int:
    """Print prices, newer ones first where they are asked for; raises StudyError on an unknown device or catalogue."""
    from whichdevice.base.sheets.hardware import hardware_rows
    from whichdevice.forecast.targets import find_target

    if args.update:
        from whichdevice.base.sheets.catalogue import read_offers

        offers = read_offers(args.address, hardware_rows())
        write_atomically(_sheet(offers), users_offers())
        print(f"{counted(len(offers), 'offer')} of {min(offer.date for offer in offers)} or later: {users_offers()}")
    sheet = hardware_rows()
    if args.device is not None:
        row = sheet[find_target(args.device).device]
        offers = [offer for kind in get_args(Kind) for offer in offers_of_today(row.offers, kind)]
        lines = [_offer_line(offer) for offer in sorted(offers, key=lambda offer: (offer.offer, offer.usd_per_hour))]
        print("\n".join([row.device, *lines] if lines else [f"{row.device}: nobody offers it"]))
    elif not args.update:
        for row in sheet.values():
            if market := row.market():
                range_words = f"{usd_words(market.low)} to {usd_words(market.high)}"
                age = counted(age_days(market.newest), "day")
                count = counted(market.providers, "provider")
                print(f"{row.device:26} {usd_words(market.usd_per_hour):>5}  {range_words:14}  {count}, {age} old")
    return 0


def _offer_line(offer: Offer) -> str:
    kind = offer.offer.replace("_", " ")
    age = counted(age_days(offer.date), "day")
    usd = usd_words(offer.usd_per_hour)
    return f"  {usd:>5}  {kind:9}  {offer.provider}, {offer.instance}; {age} old; {offer.source}"


def _sheet(offers: Iterable[Offer]) -> str:
    """Return offers as a price sheet."""
    text = io.StringIO()
    table = csv.DictWriter(text, list(Offer.model_fields), lineterminator="\n")
    table.writeheader()
    table.writerows(offer.model_dump(mode="json") for offer in offers)
    return text.getvalue()
