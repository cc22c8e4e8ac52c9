"""What a call of the workflow will do, and about how long it takes."""
