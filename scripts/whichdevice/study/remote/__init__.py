"""One way to move datasets, records and results to and from a bucket or a folder."""
