import jax
import jax.numpy as jnp
import optax

adam = optax.adam(0.1)
params = {"b": jnp.zeros(2), "w": jnp.ones((8, 2))}
@jax.jit
def step(state, key, x, y, weights):
    slopes = jax.grad(lambda p: ((x @ p["w"] + p["b"] - y) ** 2 * weights).mean())(state[0])
    changes, moments = adam.update(slopes, state[1])
    return optax.apply_updates(state[0], changes), moments
for it in range(10):
    step((params, adam.init(params)), jax.random.PRNGKey(0), jnp.ones((64, 8)), jnp.ones((64, 2)), jnp.ones(2))
