"""The study's configuration as typed code: the source of the default file, the schema and every check."""
