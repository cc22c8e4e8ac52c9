"""Serve a study's exported models on loopback, in TensorFlow Serving's REST form: `serve --study quick`."""

import argparse
from pathlib import Path

from whichdevice.errors import StudyError

MEBIBYTE = 2**20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--study", default="quick", help="results/<study>/models is served (default: quick)")
    parser.add_argument("--model", help="only this one")
    parser.add_argument("--port", type=int, default=8501, help="on 127.0.0.1; 0 takes any free one (default: 8501)")
    parser.add_argument("--largest-batch", type=_count, default=4096, help="examples in a request")
    parser.add_argument("--largest-body", type=_count, default=8, metavar="MIB", help="size of a request's body")
    parser.add_argument("--workers", type=_count, help="predictions at the same time (default: one for each core)")
    parser.add_argument("--waiting", type=_count, default=256, help="requests that may wait; further ones get 503")


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    import importlib.util

    if missing := [name for name in ("uvicorn", "starlette", "httptools") if importlib.util.find_spec(name) is None]:
        raise StudyError(f"serve: {missing[0]} is not installed in this environment: sh envs/extra.sh serve")
    from whichdevice.host.affinity import usable_cores
    from whichdevice.serving.application import Limits, application
    from whichdevice.serving.exported import exports, load_exported, start_tensorflow
    from whichdevice.serving.server import HOST, bound_socket, serve_until_stopped

    models = Path("results") / args.study / "models"
    found = exports(models, args.model)
    listener = bound_socket(args.port)
    port = listener.getsockname()[1]
    start_tensorflow()
    loaded = {name: load_exported(models / name, record) for name, record in found.items()}
    for name, model in loaded.items():
        shape = ", ".join("any" if size is None else str(size) for size in model.input.shape[1:])
        warning = "" if found[name].status == "ok" else f" (its check failed: {found[name].reason})"
        print(f"{name}: POST http://{HOST}:{port}/v1/models/{name}:predict", end=" ")
        print(f'{{"instances": [...]}}, each {model.input.dtype} [{shape}]{warning}', flush=True)
    print("Ctrl-C ends it.", flush=True)
    limits = Limits(args.largest_batch, args.largest_body * MEBIBYTE, args.workers or usable_cores(), args.waiting)
    serve_until_stopped(application(loaded, limits), listener)
    print("Stopped.", flush=True)
    return 0


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value
