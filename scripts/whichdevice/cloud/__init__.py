"""Machines rented for a while: made, used and deleted. Nothing here is imported by a study that rents none."""
