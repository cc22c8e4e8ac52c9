"""Fill a template of this folder and write the page as a whole, with the table library inside it.

DataTables comes from the package itables and is put into the page itself: nothing is fetched.
"""

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from whichdevice.files import write_atomically

HERE = Path(__file__).parent
EXPORTS = re.compile(r"\bexport\s*\{([^{}]*)\};?")


def render(template: str, out_html: Path, **values: Any) -> None:
    """Fill `template` with `values` and this project's style; the page needs nothing else."""
    style = (HERE / "style.css").read_text(encoding="utf-8")
    text = _environment().get_template(template).render(style=style, live=live_script(), **values)
    write_atomically(text, Path(out_html))


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["in_script"] = _in_script
    return environment


def _in_script(value: Any) -> Markup:
    """Plain data as JSON that cannot end the element around it."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))  # nosec B704  # no tag is left


class Script:
    """Text of a script; its hash lets a page forbid every other one."""

    def __init__(self, text: str) -> None:
        self.text = _unclosed(text, "script").replace("\r\n", "\n")

    @property
    def policy(self) -> str:
        """What a content security policy names this script by."""
        return f"sha256-{base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode('ascii')}"


@cache
def live_script() -> Script:
    """What makes an answer anew while its reader types."""
    return Script((HERE / "live.js").read_text(encoding="utf-8"))


class TableLibrary:
    """The library and the page's own few lines as one script."""

    def __init__(self, own: Path) -> None:
        bundle = files("itables") / "html"
        self.style = _unclosed((bundle / "dt_bundle.css").read_text(encoding="utf-8"), "style")
        library = (bundle / "dt_bundle.js").read_text(encoding="utf-8")
        self.script = Script(f"{_without_exports(library)}\n{own.read_text(encoding='utf-8')}")


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
