"""From a study's tables and other records to the comparison: its table, figure and page."""

from collections.abc import Iterable
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.figures import draw
from whichdevice.report.comparison import control_lines, summary_line, write_comparison
from whichdevice.results import StudyResults
from whichdevice.tables.base import write_table
from whichdevice.tables.comparison import comparison_table, controls, differences, read_runs, without_copies

MOST_DIFFERENCES = 12


def compare(
    config_path: Path, tables_folder: Path, against: str, records: Iterable[Path], out_figure: Path, out_html: Path
) -> list[str]:
    """Write compare.csv beside the study's tables, the figure (.svg, and .png beside it) and the page.

    Returns lines for a person. Raises StudyError where no record of the other side can be read.
    """
    study = StudyResults(config_path, tables_folder)
    there, faults = read_runs(list(records))
    if there.empty:
        raise StudyError(f"against: no record below {against} can be read: {faults[0]}")
    there, copies = without_copies(there, study.runs)
    if there.empty:
        raise StudyError(f"against: every record below {against} is a copy of one of this study")
    faults += copies
    compared, differing = comparison_table(study.runs, there), differences(study.runs, there)
    alike = controls(study.runs, there)
    write_table(compared, tables_folder / "compare.csv")
    draw("comparison", tables_folder, config_path, out_figure, out_figure.with_suffix(".png"))
    write_comparison(study.study.study, against, compared, alike, differing, faults, out_figure, out_html)
    more = len(differing) - MOST_DIFFERENCES
    return [
        f"{study.study.study} against {against}: {summary_line(compared)}",
        *(f"  control: {line}" for line in control_lines(alike)),
        *(f"  {line}" for line in differing[:MOST_DIFFERENCES]),
        *([f"  and {more} more differences"] if more > 0 else []),
        *(f"  left out: {fault}" for fault in faults),
    ]
