"""Tables: everything that the records say, as CSV files."""

from whichdevice.tables.write import TABLES, write_tables

__all__ = ["TABLES", "write_tables"]
