"""`whichdevice prices`: offers with age and source, and newer ones from a published catalogue."""

import io
import zipfile
from datetime import date
from pathlib import Path

import pytest
from beside import beside

from whichdevice.__main__ import main
from whichdevice.base.sheets.catalogue import PROVIDERS
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import PRICES_VARIABLE, users_offers

BESIDE = beside(__file__)

HEAD = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor\n"
RECORDED = BESIDE["recorded"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and the price sheet that nobody replaced."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(PRICES_VARIABLE)
    return users_offers()


def catalogue(folder: Path, lines: dict[str, list[str]] = RECORDED, version: str = "20261120-7") -> str:
    """The address of a catalogue with these lines, published on the day of its version."""
    for name in PROVIDERS:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr(f"{name}.csv", HEAD + "\n".join(lines.get(name, [])))
        place = folder / name / version
        place.mkdir(parents=True)
        (place / "catalog.zip").write_bytes(packed.getvalue())
        (folder / name / "version").write_text(f"{version}\n", encoding="utf-8")
    return folder.as_uri()


def offered(device: str) -> list[tuple[str, str, float, date]]:
    """Offers of the user's cache: they are of the catalogue's day."""
    offers = [offer for offer in hardware_rows()[device].offers if offer.source.startswith("gpuhunt's catalogue")]
    return [(offer.provider, offer.offer, offer.usd_per_hour, offer.date) for offer in offers]


def test_an_update_keeps_the_cheapest_offer_of_each_device_with_its_day(tmp_path, cache, capsys) -> None:
    before = hardware_rows()["H100 SXM"]
    assert main(["prices", "--update", "--from", catalogue(tmp_path)]) == 0
    assert capsys.readouterr().out == f"6 offers of 2026-11-20 or later: {cache}\n"
    day = date(2026, 11, 20)
    assert offered("H100 SXM") == [("AWS", "on_demand", 5.5, day), ("AWS", "spot", 2.0, day)]
    assert offered("H100 PCIe") == [("RunPod", "on_demand", 2.1, day)], "one of no form is nobody's"
    assert offered("RTX 6000 Pro") == [("RunPod", "on_demand", 1.8, day)]
    assert offered("RTX 4090") == [("RunPod", "on_demand", 0.31, day)] and offered("RTX A6000")
    after = hardware_rows()["H100 SXM"]
    assert len(after.offers) == len(before.offers) + 2, "the sheet's own stay beside them"
    market = hardware_rows()["RTX 4090"].market(providers=["RunPod"])
    assert market is not None and (market.usd_per_hour, market.newest) == (0.31, day)


BROKEN = {
    "no network": lambda folder: (folder / "aws" / "version").unlink(),
    "no version": lambda folder: (folder / "aws" / "version").write_text("<html>not found</html>"),
    "no archive": lambda folder: (folder / "aws" / "20261120-7" / "catalog.zip").write_bytes(b"<html>"),
}


@pytest.mark.parametrize("breaks", BROKEN.values(), ids=BROKEN)
def test_a_broken_catalogue_is_one_line_and_changes_nothing(breaks, tmp_path, cache, capsys) -> None:
    address = catalogue(tmp_path)
    breaks(tmp_path)
    assert main(["prices", "--update", "--from", address]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"prices: {address}/aws gave no prices (") and said.endswith("; those here stay\n")
    assert said.count("\n") == 1 and not cache.exists()


@pytest.mark.parametrize("line", ["p5,us,many,1,1,8,H100,80,False,,nvidia", "p5,us,1"], ids=["a word", "a short line"])
def test_a_catalogue_with_a_value_that_is_none_is_refused(line, tmp_path, cache, capsys) -> None:
    assert main(["prices", "--update", "--from", catalogue(tmp_path, {"aws": [line]})]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not cache.exists()


def test_a_named_price_sheet_counts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main(["prices", "--update", "--from", catalogue(tmp_path)])
    monkeypatch.setenv(PRICES_VARIABLE, str(Path(__file__).parents[2] / "config" / "prices.csv"))
    assert not offered("H100 SXM")


def test_prices_are_printed_with_age_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [line] = [line for line in lines if line.startswith("RTX 4090 ")]
    assert "8 providers" in line and line.endswith("days old") and len(lines) > 60
    assert main(["prices", "4090"]) == 0
    first, *offers = capsys.readouterr().out.splitlines()
    assert first == "RTX 4090" and len(offers) >= 10 and all(" old; " in offer for offer in offers)
    assert main(["prices", "MI210"]) == 0 and "nobody offers it" in capsys.readouterr().out
