"""How far scores with a cache are from those of the whole sequence; a case of mode_runs.py."""

from pathlib import Path

import numpy as np
from backends.mode_runs import in_process

PLACES = 6  # tokens generated one by one beside the prompt's


def generated(folder: Path, runs: dict[str, dict], **request) -> dict[str, dict]:
    """Runs of mode generate."""
    return in_process("backends.generation_behaviour", folder, runs, mode="generate", min_steps=20, **request)


def difference(backend, request) -> float:
    """The largest, between scores with a cache and those of the whole sequence without, as a share of the latter."""
    from whichdevice.models.loading import Model

    workload = Model.read(request.module).asked(request)
    workload.splits({})
    model = workload.model()
    with_cache, whole = (keras_scores if workload.framework == "keras" else torch_scores)(workload, model, request)
    return float(np.abs(with_cache - whole).max() / np.abs(whole).max())


def tokens_for(request) -> np.ndarray:
    return np.random.default_rng(4).integers(0, 20, (request.batch_size, request.sequence_length), dtype=np.int32)


def keras_scores(workload, model, request) -> tuple[np.ndarray, np.ndarray]:
    import jax
    import keras

    how, tokens = workload.generation(model), tokens_for(request)
    prompt = request.sequence_length // 2
    scores, cache = jax.jit(how.call, static_argnums=2)(tokens[:, :prompt], how.empty_cache(*tokens.shape), 0)
    step, found = jax.jit(how.call), [scores]
    for place in range(prompt, prompt + PLACES):
        scores, cache = step(tokens[:, place : place + 1], cache, np.int32(place))
        found.append(scores)
    inputs = tokens
    if isinstance(model.input, dict):
        inputs = {"token_ids": tokens, "padding_mask": np.ones_like(tokens)}
    whole = keras.ops.convert_to_numpy(jax.jit(model)(inputs))[:, prompt - 1 : prompt + PLACES]
    return np.stack(found, axis=1), whole


def torch_scores(workload, model, request) -> tuple[np.ndarray, np.ndarray]:
    import torch
    from transformers import StaticCache

    tokens, module = torch.from_numpy(tokens_for(request)).long(), model.module.eval()
    prompt, cache = (
        request.sequence_length // 2,
        StaticCache(config=module.config, max_cache_len=request.sequence_length),
    )
    with torch.no_grad():
        found = [module(tokens[:, :prompt], cache=cache, use_cache=True).logits[:, -1]]
        for place in range(prompt, prompt + PLACES):
            found.append(module(tokens[:, place : place + 1], cache=cache, use_cache=True).logits[:, -1])
        whole = module(tokens).logits[:, prompt - 1 : prompt + PLACES]
    return torch.stack(found, dim=1).numpy(), whole.numpy()
