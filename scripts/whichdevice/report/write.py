"""Fill the template and write the page."""

import os
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from whichdevice.figures.results import StudyResults
from whichdevice.report.contents import contents

HERE = Path(__file__).parent


def write_report(config_path: Path, tables_folder: Path, figures_folder: Path, out_html: Path) -> None:
    """Write the report of a study, one file that needs nothing else. Raises StudyError naming what is missing."""
    study = StudyResults(config_path, tables_folder)
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = (HERE / "style.css").read_text(encoding="utf-8")
    page = environment.get_template("template.html").render(style=style, **contents(study, Path(figures_folder)))
    out_html = Path(out_html)
    out_html.parent.mkdir(parents=True, exist_ok=True)
    aside = out_html.with_name(f".{out_html.name}.{os.getpid()}")
    try:
        aside.write_text(page, encoding="utf-8")
        os.replace(aside, out_html)
    finally:
        aside.unlink(missing_ok=True)
