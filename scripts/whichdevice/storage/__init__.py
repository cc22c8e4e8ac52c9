"""Datasets and results in a bucket, or in any other place that fsspec reaches."""
