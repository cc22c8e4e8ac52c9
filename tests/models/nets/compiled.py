"""A network that comes compiled: the module has no constants."""

from nets.residual import build_residual


def small_net(width: int = 6):
    """The residual network with its loss and optimiser."""
    model = build_residual()
    model.compile(optimizer="adam", loss="mae")
    return model
