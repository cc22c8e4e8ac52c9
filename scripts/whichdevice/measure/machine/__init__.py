"""Facts about the machine that a run stands on; nothing here imports a framework."""
