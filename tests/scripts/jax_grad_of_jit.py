import jax
import jax.numpy as jnp


def loss(p, x, y):
    return ((x @ p["w"] + p["b"] - y) ** 2).mean()
def down(p, slopes):
    return jax.tree.map(lambda a, b: a - 0.1 * b, p, slopes)
params, x, y = {"b": jnp.zeros(2), "w": jnp.ones((8, 2))}, jnp.ones((640, 8)), jnp.ones((640, 2))
step = jax.grad(jax.jit(loss))
for epoch in range(3):
    for i in range(0, 640, 64):
        step(params, x[i : i + 64], y[i : i + 64])
