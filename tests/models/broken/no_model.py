"""Forgets the model."""

INPUT = {"shape": (8,)}
TARGET = {"shape": (1,)}
LOSS = "mean_squared_error"
OPTIMIZER = "sgd"
