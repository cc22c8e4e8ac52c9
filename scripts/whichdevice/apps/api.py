"""The answer for a model in Python: `whichdevice.ask(model, x, y, examples=60_000, epochs=10)`.

An object goes to the processes that measure and forecast it as files: a Keras model as .keras, a module of PyTorch, own
classes and functions by cloudpickle, as classes of a notebook do not pickle by their names. They are written into a
folder of the user's cache with a small model file that reads them; from there it is a file like any other. A month
after the last question about it it is removed.
"""

import hashlib
import html
import inspect
import os
import pickle  # nosec B403  # of objects that the same user made
import re
import shlex
import shutil
import textwrap
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from whichdevice.apps.commands import ask as command
from whichdevice.apps.commands import serve as serve_command
from whichdevice.apps.commands import values
from whichdevice.apps.questions.question import Question
from whichdevice.base.errors import StudyError
from whichdevice.base.files import write_atomically
from whichdevice.decide import Answer, Option, Wants
from whichdevice.decide.decide import DEADLINE_HOURS, HOUR, By
from whichdevice.decide.serving import ServerOption, Serving
from whichdevice.decide.words import why_words
from whichdevice.models.address import ARGUMENTS
from whichdevice.models.fingerprint import fingerprint
from whichdevice.models.loading import Model
from whichdevice.models.model_file import FRAMEWORKS

if TYPE_CHECKING:
    import pandas as pd

    from whichdevice.models.script.torch_live import Watch

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whichdevice"
KEPT_SECONDS = 30 * 86400.0  # of a model that is no longer asked about
MOST_EXAMPLES = 4096  # of the given data that processes read
BATCH = 32
FULL_BATCHES = 10  # of the given data, from which on they are the whole data rather than a sample
WITHOUT_CLOUDPICKLE = "ask: classes and functions of your own need cloudpickle: pip install cloudpickle"
MODEL_FILE = '''"""A model that whichdevice.ask was given. It writes this file; {identity}."""

import pickle
from pathlib import Path

import {imported}

FRAMEWORK, BATCH_SIZE = "{framework}", {batch}
HERE = Path(__file__).parent


def held(name):
    return pickle.loads((HERE / f"{{name}}.pickle").read_bytes())
'''
MODEL_FILE_PARTS = {
    "keras": """
        def model():
            return keras.saving.load_model(HERE / "model.keras", custom_objects=held("own"), safe_mode=False)
        """,
    "model": """
        MODEL = held("model")  # before shapes alone are asked for


        def model():
            return MODEL
        """,
    "data": """
        def data():
            return held("data")
        """,
    "loss": """
        def loss(output, target):
            return held("loss")(output, target)
        """,
    "optimizer": """
        def optimizer(model):
            return held("optimizer")(model)
        """,
}


@dataclass(frozen=True)
class Device:
    """A device for the whole training; seconds, hours, USD and the ends of their 80 % intervals; None: not known."""

    device: str
    fits: bool | None
    evidence: str  # measured or forecast
    step: float | None
    hours: float | None
    hours_low: float | None
    hours_high: float | None
    usd: float | None
    usd_low: float | None
    usd_high: float | None
    kwh: float | None
    sure: float | None  # chance that no choice is better
    ruled_out: str | None  # why it is no choice, in words


class Shown:
    """An answer that `print` shows as text; each device of it is made by `known`."""

    def __init__(self, answer: Any, known: Callable[[Any], Any]) -> None:
        self.answer, self._known = answer, known

    @property
    def best(self) -> Any:
        """The pick; None where there is none, which `print` explains."""
        return None if self.answer.pick is None else self._known(self.answer.pick)

    def to_frame(self) -> "pd.DataFrame":
        """Return a row for each option, the pick first."""
        import pandas as pd

        return pd.DataFrame([asdict(self._known(option)) for option in self.answer.options]).set_index("device")

    def __repr__(self) -> str:
        from whichdevice.decide.words import text

        return "\n".join(text(self.answer))


