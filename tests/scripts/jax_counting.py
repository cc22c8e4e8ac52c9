import jax
import jax.numpy as jnp


@jax.jit
def step(state, x):
    w = state["w"] - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).mean())(state["w"])
    return {"w": w, "steps": state["steps"] + 1}


state = {"w": jnp.ones((8, 2)), "steps": 0}  # a number, and an array from then on
for epoch in range(5):
    for rows in range(0, 110, 20):
        state = step(state, jnp.ones((min(20, 110 - rows), 8)))
