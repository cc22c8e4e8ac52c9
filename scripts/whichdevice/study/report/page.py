"""Fill a template of this folder and write the page as a whole: nothing is fetched."""

import base64
import hashlib
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from whichdevice.base.files import write_atomically

REPORT_FOLDER = Path(__file__).parent


def render(template: str, out_html: Path, *folders: Path, **values: Any) -> None:
    """Fill `template` of this folder or of `folders` with `values`; the page needs nothing else."""
    write_atomically(page(template, *folders, **values), Path(out_html))


def page(template: str, *folders: Path, **values: Any) -> str:
    """The text of that page, with this project's style and script; the hash of the script forbids every other one."""
    environment = Environment(
        loader=FileSystemLoader([REPORT_FOLDER, *folders]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style, script = ((REPORT_FOLDER / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    policy = f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode('ascii')}"
    return environment.get_template(template).render(style=style, script=script, policy=policy, **values)