class Asked(Shown):
    """The answer: shown by a notebook with its chart, by `print` as text."""

    best: Device | None
    answer: Answer

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer, _known)

    @property
    def cheapest(self) -> Device | None:
        """The cheapest choice, whatever the deadline."""
        return None if self.answer.cheapest is None else _known(self.answer.cheapest)

    @property
    def fastest(self) -> Device | None:
        """The fastest choice, whatever it costs."""
        return None if self.answer.fastest is None else _known(self.answer.fastest)

    @property
    def sure(self) -> float | None:
        """The chance that no choice is better than the pick."""
        return None if self.answer.pick is None else self.answer.pick.sure

    def __getitem__(self, device: str) -> Device:
        """Return the device of this name."""
        names = [option.device for option in self.answer.options]
        if device not in names:
            raise KeyError(f"{device}: not asked about; there are {', '.join(names)}")
        return _known(self.answer.options[names.index(device)])

    def _repr_html_(self) -> str:
        """Return the page in a frame, in which its script runs."""
        from whichdevice.study.report.page import page
        from whichdevice.study.report.verdict import answer_parts

        return _frame(page("ask.html", answers=[answer_parts(self.answer)]), "Which device?")


def _frame(page: str, name: str) -> str:
    """Return a page in a frame."""
    return f'<iframe srcdoc="{html.escape(page)}" width="100%" height="900" style="border:0" title="{name}"></iframe>'


def ask(
    model: Any,
    x: Any = None,
    y: Any = None,
    *,
    loss: Callable[[Any, Any], Any] | None = None,
    optimizer: Callable[[Any], Any] | None = None,
    batch_size: int | None = None,
    examples: float | None = None,
    epochs: float | None = None,
    devices: Sequence[str] | None = None,
    by: By = "cost",
    deadline_h: float = DEADLINE_HOURS,
    prices: Mapping[str, float] | None = None,
    spot: bool = False,
    measure: bool = True,
) -> Asked:
    """Which device for this model: measured on this machine's CPU and forecast for `devices`, ten unless named.

    `model` is a file or a built-in name as in `whichdevice ask`, a compiled Keras model, or a torch.nn.Module. `x` and
    `y` are arrays of examples, or x gives such pairs; a module needs them, and `loss(output, target)` unless it has its
    own; `optimizer(module)` is AdamW unless given. `examples` is how many an epoch has; unless given, x is counted.
    `prices` are yours of an hour by device. Raises StudyError in one line.
    """
    script_arguments: tuple[str, ...] = ()
    if isinstance(model, str | Path):
        name, _, after = str(model).partition(ARGUMENTS)
        script_arguments = tuple(shlex.split(after))
    else:
        name, given = _as_file(model, x, y, loss, optimizer, batch_size)
        examples, batch_size = given if examples is None else examples, None  # the file has it
    if by not in get_args(By):
        raise StudyError(f"ask: by is {by!r}; it must be one of {', '.join(get_args(By))}")
    wants = Wants(
        examples=values.positive("ask: examples", examples),
        epochs=values.positive("ask: epochs", epochs),
        by=by,
        deadline=(values.positive("ask: deadline_h", deadline_h) or DEADLINE_HOURS) * HOUR,
        prices=values.prices_of([f"{name}={usd:f}" for name, usd in (prices or {}).items()]),
        spot=spot,
    )
    question = Question(
        model=Model.read(name),
        wants=wants,
        devices=None if devices is None else tuple(devices),
        batch=values.at_least_one("ask: batch_size", batch_size),
        measuring=measure,
        script_arguments=script_arguments,
    )
    _, answers = command.answered(question)
    return Asked(answers[0])


@dataclass(frozen=True)
class ServingDevice:
    """Servers for the load; USD of all of them, requests a second of one, seconds and tokens a second of one user."""

    device: str
    devices: int
    servers: int
    weights: str
    engine: str
    fits: bool
    sure: float | None  # chance that they answer the load in time
    alone: float  # seconds to the first token, or to the image
    tokens_per_second: float
    max_rps_low: float
    max_rps: float
    max_rps_high: float
    max_requests: int
    max_context: int
    usd_per_hour: float | None
    usd_million: float | None


class Served(Shown):
    """The answer about serving: shown by a notebook as its page, by `print` as text."""

    best: ServingDevice | None
    answer: Serving

    def __init__(self, answer: Serving) -> None:
        super().__init__(answer, _serving_device)

    def _repr_html_(self) -> str:
        from whichdevice.decide.words import page_parts
        from whichdevice.study.report.page import page
        from whichdevice.study.report.serving_pictures import pictures

        parts = page_parts(self.answer, pictures(self.answer))
        return _frame(page("ask.html", answers=[parts]), "Which server?")


