"""A package with modules of its own."""
