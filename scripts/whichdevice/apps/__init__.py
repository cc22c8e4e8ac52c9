"""The interface of people: commands, the explorer, Python's `ask`, `serve` and `watch`."""