def serve(
    model: str,
    *,
    rps: float | None = None,
    tokens: tuple[int, int] | None = None,
    ttft: float | None = None,
    tpot: float | None = None,
    latency: float | None = None,
    weights: str | None = None,
    devices: Sequence[str] | None = None,
    prices: Mapping[str, float] = {},
) -> Served:
    """Return which machine serves a model of Hugging Face so many requests a second, or one user.

    A language model has `tokens` of a prompt and of its answer, and `ttft` and `tpot`, the seconds to the first token
    and from token to token that must hold. A model that makes images or videos has `latency`, the seconds to one.
    `prices` is what an hour of a device costs you. Raises StudyError in one line.
    """
    given = {
        "rps": rps, "tokens": None if tokens is None else "{},{}".format(*tokens), "weights": weights,
        "devices": None if devices is None else ",".join(devices),
        "price": [f"{device}={usd:g}" for device, usd in prices.items()],
    }  # fmt: skip
    seconds = {"ttft": ttft, "tpot": tpot, "latency": latency}
    given |= {key: None if value is None else f"{value:g}s" for key, value in seconds.items()}
    parser = ArgumentParser()
    serve_command.add_arguments(parser)
    return Served(serve_command.served(Namespace(**(vars(parser.parse_args(["--", model])) | given))))


def _serving_device(option: ServerOption) -> ServingDevice:
    server = option.row
    low, middle, high = (server.quantile(share) for share in (0.1, 0.5, 0.9))
    return ServingDevice(
        server.card, option.servers * server.devices, option.servers, server.precision, server.software,
        bool(server.fits),
        option.sure, server.first_token, server.one_user[1], low, middle, high, server.max_requests, server.max_context,
        option.usd_per_hour, option.usd_million,
    )  # fmt: skip


def watch(model: Any, optimizer: Any) -> "Watch":
    """The training step of a PyTorch loop that trains on; a notebook's or a script's.

    with wd.watch(model, optimizer) as step:
        ...                                 # the loop, or its first step
    step.ask(examples=60_000, epochs=10)    # with the options of `ask`, for the first step's modules, loss and batch

    In a script that `whichdevice ask` runs, this optimiser's training is the one that is meant. Raises StudyError where
    they are not PyTorch's.
    """
    kinds = [{part.__module__.partition(".")[0] for part in type(given).__mro__} for given in (model, optimizer)]
    if not all("torch" in part for part in kinds):
        raise StudyError("watch: a torch.nn.Module and a torch.optim.Optimizer are needed")
    from whichdevice.models.script.torch_live import Watch

    return Watch(optimizer, ask, CACHE)


def _as_file(model: Any, x: Any, y: Any, loss: Any, optimizer: Any, batch_size: int | None) -> tuple[str, int | None]:
    """The model file of an object, and how many examples it was given, where they are the whole data."""
    if x is not None and y is None and not hasattr(x, "shape") and not isinstance(x, Mapping | list | tuple):
        x, y = next(iter(x))[:2]  # a Dataset or a DataLoader: its first batch
        batch_size = batch_size or len(next(_arrays(x)))
    batch = batch_size or BATCH
    given = 0 if x is None else len(next(_arrays(x)))
    return str(_written(model, x, y, loss, optimizer, batch)), given if given >= FULL_BATCHES * batch else None


def _written(model: Any, x: Any, y: Any, loss: Any, optimizer: Any, batch: int) -> Path:
    """The model file of an object. The same model at the same batch and shapes has the same one, so it is known."""
    kinds = {part.__module__.partition(".")[0] for part in type(model).__mro__}
    if "keras" in kinds:
        return _write_keras(model, x, y, batch)
    if "torch" not in kinds:
        raise StudyError(
            f"ask: a {type(model).__name__} is not a file, a compiled Keras model or a torch.nn.Module; write a "
            "JAX function into a file: docs/start/your-model.md"
        )
    if x is None:
        raise StudyError("ask: a torch.nn.Module needs a batch of examples: ask(module, x, y, loss=...)")
    held = {"model": model, "data": _data(x, y, batch)}
    held |= {name: part for name, part in (("loss", loss), ("optimizer", optimizer)) if part is not None}
    identity = [fingerprint([model, loss, optimizer])]
    return _write(type(model).__name__, "torch", "torch", identity, held, list(held), batch)


