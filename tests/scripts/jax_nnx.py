"""A module of Flax NNX with dropout and an optimiser, which the jitted step changes in place."""

import numpy as np
import optax
from flax import nnx


class Net(nnx.Module):
    def __init__(self, rngs):
        self.first, self.last = nnx.Linear(16, 32, rngs=rngs), nnx.Linear(32, 1, rngs=rngs)
        self.dropout = nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.dropout(nnx.relu(self.first(x))))


@nnx.jit
def train_step(model, optimizer, batch):
    loss, gradients = nnx.value_and_grad(lambda model: ((model(batch["x"]) - batch["y"]) ** 2).mean())(model)
    optimizer.update(model, gradients)
    return loss


def main(epochs=4):
    x, y = np.random.default_rng(0).random((256, 16), np.float32), np.ones((256, 1), np.float32)
    model = Net(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
    for _ in range(epochs):
        for start in range(0, 256, 32):
            train_step(model, optimizer, {"x": x[start : start + 32], "y": y[start : start + 32]})
            raise SystemExit("it trained")


if __name__ == "__main__":
    main()
