"""Fill a template of this folder and write the page as a whole, with the table library inside it.

DataTables comes from the package itables and is put into the page itself: nothing is fetched.
"""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from whichdevice.files import write_atomically

HERE = Path(__file__).parent
QUOTES = {"&#39;": "'", "&#34;": '"'}  # harmless in Markdown, and easier to read


def render(template: str, out_html: Path, **values: Any) -> None:
    """Fill `template` with `values` and this project's style; the page needs nothing else."""
    style = (HERE / "style.css").read_text(encoding="utf-8")
    write_atomically(_environment().get_template(template).render(style=style, **values), Path(out_html))


def render_markdown(template: str, out: Path, **values: Any) -> None:
    """Fill a template of Markdown; values in double braces stay text, except the output of these filters."""
    environment = _environment(finalize=_as_text)
    environment.filters |= {"code": code, "block": block, "plain": Markup}
    text = environment.get_template(template).render(**values)
    for entity, quote in QUOTES.items():
        text = text.replace(entity, quote)
    write_atomically(re.sub(r"\n{3,}", "\n\n", text).strip() + "\n", Path(out))


def code(text: str) -> Markup:
    """Text between backticks, more of them than it holds itself."""
    text = " ".join(str(text).split())
    fence = "`" * (1 + _longest_run(text))
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return Markup(f"{fence}{pad}{text}{pad}{fence}")  # nosec B704  # backticks show it as text


def block(text: str) -> Markup:
    """A block of code, fenced by more backticks than it holds."""
    fence = "`" * max(3, 1 + _longest_run(text))
    return Markup(f"{fence}\n{text.strip()}\n{fence}")  # nosec B704  # so does a fence


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _as_text(value: Any) -> Any:
    """Escape a value for Markdown; Jinja then escapes HTML."""
    if isinstance(value, Markup):
        return value
    return re.sub(r"([\\`*_\[\]|~])", r"\\\1", str(value).replace("\n", " "))


def _environment(**settings: Any) -> Environment:
    return Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **settings,
    )


EXPORTS = re.compile(r"\bexport\s*\{([^{}]*)\};?")


class TableLibrary:
    """The library and the page's own few lines as one script; its hash lets the page forbid every other script."""

    def __init__(self, own: Path) -> None:
        bundle = files("itables") / "html"
        self.style = _unclosed((bundle / "dt_bundle.css").read_text(encoding="utf-8"), "style")
        library = (bundle / "dt_bundle.js").read_text(encoding="utf-8")
        script = f"{_without_exports(library)}\n{own.read_text(encoding='utf-8')}"
        self.script = _unclosed(script, "script").replace("\r\n", "\n")

    @property
    def policy(self) -> str:
        """What a content security policy names this script by."""
        return f"sha256-{base64.b64encode(hashlib.sha256(self.script.encode()).digest()).decode('ascii')}"


@cache
def table_library() -> TableLibrary:
    """The library with `cells.js` of this folder."""
    return TableLibrary(Path(__file__).with_name("cells.js"))


def _without_exports(module: str) -> str:
    """A module whose exports are constants of the same script; raises ValueError where it has no list of exports."""
    found = EXPORTS.search(module)
    if found is None:
        raise ValueError("itables' bundle has no list of exports")
    pairs = [part.strip().split(" as ") for part in found[1].split(",")]
    named = {"DataTable" if pair[-1] == "default" else pair[-1]: pair[0] for pair in pairs}
    constants = "".join(f"const {name}={local};" for name, local in named.items() if name != local)
    return module[: found.start()] + constants + module[found.end() :]


def _unclosed(text: str, tag: str) -> str:
    """Return text that cannot end the element around it."""
    return re.sub(rf"</(?={tag})", r"<\\/", text, flags=re.IGNORECASE)
