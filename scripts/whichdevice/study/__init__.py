"""A study: its config and plan, the records' store, tables, figures and the report."""
