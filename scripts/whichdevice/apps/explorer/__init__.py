"""The explorer: one page that answers for well-known models on every device of the sheet, in one file."""
