"""People's own models: where they are, what they declare, their data, losses and costs; `script`: those in scripts."""
