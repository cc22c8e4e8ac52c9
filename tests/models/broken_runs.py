"""Measures every model file named on the command line in one process, and prints how each run ended, a line each."""

import io
import json
import sys
import tempfile
from functools import partial

from whichdevice.base.events import Emitter
from whichdevice.measure.backends import backend_class
from whichdevice.measure.process import run_request
from whichdevice.measure.run_end import run_to_end
from whichdevice.measure.trying.trial import request_for
from whichdevice.models.loading import Model

OPTIONS = {"rate": 0.01}
MEMORY = 8e9  # bytes; a fixed limit, so that the outcome does not depend on the machine


def main() -> None:
    """The ends, as a study would record them."""
    name, *files = sys.argv[1:]
    models = [*map(Model.read, files)]
    requests = [request_for(model, name, "float32", OPTIONS).model_copy(update={"batch_size": 32}) for model in models]
    backend = backend_class(name)(requests[0], 1)
    backend.start()
    backend.initialise()
    for model, request in zip(models, requests, strict=True):
        stream = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            job = {"folder": folder, "memory_limit": MEMORY}
            run_to_end(
                partial(run_request, backend, model, request, job, Emitter(stream)), backend, model, Emitter(stream)
            )
        print(stream.getvalue().splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
    print(json.dumps({"event": "all"}))
