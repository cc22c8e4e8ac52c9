"""The comparison with another study, where `snakemake compare` made one of these very tables."""

from pathlib import Path
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.figures.results import StudyResults
from whichdevice.report.comparison import summary_line


def compared_with(study: StudyResults, page: Path) -> dict[str, Any] | None:
    """Its summary and its page; nothing where there is none, or where the tables are newer."""
    table, runs, other = study.tables_folder / "compare.csv", study.tables_folder / "runs.csv", page.with_name(PAGE)
    try:
        if not other.is_file() or table.stat().st_mtime < runs.stat().st_mtime:
            return None
        return {"summary": summary_line(study.compare), "address": PAGE, "table": study.compare}
    except (OSError, StudyError):
        return None


PAGE = "compare.html"
