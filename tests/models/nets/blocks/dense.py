"""A dense block."""

from keras import layers


def block(x, width):
    """Two layers with a shortcut."""
    return layers.Add()([x, layers.Dense(width)(layers.Dense(width, activation="relu")(x))])
