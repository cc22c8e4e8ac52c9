"""Programs of published TPU times, rebuilt in plain JAX; the list is config/tpu_published.csv."""
