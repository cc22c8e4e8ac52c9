"""Fill a template of this folder and write the page as a whole: nothing is fetched."""

import base64
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from whichdevice.base.files import write_atomically

REPORT_FOLDER = Path(__file__).parent


def render(template: str, out_html: Path, **values: Any) -> None:
    """Fill `template` with `values` and this project's style; the page needs nothing else."""
    write_atomically(page(template, **values), Path(out_html))


def page(template: str, **values: Any) -> str:
    """The text of that page."""
    style = (REPORT_FOLDER / "style.css").read_text(encoding="utf-8")
    of_servers = any("servers" in (answer["live"] or {}) for answer in values.get("answers", ()))
    return environment().get_template(template).render(style=style, live=live_script(of_servers), **values)


def environment(*folders: Path) -> Environment:
    """Return what fills templates of these folders and of this one."""
    environment = Environment(
        loader=FileSystemLoader([*folders, REPORT_FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["in_script"] = in_script
    return environment


def in_script(value: Any) -> Markup:
    """Plain data as JSON that cannot end the element around it."""
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))  # nosec B704  # no tag is left


class Script:
    """Text of a script; its hash lets a page forbid every other one."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"</(?=script)", r"<\\/", text, flags=re.IGNORECASE).replace("\r\n", "\n")

    @property
    def policy(self) -> str:
        """Return the name of this script in a content security policy."""
        return f"sha256-{base64.b64encode(hashlib.sha256(self.text.encode()).digest()).decode('ascii')}"


@cache
def live_script(of_servers: bool = False) -> Script:
    """Return what makes an answer anew while its reader types: the decision, its sentences, the picture, the page."""
    files = ("decision.js", "sentences.js", "chart.js", "live.js", *["serving.js"] * of_servers)
    text = "".join((REPORT_FOLDER / file).read_text(encoding="utf-8") for file in files)
    return Script(re.sub(r"^ *(//.*)?\n", "", text, flags=re.MULTILINE))  # a page has no comments
