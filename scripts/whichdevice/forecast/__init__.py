"""The real TPU compiler without a TPU: facts that it states, and a modelled device time (docs/tpu-model.md)."""