def _write_keras(model: Any, x: Any, y: Any, batch: int) -> Path:
    import keras

    if not model.compiled:
        raise StudyError("ask: the Keras model is not compiled: call model.compile(...) first")
    if not model.built and x is not None:
        model(_mapped(lambda array: array[:1], _plain(x)))
    layers, waiting = [model], [model]
    while waiting:
        inner = getattr(waiting.pop(), "layers", [])
        layers, waiting = layers + inner, waiting + inner
    losses = list(model.loss.values() if isinstance(model.loss, dict) else np.ravel(model.loss))
    known = [*map(type, layers), *(layer if inspect.isroutine(layer) else type(layer) for layer in losses)]
    classes = {layer.__name__: layer for layer in known if layer.__module__.partition(".")[0] not in FRAMEWORKS}
    held = {"own": classes} | ({} if x is None else {"data": _data(x, y, batch)})
    config = model.to_json() + repr(model.get_compile_config())
    config = re.sub(r"_\d+(?=['\"])", "", config)  # Keras numbers the models, layers and optimizers of a session
    identity = [config, fingerprint(list(classes.values())), fingerprint([one for one in losses if callable(one)])]
    imported = f"keras\nimport {keras.backend.backend()}"
    return _write(
        model.name, "keras", imported, identity, held, ["keras", *(["data"] * (x is not None))], batch, model.save
    )


def _write(
    name: str, framework: str, imported: str, identity: Sequence[str], held: Mapping[str, Any], parts: Sequence[str],
    batch: int, save: Callable[[Path], Any] | None = None,
) -> Path:  # fmt: skip
    shapes = [f"{array.shape[1:]} {array.dtype}" for array in _arrays(held.get("data", ()))]
    key = hashlib.sha256("\n".join([*identity, *shapes, *parts, str(batch)]).encode()).hexdigest()[:16]
    file = CACHE / key / f"{re.sub(r'[^A-Za-z0-9_]|_[0-9]+$', '_', name).strip('_')}.py"
    for other in CACHE.glob("*/"):
        if other != file.parent and time.time() - other.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(other, ignore_errors=True)
    if file.is_file():
        os.utime(file.parent)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        for value_name, value in held.items():
            (file.parent / f"{value_name}.pickle").write_bytes(_pickled(value))
        if save is not None:
            save(file.parent / "model.keras")
        head = MODEL_FILE.format(imported=imported, framework=framework, batch=batch, identity=key)
        head += 'OPTIMIZER = "AdamW"\n' * (framework == "torch" and "optimizer" not in parts)
        write_atomically(head + "".join("\n" + textwrap.dedent(MODEL_FILE_PARTS[part]) for part in parts), file)
    return file


def _pickled(value: Any) -> bytes:
    """Pickle by value what a notebook or script defines; raises StudyError where that needs a missing package."""
    plain = find_spec("cloudpickle") is None
    writer = pickle if plain else import_module("cloudpickle")
    try:
        pickled = bytes(writer.dumps(value))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise StudyError(WITHOUT_CLOUDPICKLE if plain else f"ask: this does not pickle: {error}") from error
    if plain and b"__main__" in pickled:
        raise StudyError(WITHOUT_CLOUDPICKLE)
    return pickled


def _data(x: Any, y: Any, batch: int) -> tuple[Any, ...]:
    """Arrays of at most MOST_EXAMPLES, at least two batches: as many as there are, again and again."""
    examples = _plain(x) if y is None else (_plain(x), _plain(y))
    count = len(next(_arrays(examples)))
    rows = np.arange(min(max(count, 2 * batch), max(MOST_EXAMPLES, 2 * batch))) % count
    return _mapped(lambda array: array[rows], examples)


def _plain(tree: Any) -> Any:
    """The same structure of NumPy arrays."""
    return _mapped(lambda array: np.asarray(array.detach().cpu() if hasattr(array, "detach") else array), tree)


def _mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _mapped(function, part) for key, part in tree.items()}
    return tuple(_mapped(function, part) for part in tree) if isinstance(tree, tuple) else function(tree)


def _arrays(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping | tuple):
        for part in tree.values() if isinstance(tree, Mapping) else tree:
            yield from _arrays(part)
    else:
        yield tree


def _known(option: Option) -> Device:
    row = option.row
    ends = (option.seconds, option.seconds_low, option.seconds_high)
    hours, low, high = (seconds and seconds / HOUR for seconds in ends)
    return Device(
        option.device, row.fits, row.evidence, row.step_time, hours, low, high, option.usd, option.usd_low,
        option.usd_high, option.kwh, option.sure, None if option.ruled_out is None else why_words(option.ruled_out),
    )  # fmt: skip
