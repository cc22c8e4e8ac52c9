"""A graph in each step, whose arrays have as many rows as it has nodes or edges."""

import jax
import jax.numpy as jnp

graph = {"nodes": jnp.ones((12, 2)), "edges": jnp.ones((20, 2)), "mask": jnp.ones(12), "senders": jnp.zeros(20, int)}


def loss(w, graph):
    return ((graph["nodes"] @ w)[graph["senders"]] * (graph["edges"] @ w)).mean() * graph["mask"].mean()


@jax.jit
def update(w, graph):
    return w - jax.grad(loss)(w, graph)


w = jnp.ones((2, 3))
for step in range(50):
    w = update(w, graph)
print(update(w, graph))
