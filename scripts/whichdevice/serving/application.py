"""The prediction service as a web application: TensorFlow Serving's REST API for one version of each model.

Whatever is wrong with a request is answered with its status and {"error": reason}; nothing a client sends ends it.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from whichdevice.serving.request_body import Inputs, MalformedRequestError, parse_body
from whichdevice.serving.saved_model import SIGNATURE, RefusedInputsError, ServedModel

VERSION = "1"
BODY_SECONDS = 30.0  # within which a request's body must have arrived
DTYPES = {"float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}  # others are named alike
BARE = "/v1/bare"  # takes a body and does nothing with it: what HTTP alone costs


@dataclass(frozen=True)
class Limits:
    """What one server takes on."""

    largest_batch: int = 4096  # examples in a request
    largest_body: int = 8 * 2**20  # bytes; parsed, JSON takes some ten times as much
    workers: int = 2  # predictions at the same time
    waiting: int = 256  # requests that may wait for one of them; further ones get 503


@dataclass
class Service:
    """The models of a server, by name, and how busy it is."""

    models: Mapping[str, ServedModel]
    limits: Limits
    busy: int = 0
    limiter: CapacityLimiter = field(init=False)

    def model(self, request: Request) -> tuple[str, ServedModel]:
        """The model that the address names; raises HTTPException 404."""
        name = request.path_params["name"]
        if name.endswith(":predict") and request.method != "POST":
            raise HTTPException(405, "predictions are asked for by POST")
        if name not in self.models:
            raise HTTPException(404, f"no model {name[:80]!r}; there are {', '.join(self.models)}")
        version = request.path_params.get("version", VERSION)
        if version != VERSION:
            raise HTTPException(404, f"no version {version[:20]!r} of {name}; there is {VERSION}")
        return name, self.models[name]

    async def status(self, request: Request) -> Response:
        """GET /v1/models/<name>: that it is at hand."""
        self.model(request)
        state = {"version": VERSION, "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        return JSONResponse({"model_version_status": [state]})

    async def metadata(self, request: Request) -> Response:
        """GET /v1/models/<name>/metadata: its signature."""
        name, model = self.model(request)
        signature = {
            "inputs": {model.input.name: _tensor(model.input)},
            "outputs": {model.output.name: _tensor(model.output)},
            "method_name": "tensorflow/serving/predict",
        }
        return JSONResponse(
            {
                "model_spec": {"name": name, "signature_name": "", "version": VERSION},
                "metadata": {"signature_def": {"signature_def": {SIGNATURE: signature}}},
            }
        )

    async def listing(self, request: Request) -> Response:
        """GET /v1/models: names of the models. TensorFlow Serving has no such address."""
        return JSONResponse({"models": list(self.models)})

    async def predict(self, request: Request) -> Response:
        """POST /v1/models/<name>:predict."""
        _, model = self.model(request)
        if self.busy >= self.limits.workers + self.limits.waiting:
            reason = f"{self.busy} requests are being answered or wait; try again"
            return _error(503, reason, {"Retry-After": "1"})
        self.busy += 1
        try:
            body = await self._body(request)
            answer = await run_sync(self._answer, body, model, limiter=self.limiter)
        finally:
            self.busy -= 1
        return Response(answer, media_type="application/json")

    async def bare(self, request: Request) -> Response:
        """POST /v1/bare: the body is read and nothing is done."""
        await self._body(request)
        return Response(b"{}", media_type="application/json")

    async def _body(self, request: Request) -> bytes:
        most, parts, size = self.limits.largest_body, [], 0
        announced = request.headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > most:
            raise HTTPException(413, _too_large(most))
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise HTTPException(413, _too_large(most))
                    parts.append(part)
        except TimeoutError:
            raise HTTPException(408, f"the body did not arrive within {BODY_SECONDS:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the connection ended before the body did") from None
        return b"".join(parts)

    def _answer(self, body: bytes, model: ServedModel) -> bytes:
        """Parse, predict and write, all in one thread of its own."""
        inputs = parse_body(body, model.input, self.limits.largest_batch)
        try:
            return written(inputs, model.predict(inputs.array))
        except RefusedInputsError as error:
            raise MalformedRequestError(str(error)) from None


def written(inputs: Inputs, predictions: Any) -> bytes:
    """Predictions in the form that fits the request's; each float32 is written so that it reads back the same."""
    key = "predictions" if inputs.form == "instances" else "outputs"
    try:
        return json.dumps({key: predictions.tolist()}, allow_nan=False).encode()
    except ValueError:
        raise HTTPException(500, "the model predicted a number that is not finite") from None


def application(models: Mapping[str, ServedModel], limits: Limits) -> Starlette:
    """The web application for these models."""
    service = Service(models, limits)
    service.limiter = CapacityLimiter(limits.workers)
    of_model = "/v1/models/{name:str}"
    of_version = f"{of_model}/versions/{{version:str}}"
    routes = [Route("/v1/models", service.listing), Route(BARE, service.bare, methods=["POST"])]
    for address in (of_version, of_model):
        routes += [
            Route(f"{address}:predict", service.predict, methods=["POST"]),
            Route(f"{address}/metadata", service.metadata),
            Route(address, service.status),
        ]
    handlers: dict[Any, Any] = {
        MalformedRequestError: lambda request, error: _error(error.status, str(error)),
        HTTPException: lambda request, error: _error(error.status_code, error.detail, error.headers),
        Exception: lambda request, error: _error(500, f"{type(error).__name__}: a fault of the server, see its output"),
    }
    return Starlette(routes=routes, exception_handlers=handlers)


def _error(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """The connection is closed, for what is left of a refused body would be read as the next request."""
    return JSONResponse({"error": reason}, status, {"Connection": "close", **(headers or {})})


def _too_large(most: int) -> str:
    return f"the body is too large; at most {most} bytes"


def _tensor(specification: Any) -> dict[str, Any]:
    """As TensorFlow Serving writes it: sizes are strings, -1 is any."""
    sizes = [{"size": str(-1 if size is None else size), "name": ""} for size in specification.shape]
    dtype = DTYPES.get(specification.dtype, specification.dtype.upper())
    return {
        "dtype": f"DT_{dtype}",
        "tensor_shape": {"dim": sizes, "unknown_rank": False},
        "name": specification.name,
    }
