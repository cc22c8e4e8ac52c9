"""Runs of mode generate in one process of a backend: `python generation_behaviour.py JOB.json RESULT.json`."""

import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
from backends.scenario import REQUEST, ROOT

PLACES = 6  # tokens generated one by one beside the prompt's


def generated(folder: Path, runs: dict[str, dict], **request) -> dict[str, dict]:
    """For each run the parts of its record, or why it is refused; all in one process."""
    asked = {**REQUEST, "mode": "generate", "learn": False, "epochs": 0, "seconds": 0.1, "min_steps": 20, **request}
    job, result = folder / "job.json", folder / "result.json"
    job.write_text(json.dumps({"request": asked, "runs": runs}))
    from whichdevice.backends import backend_class
    from whichdevice.records.schema import Request

    variables = backend_class(asked["backend"]).environment(Request(**asked), 2)
    path = os.pathsep.join([str(ROOT / "scripts"), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, __file__, str(job), str(result)],
        env={**os.environ, **variables, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(result.read_text())


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    from whichdevice.backends import backend_class
    from whichdevice.errors import StudyError
    from whichdevice.measuring.events import Emitter
    from whichdevice.measuring.process import run_request
    from whichdevice.models.loading import workload_class
    from whichdevice.records.schema import Request

    found = {}
    for name, asked in job["runs"].items():
        request = Request(**{**job["request"], **asked})
        backend = backend_class(request.backend, workload_class(request.module).framework)(request, 2)
        backend.start()
        backend.initialise()
        stream = StringIO()
        try:
            run_request(backend, request, {"folder": ".", "memory_limit": 1e11}, Emitter(stream))
            parts: dict = {}
            for message in map(json.loads, stream.getvalue().splitlines()):
                if message["event"] == "part":
                    parts.setdefault(message["place"], {}).update(message["value"])
            found[name] = {**parts, "difference": difference(backend, request)}
        except StudyError as error:
            found[name] = {"refused": str(error)}
    Path(sys.argv[2]).write_text(json.dumps(found))


def difference(backend, request) -> float:
    """The largest, between scores with a cache and those of the whole sequence without, as a share of the latter."""
    from whichdevice.models.loading import workload_class
    from whichdevice.workloads.base import Options

    options = Options(request.batch_size, request.precision, 1.0, request.sequence_length, request.options)
    workload = workload_class(request.module)(options)
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
    scores, cache = how.call(tokens[:, :prompt], how.empty_cache(*tokens.shape), 0)
    step, found = jax.jit(how.call), [scores]
    for place in range(prompt, prompt + PLACES):
        scores, cache = step(tokens[:, place : place + 1], cache, np.int32(place))
        found.append(scores)
    inputs = tokens
    if isinstance(model.input, dict):
        inputs = {"token_ids": tokens, "padding_mask": np.ones_like(tokens)}
    whole = keras.ops.convert_to_numpy(model(inputs))[:, prompt - 1 : prompt + PLACES]
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


if __name__ == "__main__":
    main()
