"""Tables: everything that the records say, as CSV files; each is one file of this folder."""

from whichdevice.tables.registry import table_about, table_names

__all__ = ["table_about", "table_names"]
