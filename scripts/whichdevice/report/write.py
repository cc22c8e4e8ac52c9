"""Fill the template and write the page."""

from pathlib import Path

from whichdevice.figures.results import StudyResults
from whichdevice.report.contents import contents
from whichdevice.report.page import render


def write_report(config_path: Path, tables_folder: Path, figures_folder: Path, out_html: Path) -> None:
    """Write the report of a study, one file that needs nothing else. Raises StudyError naming what is missing."""
    study = StudyResults(config_path, tables_folder)
    render("template.html", out_html, **contents(study, Path(figures_folder)))
