"""One page from a template of this folder, written whole or not at all."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from whichdevice.records.store import write_atomically

HERE = Path(__file__).parent


def render(template: str, out_html: Path, **values: Any) -> None:
    """Fill `template` with `values` and this project's style; the page needs nothing else."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = (HERE / "style.css").read_text(encoding="utf-8")
    write_atomically(environment.get_template(template).render(style=style, **values), Path(out_html))
