"""Planning: the work of a call of the workflow, and about how long it takes."""
