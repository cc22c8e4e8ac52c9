"""What people call: commands, the explorer, Python's `ask`, `serve` and `watch`."""
