"""Pages in a real browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from needs import BROWSER
from playwright.sync_api import sync_playwright


@contextmanager
def started_browser() -> Iterator[Any]:
    """The browser, which takes a second to start."""
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def watched_page(browser: Any, width: int, **settings: Any) -> Iterator[tuple[Any, list[str]]]:
    """An empty page of this width and its list of complaints, to which others may be added; raises where there are."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **settings)
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    yield page, complaints
    context.close()
    assert complaints == []
