"""`serve` of a model that makes images or videos: which GPU makes one in time, and what a thousand cost."""

import json

import pytest

from whichdevice.__main__ import main

FLUX = "hf:black-forest-labs/FLUX.1-dev"


def asked(*options: str, model: str = FLUX) -> int:
    return main(["serve", model, "--devices", "L4,L40S,H100 SXM,MI300X", *options])


def plain(capsys: pytest.CaptureFixture[str], *options: str, model: str = FLUX) -> dict:
    assert asked(*options, "--json", model=model) == 0
    return json.loads(capsys.readouterr().out)


def test_the_first_line_says_what_to_rent_and_what_a_thousand_images_cost(capsys):
    assert asked() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FLUX.1-dev · 1024 × 1024 · 28 steps · answered in 60 s"
    said = " ".join(lines)
    assert "USD 11 a thousand images one" in said and "USD/1000" in said
    assert "token" not in said and max(map(len, lines)) <= 100


def test_a_load_takes_several_gpus_and_a_range_stands_at_each(capsys):
    found = plain(capsys, "--rps", "2", "--latency", "90s")
    pick = found["pick"]
    assert pick["servers"] > 1 and pick["sure"] >= 0.8 and pick["max_rps_low"] < pick["max_rps"] < pick["max_rps_high"]
    assert pick["usd_million"] == pytest.approx(pick["usd_per_hour"] / 3600 / 2 * 1e6)
    assert set(pick["memory"]) == {"weights", "denoiser", "words", "decoder", "values"}


def test_a_video_has_frames_and_half_an_hour(capsys):
    video = plain(capsys, model="Wan2.1-T2V-1.3B")
    assert "832 × 480, 81 frames" in video["title"] and video["load"]["ttft"] == 1800
