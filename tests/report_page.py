"""A study's report written for a test, and what of it tests look at."""

from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path

import synthetic

from whichdevice.study.config.model import Study
from whichdevice.study.figures import figure_names
from whichdevice.study.report.contents import write_report
from whichdevice.study.tables.make import write_tables

ROOT = Path(__file__).parents[1]
PICTURE = (
    "<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'><rect width='40' height='20' fill='#888'/></svg>"
)


class Page(HTMLParser):
    """Its text, addresses, and the numbers that carry their exact value, by the section that they stand in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.addresses = "", []
        self.numbers: dict[str, list[tuple[float, str]]] = {}  # section: (exact value, as written)
        self.loose: dict[str, str] = {}  # section: the text of its cells of numbers that stands in no such number
        self._section, self._open, self._exact = "", [], None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "section":
            self._section = found.get("id", "")
        if tag in ("td", "script", "style", "data"):
            self._open.append((tag, found.get("class", "")))
        if tag == "data":
            self._exact = float(found["value"])
        self.addresses += [found[name] for name in ("src", "href") if name in found]

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ("", "")
        if inside[0] in ("script", "style"):
            return
        self.text += data
        if inside[0] == "data":
            self.numbers.setdefault(self._section, []).append((self._exact, data))
        elif inside[0] == "td" and "number" in inside[1].split():
            self.loose[self._section] = self.loose.get(self._section, "") + data


def write_page(study: Study, folder: Path, compiled: Iterable[Path] = (), **how: object) -> Path:
    """Write a study, its tables and its report, with the same small picture for each figure."""
    config, paths = synthetic.write_study(study, folder, artefacts=False, **how)
    write_tables(config, paths, ROOT / "config/published.csv", folder / "tables", compiled)
    (folder / "figures").mkdir(exist_ok=True)
    for name in figure_names():
        (folder / f"figures/{name}.svg").write_text(PICTURE, encoding="utf-8")
    write_report(config, folder / "tables", folder / "figures", folder / "report.html")
    return folder / "report.html"


def page_of(study: Study, folder: Path, **how: object) -> Page:
    """The report of a study, read back."""
    return Page(write_page(study, folder, **how).read_text(encoding="utf-8"))
