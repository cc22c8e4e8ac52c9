"""One page from a template of this folder, written whole or not at all."""

import re
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
    """Fill a template of Markdown; whatever stands in double braces stays text, but for what these filters make."""
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
    """A value of which Markdown makes nothing; Jinja then sees to HTML."""
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
