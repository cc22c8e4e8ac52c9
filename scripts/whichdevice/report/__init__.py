"""The report: one page of HTML that works offline."""

from whichdevice.report.write import write_report

__all__ = ["write_report"]
