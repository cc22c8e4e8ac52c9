"""The documentation's pages, and what stands in them: code blocks, links and headings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).resolve().parents[2]
DOCS = PROJECT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
TEXTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *PAGES]


class Block(NamedTuple):
    """A fenced block: its page, the line where it begins, its language, its text, and why no test runs it."""

    page: Path
    line: int
    language: str
    text: str
    not_run: str = ""

    @property
    def place(self) -> str:
        """Where a reader finds it."""
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


def blocks(language: str) -> list[Block]:
    """Every block of a language, of all pages."""
    return [block for page in TEXTS for block in _blocks(page) if block.language == language]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"^```(\S*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        why = re.search(r"<!-- not run: (.+) -->\n$", text[: found.start()])
        yield Block(page, text.count("\n", 0, found.start()) + 1, found[1], found[2], why[1] if why else "")


def commands(block: Block) -> list[str]:
    """The lines that a reader types, each whole."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def prose(page: Path) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    """Where the page's links and pictures lead to, within the project."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    found = re.findall(r"\]\(<?([^)>\s]+)>?\)", text) + re.findall(r'href="([^"]+)"', text)
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """What a link's part behind # may be: each heading as a code host and MyST write it."""
    found = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in found]
    return {each.strip().replace(" ", "-") for each in words}


def by_hand(page: Path) -> int:
    """Words of a page that somebody wrote, as a reader counts them: no bars of tables, no output of a command."""
    text = page.read_text(encoding="utf-8")
    if text.startswith("<!-- Generated") or page.stem.endswith("-validation"):  # which `make forecasts` writes
        return 0
    text = re.sub(r"<!-- generated: ([\w-]+) -->.*?<!-- end: \1 -->", "", text, flags=re.DOTALL)
    text = re.sub(r"^```text\n.*?^```$|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL)
    return sum(bool(re.search(r"\w", word)) for word in text.split())
