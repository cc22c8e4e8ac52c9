"""The report: one page of HTML that works offline."""
