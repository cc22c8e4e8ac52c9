"""The page in a real browser: opens from the file system, is reachable and legible."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic
from axe_playwright_python.sync_playwright import Axe
from browser import started_browser, watched_page
from report_page import write_page
from synthetic_energy import metered

from whichdevice.study.config.model import Device, Measure, Workload

pytestmark = [pytest.mark.slow, pytest.mark.needs("browser")]
LONG = pytest.mark.long  # but for one test of each kind
PATIENCE = 120_000  # ms
ROWS = "#cells-table > tbody > tr"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    study = synthetic.small_study(
        devices={
            "cpu": Device(kind="cpu", usd_per_hour=0.5), "gpu": Device(kind="gpu", usd_per_hour=2.0),
            "tpu": Device(kind="tpu", replicas=8, hardware="TPU v2"),
        },
        workloads={
            "mnist_cnn": Workload(batch_size=[16, 256, 1024]),
            "fashion_cnn": Workload(batch_size=[64]),
        },
        measure=Measure(repeats=3),
    )  # fmt: skip
    return write_page(
        study,
        tmp_path_factory.mktemp("browser") / "results",
        devices=["cpu", "gpu"],
        change=lambda run, record: metered(record),
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with started_browser() as browser:
        yield browser


@pytest.fixture
def opened(browser: Any, report: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page, in a window of the test's size and colour scheme; any complaint of the browser fails the test."""
    width, scheme = getattr(request, "param", (1440, "light"))
    with watched_page(browser, width, color_scheme=scheme) as (page, complaints):
        page.set_default_timeout(PATIENCE)
        page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda each: complaints.append(each.url[:200]) if _fetched(each.url, report) else None)
        page.goto(report.as_uri())
        page.evaluate("document.querySelectorAll('.fold').forEach((each) => { each.open = true; })")
        page.wait_for_selector("#cells-table")
        yield page


def _fetched(url: str, report: Path) -> bool:
    return not url.startswith("data:") and url.split("#")[0] != report.as_uri()


def test_it_opens_from_the_file_system_without_a_network(opened: Any) -> None:
    assert opened.locator("#lead").inner_text().startswith("Use gpu for fashion_cnn and mnist_cnn")
    assert len(opened.locator(ROWS).all()) == 8  # two devices, each with four cells


@LONG
def test_each_row_tells_how_to_measure_it_again(opened: Any, report: Path) -> None:
    opened.get_by_role("button", name="Measure again: cpu · mnist_cnn · tensorflow-float32-b16", exact=True).press(
        "Enter"
    )
    card = opened.locator(".card:popover-open")
    assert "only={device: cpu, workload: mnist_cnn, backend: tensorflow" in card.inner_text()
    address = card.get_by_role("link", name="r1").get_attribute("href")
    assert (report.parent / address).is_file()
    assert (report.parent / card.get_by_role("link", name="config.yaml").get_attribute("href")).is_file()
    opened.keyboard.press("Escape")
    assert opened.locator(".card:popover-open").count() == 0


@pytest.mark.parametrize(
    "opened",
    [(1440, "light"), *(pytest.param(each, marks=LONG) for each in ((1440, "dark"), (390, "light")))],
    indirect=True,
)
def test_no_rule_of_accessibility_is_broken(opened: Any) -> None:
    found = Axe().run(opened)
    told = [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found.response["violations"]
        for node in each["nodes"][:3]
    ]
    assert told == []


@pytest.mark.parametrize("opened", [(390, "light"), pytest.param((1440, "dark"), marks=LONG)], indirect=True)
def test_the_page_is_never_wider_than_its_window(opened: Any) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    opened.locator("button[popovertarget]").first.press("Enter")
    assert opened.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("opened", [(width, "light") for width in (390, 1280, 1440)], indirect=True)
def test_a_reader_sees_four_screens_in_which_nothing_is_cut_off(opened: Any) -> None:
    opened.reload()
    seen = opened.evaluate(
        """() => ({
            screens: document.documentElement.scrollHeight / 800,
            words: document.body.innerText.split(/\\s+/).length,
            cut: [...document.querySelectorAll(".board, .devices")].filter((each) => each.checkVisibility())
                .map((each) => each.parentElement).filter((each) => each.scrollWidth > each.clientWidth
                    || each.scrollHeight > each.clientHeight + 1).map((each) => each.ariaLabel),
            wider: document.documentElement.scrollWidth - innerWidth,
        })"""
    )
    assert seen["words"] <= 1200 and (seen["cut"], seen["wider"]) == ([], 0)
    assert seen["screens"] <= 4 or opened.viewport_size["width"] == 390


@LONG
def test_it_prints(opened: Any) -> None:
    printed = opened.pdf(prefer_css_page_size=True, print_background=True)
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 3 <= pages <= 40 and len(printed) > 20_000
