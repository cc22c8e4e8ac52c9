"""The modelled TPU device time against published step times; the list is config/tpu_published.csv."""
