"""PyTorch models: their steps traced on fake tensors, their memory, and what to change so that they fit."""
