"""Fill the templates and write the pages."""

import os
from pathlib import Path

from whichdevice.report.contents import contents
from whichdevice.report.page import render, render_markdown
from whichdevice.report.table_library import table_library
from whichdevice.results import StudyResults

MOST_ROWS = 400  # a code host shows no larger page


def write_report(config_path: Path, tables_folder: Path, figures_folder: Path, out_html: Path) -> None:
    """Write the report of a study: one file of HTML that needs nothing else, and beside it the same as Markdown.

    Raises StudyError naming what is missing.
    """
    out_html = Path(out_html)
    found = contents(StudyResults(config_path, tables_folder), Path(figures_folder), out_html)
    folder = Path(os.path.relpath(Path(figures_folder).absolute(), out_html.absolute().parent)).as_posix()
    commands = "\n".join(found["again"])
    render_markdown(
        "report.md.jinja", out_html.with_suffix(".md"), folder=folder, commands=commands, most=MOST_ROWS, **found
    )
    render("template.html", out_html, library=table_library(), **found)
