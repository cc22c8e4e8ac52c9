"""The training step of an ordinary JAX script: the jitted function in which a gradient is taken.

`jax.jit` and its forms in Equinox and Flax NNX are replaced by functions that know what they are called with,
`jax.grad` and its forms by functions that end the tracing of the step: the outermost jitted function is the step. Where
steps run in a `jax.lax.scan`, its body is the step. Arguments that come back as a result of the same structure are the
state, other arrays are the batch. Modules of Flax NNX are split into their state and merged again; those of Equinox
keep what is no array.
"""

import inspect
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from whichdevice.base.errors import StudyError
from whichdevice.models.address import file_address
from whichdevice.models.costs import is_mixed
from whichdevice.models.data import repeated
from whichdevice.models.framework import JAX
from whichdevice.models.script.found import Found, JaxStep, Script
from whichdevice.models.script.run import ScriptRun, Watcher
from whichdevice.models.script.several import ALL_BATCHES, SHARED, divides_steps
from whichdevice.models.script.size import Stack, TrainingLength, amounts, is_whole
from whichdevice.models.script.text import attribute

COPIES = 4  # of the script's first batch, as data
RATE = 1e-3  # of a descent along gradients that the script applies outside of its step
OF_THE_STEP = SimpleNamespace(init=lambda trained: (), update=None)  # as an optimiser: it is inside of the step
MAX_OPERATIONS = 2e11  # of evaluations of the same shapes that are computed, a few seconds
MAX_REAL = 2**30  # bytes of a jitted function's results that have values here
MAX_CONSTANT = 1000  # numbers of an array that is no constant of the step's program
GRADIENTS = ("grad", "value_and_grad", "vjp")
LIBRARIES = ("jax", "jaxlib", "optax")  # whose jitted functions are no models
SEVERAL = re.compile(r"\bjax\.pmap\b|\b(Mesh|make_mesh|create_device_mesh|NamedSharding|PositionalSharding|pmap)\(")
PER_DEVICE = re.compile(r"\*\s*(jax\.)?(local_)?device_count\(\)")  # its batch is so many times one GPU's
AXES: list[Any] = []  # names of axes of devices, in a function of them that is traced
LOOPS = ("scan", "fori_loop", "while_loop")
WRITE = "or write a model file (docs/start/your-model.md)"


class Traced(NamedTuple):
    """The step's function with the arguments that the script gave it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class Turns:
    """A loop of JAX around the gradient."""

    name: str
    step: Traced | None = None  # its body; None where the loop takes no batch
    turns: int | None = None


@dataclass
class GradientTaken(BaseException):
    """A gradient is taken while a step is traced: ends the tracing."""

    loops: list[Turns] = field(default_factory=list)  # around it, the innermost first


class JittedCalled(BaseException):
    """A jitted function is called where a gradient is taken of it: ends the gradient."""


class Loss(NamedTuple):
    """A function of which a gradient is taken, and the places of the arguments it is taken by."""

    function: Callable[..., Any]
    places: tuple[int, ...]


class Watching(Watcher):
    """Stops a script where a gradient is taken in a jitted function, or of one."""

    package = "JAX"
    missing = "no function under jax.jit took a gradient"
    latest: ClassVar["Watching"]  # of the process: libraries keep the functions that an earlier one replaced

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        Watching.latest = self
        self._traces = 0  # jitted functions that are being traced
        self._gradients = 0  # that are being taken outside of jitted functions
        self._operations, self._evaluations = dict[Any, float](), Counter[Any]()  # of a call; how many there were
        self._losses: dict[Any, Loss] = {}  # of functions that give gradients

    def attach(self, package: ModuleType) -> None:
        """Replace what compiles and what takes gradients."""
        if package.__name__ == "equinox":
            self.replace(package, "filter_jit", self._compiling(package.filter_jit))
            return
        if package.__name__ == "flax.jax_utils":  # copies for devices, which one does not need
            self.replace(package, "replicate", lambda tree, devices=None: jax.tree.map(_view_for_devices, tree))
            self.replace(package, "prefetch_to_device", lambda iterator, *_, **__: iter(iterator))
            return
        self.replace(package, "jit", self._compiling(package.jit))
        if package is not jax:
            return
        self.replace(jax, "pmap", _on_one_device)
        for name in GRADIENTS:
            self.replace(jax, name, self._taking(getattr(jax, name), name == "vjp"))
        for name in LOOPS:
            self.replace(jax.lax, name, self._looping(name, getattr(jax.lax, name)))

    def _compiling(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for `jax.jit` and the like, which are also called with settings alone."""

        @wraps(original)
        def jit(*functions: Any, **settings: Any) -> Any:
            if not functions:
                return partial(jit, **settings)
            compiled = original(*functions, **settings)

            @wraps(functions[0])
            def call(*args: Any, **kwargs: Any) -> Any:
                return Watching.latest._call(functions[0], compiled, args, kwargs)

            for name in ("trace", "eval_shape", "clear_cache"):
                if hasattr(compiled, name):
                    setattr(call, name, getattr(compiled, name))
            if hasattr(compiled, "lower"):
                lower = partial(_lowered, functions[0], compiled)
                setattr(call, "lower", lower)  # noqa: B010 - mypy knows no attributes of a function
            return call

        return jit

    def _call(self, function: Any, compiled: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.run.over or self._traces:
            return compiled(*args, **kwargs)
        if self._gradients:
            raise JittedCalled
        self._traces += 1
        try:
            large = _without_memory(compiled, args, kwargs)
            known = self._evaluated(compiled, args, kwargs) if large is None else large
            return compiled(*args, **kwargs) if known is None else known
        except GradientTaken as taken:
            if (loss := self._losses.get(function)) is not None:
                function = _descent(*loss)
            self._stop(Traced(function, args, kwargs), taken.loops)
        finally:
            self._traces -= 1

    def _evaluated(self, compiled: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Ones in the shapes of an evaluation's results, where such evaluations have taken long; else None.

        An evaluation makes less than it is given, and nothing that may be its next argument.
        """
        if not type(compiled).__module__.startswith("jax"):
            return None
        given, made = (*args, *kwargs.values()), compiled.eval_shape(*args, **kwargs)
        parts = [made, *(made if isinstance(made, tuple | list) else ())]
        if _nbytes(made) >= _nbytes(given) or any(_same(part, value) for part in parts for value in given):
            return None
        call = id(compiled), str(jax.tree.map(_shape_of, given))
        if call not in self._operations:
            costs = compiled.lower(*args, **kwargs).cost_analysis()
            self._operations[call] = costs.get("flops", 0.0) if isinstance(costs, Mapping) else 0.0
        self._evaluations[call] += 1
        if self._evaluations[call] * self._operations[call] <= MAX_OPERATIONS:
            return None
        return jax.tree.map(lambda leaf: _example(leaf) if _is_key(leaf) else jax.numpy.ones_like(leaf), made)

    def _taking(self, original: Callable[..., Any], at_once: bool) -> Callable[..., Any]:
        """Stand in for `jax.grad` and the like, which give a function, and of `jax.vjp`, which takes it at once."""

        @wraps(original)
        def take(function: Any, *rest: Any, **settings: Any) -> Any:
            if at_once:
                return Watching.latest._take(Loss(function, (0,)), partial(original, function), rest, settings)
            slope = original(function, *rest, **settings)
            places = rest[0] if rest else settings.get("argnums", 0)
            loss = Loss(function, (places,) if isinstance(places, int) else tuple(places))

            @wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                return Watching.latest._take(loss, slope, args, kwargs)

            Watching.latest._losses[call] = loss
            return call

        return take

    def _take(self, loss: Loss, slope: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.run.over or self._gradients:
            return slope(*args, **kwargs)
        if self._traces:
            raise GradientTaken
        self._gradients += 1
        try:
            if not _tracers((args, kwargs)):
                slope(*args, **kwargs)
        except JittedCalled:
            self._stop(Traced(_descent(*loss), args, kwargs), [])
        finally:
            self._gradients -= 1
        where = f"{Stack(self.run.path).where}: the gradient is taken outside of jax.jit"
        self.run.stop(StudyError(f"{where}: put the step of one batch into one function with @jax.jit, {WRITE}"))

    def _looping(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for a loop of JAX, which a gradient that is taken in it leaves."""

        @wraps(original)
        def loop(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except GradientTaken as taken:
                with Watching.latest._at_rest():
                    inner = None if name != "scan" else inspect.signature(original).bind(*args, **kwargs).arguments
                    taken.loops.append(Turns(name) if inner is None else _scan(**inner))
                raise

        return loop

    @contextmanager
    def _at_rest(self) -> Iterator[None]:
        """Let gradients pass."""
        self._gradients += 1
        try:
            yield
        finally:
            self._gradients -= 1

    def _stop(self, step: Traced, loops: Sequence[Turns]) -> None:
        self.run.stop(partial(_script, Stack(self.run.path), step, loops))


def _on_one_device(
    function: Any = None,
    axis_name: Any = None,
    *,
    in_axes: Any = 0,
    static_broadcasted_argnums: Any = (),
    **settings: Any,
) -> Any:
    """Stand in for `jax.pmap`: a jitted function of what the first device has, whose results have that axis again."""
    if function is None:
        given = {"in_axes": in_axes, "static_broadcasted_argnums": static_broadcasted_argnums, **settings}
        return partial(_on_one_device, axis_name=axis_name, **given)
    static = static_broadcasted_argnums
    static = (static,) if isinstance(static, int) else tuple(static)

    alone = jax.jit(_with_axis(function, axis_name), static_argnums=static)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        axes = in_axes if isinstance(in_axes, list | tuple) else [in_axes] * len(args)
        kept = [place in static or axes[place] is None for place in range(len(args))]
        given = [arg if keeps else _of_first(arg) for arg, keeps in zip(args, kept, strict=True)]
        return jax.tree.map(_view_for_devices, alone(*given, **_of_first(kwargs)))

    return call


def _with_axis(function: Callable[..., Any], axis_name: Any) -> Callable[..., Any]:
    """A function that may name an axis of devices, of which there is one."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        AXES.append(axis_name)
        try:
            return _of_first(jax.vmap(lambda _: function(*args, **kwargs), axis_name=axis_name)(np.zeros(1)))
        finally:
            AXES.pop()

    return call


def _of_first(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: _view(leaf)[0], tree)


def _view_for_devices(leaf: Any) -> Any:
    return _view(leaf)[None]


def _view(leaf: Any) -> Any:
    """An array of which a part is no copy."""
    real = isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer) and not _is_key(leaf)
    return np.asarray(leaf) if real or not hasattr(leaf, "dtype") else leaf


def _lowered(function: Any, compiled: Any, *args: Any, **kwargs: Any) -> Any:
    """Stand in for a jitted function's method that compiles it ahead of time."""
    return Watching.latest._call(function, compiled.lower, args, kwargs)


def _script(stack: Stack, traced: Traced, loops: Sequence[Turns]) -> Script:
    """The script's step with its first batch; raises StudyError in one line where its arguments do not show them."""
    where = stack.where
    if loops and loops[0].step is None:
        raise StudyError(
            f"{where}: steps run inside of jax.lax.{loops[0].name}: call a jitted function of one step, {WRITE}"
        )
    step, batch = _step((loops[0].step if loops else None) or traced, where)
    size = len(next(iter(batch.values())))
    counts = _sizes(stack, loops, list(batch.values()))
    mixed = is_mixed(step.run, *jax.tree.map(_shape, (step.trained, step.held, batch)))
    counts |= _of_gpus(stack.path, size, bool(stack.amount.steps))
    training = Found(JAX, size, precision="mixed" if mixed else "single", line=stack.line, **counts)
    data = repeated({name: np.asarray(value) for name, value in batch.items()}, COPIES)
    both = (data,), (data,)  # for validation, too
    return Script(training, SimpleNamespace(model=lambda: step, data=lambda: both, optimizer=lambda: OF_THE_STEP))


def _of_gpus(path: Path, size: int, by_steps: bool) -> dict[str, Any]:
    """What several GPUs do not change, where the script's text is for them: each has a batch, or they share one."""
    texts = [file.read_text(encoding="utf-8") for file in file_address(str(path)).files()]
    if PER_DEVICE.search(text := "".join(texts)):
        keeps = "steps" if by_steps and not divides_steps(texts, ALL_BATCHES) else "examples"
        return {"keeps": keeps, "asks": None}
    return {"notes": (SHARED.format(gpus=4, batch=size),)} if SEVERAL.search(text) else {}


def _shape(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))


def _without_memory(compiled: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Zeros that take no memory, in the shapes of a jitted function's results, such as a large model's parameters.

    None of smaller results, and of other functions than those of `jax.jit` itself.
    """
    if not type(compiled).__module__.startswith("jax"):
        return None
    shapes = compiled.eval_shape(*args, **kwargs)
    if _nbytes(shapes) <= MAX_REAL:
        return None
    return jax.tree.map(
        lambda leaf: _example(leaf) if _is_key(leaf) else np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), shapes
    )


def _shape_of(leaf: Any) -> Any:
    return (leaf.shape, leaf.dtype) if _is_array(leaf) else leaf


def _nbytes(tree: Any) -> int:
    """Bytes of the arrays of a tree that are no keys."""
    arrays = (leaf for leaf in jax.tree.leaves(tree) if _is_array(leaf) and not _is_key(leaf))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in arrays)


def _tracers(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.core.Tracer)]


def _scan(f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, **_: Any) -> Turns:
    """A scan while it is traced: its body has a carry, a batch, and what it captures as an argument and a result."""
    turns = next((len(leaf) for leaf in jax.tree.leaves(xs)), None)
    if turns is None:
        return Turns("scan", turns=length)
    carry, first = jax.tree.map(_example, (init, jax.tree.map(lambda leaf: leaf[0], xs)))
    for axis_name in [*AXES]:
        f = _with_axis(f, axis_name)
    body, shapes = jax.make_jaxpr(f, return_shape=True)(carry, first)
    captured = [place for place, const in enumerate(body.consts) if isinstance(const, jax.core.Tracer)]
    given = [_example(body.consts[place]) for place in captured]
    consts = [None if place in captured else const for place, const in enumerate(body.consts)]

    def step(carry: Any, x: Any, held: Sequence[Any]) -> Any:
        values = list(consts)
        for place, value in zip(captured, held, strict=True):
            values[place] = value
        output = jaxpr_as_fun(body.replace(consts=values))(*jax.tree.leaves((carry, x)))
        carry, y = jax.tree.unflatten(jax.tree.structure(shapes), output)
        return carry, jax.tree.map(jax.numpy.mean, y), held

    return Turns("scan", Traced(step, (carry, first, given), {}), turns)


def _example(leaf: Any) -> Any:
    """Zeros in place of a tracer or a shape."""
    if not isinstance(leaf, jax.core.Tracer | jax.ShapeDtypeStruct):
        return leaf
    if _is_key(leaf):
        return jax.random.wrap_key_data(np.zeros(jax.eval_shape(jax.random.key_data, leaf).shape, np.uint32))
    return np.zeros(leaf.shape, leaf.dtype)


def _sizes(stack: Stack, loops: Sequence[Turns], batch: Sequence[Any]) -> dict[str, Any]:
    """Examples and epochs, where each turn of the script's own loops may be a loop of JAX."""
    shapes = [array.shape for array in batch]
    if not loops:
        around = stack.amount
        if around == TrainingLength(around.epochs):  # what it is over is a function's result
            around = around._replace(batches=Watching.latest.run.batches_of_loop)
        return amounts(stack.scopes, around, shapes, None, whole=is_whole(batch, stack.outside))
    outer = [loop.turns for loop in loops[1:]]
    inner, times = loops[0].turns or 1, math.prod(turns or 1 for turns in outer)
    around = stack.amount
    if around.steps:
        around = around._replace(steps=around.steps * inner * times)
    if None in outer:
        around = around._replace(unknown="a loop of jax.lax has no end that shows")
    counts = amounts(stack.scopes, around, shapes, inner * shapes[0][0])
    return counts if around.steps else counts | {"epochs": (counts["epochs"] or 1) * times}


def _descent(loss: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """A step of gradient descent for these arguments of a loss: the loss, then each argument anew."""

    def step(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten([args[place] for place in places])
        sloped = [place for place, leaf in enumerate(leaves) if _is_array(leaf) and "float" in str(leaf.dtype)]

        def again(arrays: list[Any]) -> list[Any]:
            values = list(leaves)
            for place, array in zip(sloped, arrays, strict=True):
                values[place] = array
            return list(jax.tree.unflatten(structure, values))

        def judged(arrays: list[Any]) -> Any:
            values = list(args)
            for place, value in zip(places, again(arrays), strict=True):
                values[place] = value
            output = loss(*values, **kwargs)
            return output[0] if isinstance(output, tuple) else output

        arrays = [leaves[place] for place in sloped]
        value, slopes = jax.value_and_grad(judged)(arrays)
        return value, *again([array - RATE * slope for array, slope in zip(arrays, slopes, strict=True)])

    return step


def _is_array(leaf: Any) -> bool:
    return attribute(leaf, "shape") is not None and attribute(leaf, "dtype") is not None


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _is_old_key(leaf: Any) -> bool:
    """Whether an array may be a key of random numbers as jax.random.PRNGKey makes it."""
    return leaf.dtype == np.uint32 and leaf.shape == (2,)


def _step(found: Traced, where: str) -> tuple[JaxStep, dict[str, Any]]:
    """The step as a function of its state and its batch, and the arrays of the first batch by name."""
    function, given = _functional(found._replace(args=jax.tree.map(_example, found.args)))
    news = _news(function, given)
    if not news:
        raise StudyError(
            f"{where}: the jitted step returns neither new parameters nor an argument's gradients: return them, {WRITE}"
        )
    paths, structure = jax.tree_util.tree_flatten_with_path(given)
    leaves = [leaf for _, leaf in paths]
    named = [(place, path[0].key, leaf) for place, (path, leaf) in enumerate(paths) if _is_array(leaf)]
    weights = {id(leaf) for leaf in _weights(given[next(iter(news))])}
    first = {id(leaf): place for place, name, leaf in reversed(named) if name in news}  # a mean of them is a copy
    trained = [place for place, name, leaf in named if id(leaf) in weights and first.get(id(leaf)) == place]
    held = [place for place, name, leaf in named if name in news and place not in trained]
    rows = [
        (place, name, leaf) for place, name, leaf in named
        if name not in news and leaf.ndim and not _is_key(leaf) and not _is_old_key(leaf)
    ]  # fmt: skip
    if not rows:
        raise StudyError(f"{where}: the jitted step takes no batch: give it the arrays of one as arguments, {WRITE}")
    size = _batch_size([(name, len(leaf)) for _, name, leaf in rows])
    size = min([*(len(leaf) for _, _, leaf in rows if _are_numbers(leaf, size)), size])
    batch = {f"input_{place}": (place, leaf) for place, _, leaf in rows if len(leaf) == size}

    taken = [place for place, _ in batch.values()]
    types = {place: jax.dtypes.canonicalize_dtype(leaf.dtype) for place, leaf in batch.values()}
    held += [place for place, _, leaf in rows if place not in taken and leaf.size > MAX_CONSTANT]

    for place in taken:
        leaves[place] = None  # its memory is free where the script lets go of it

    def one(new_trained: Any, new_held: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        values = list(leaves)
        for place, value in zip((*trained, *held), (*new_trained, *new_held), strict=True):
            values[place] = jax.random.wrap_key_data(value) if _is_key(leaves[place]) else value
        for place, dtype in types.items():
            values[place] = inputs[f"input_{place}"].astype(dtype)
        now = jax.tree.unflatten(structure, values)
        output = function(now)
        after = jax.tree.leaves(now | {name: new(output, now) for name, new in news.items()})
        single = (array for array in jax.tree.leaves(output) if _is_array(array) and not array.ndim)
        loss = next((array for array in single if "float" in str(array.dtype)), 0.0)

        def kept(places: list[int]) -> list[Any]:
            return [_plain(after[place]).astype(_plain(leaves[place]).dtype) for place in places]

        return kept(trained), kept(held), loss

    step = JaxStep([_plain(leaves[place]) for place in trained], [_plain(leaves[place]) for place in held], one)
    return step, {name: leaf for name, (_, leaf) in batch.items()}


def _are_numbers(leaf: Any, examples: int) -> bool:
    """Whether an array may be examples' numbers, of arrays that hold all of them: not 0, 1, 2 ..., as classes are.

    Those of a loop of JAX are zeros here.
    """
    if leaf.ndim != 1 or "int" not in str(leaf.dtype) or not 1 < len(leaf) < examples:
        return False
    return not np.any(leaf) or len(leaf) <= int(np.max(leaf)) < examples


def _batch_size(rows: Sequence[tuple[str, int]]) -> int:
    """The commonest length of arrays, given with their argument; of arguments whose arrays are equally long, if any."""
    lengths: dict[str, set[int]] = {}
    for name, length in rows:
        lengths.setdefault(name, set()).add(length)
    equal = [length for name, length in rows if len(lengths[name]) == 1]
    return Counter(equal or [length for _, length in rows]).most_common(1)[0][0]


def _functional(found: Traced) -> tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]:
    """The step as a function of its arguments by name; modules of NNX, which it changes, as their state."""
    given = {str(place): value for place, value in enumerate(found.args)} | dict(found.kwargs)

    def call(now: Mapping[str, Any]) -> Any:
        args = [now[str(place)] for place in range(len(found.args))]
        return found.function(*args, **{name: now[name] for name in found.kwargs})

    if "flax.nnx" not in sys.modules:
        return call, given
    from flax import nnx

    modules = {name: value for name, value in given.items() if isinstance(value, nnx.Pytree)}
    if not modules:
        return call, given
    graph, state = nnx.split(modules)

    def changed(now: dict[str, Any]) -> Any:
        merged = nnx.merge(graph, now["modules"])
        output = call(now | merged)
        return nnx.split(merged)[1], output

    return changed, {"modules": state} | {name: value for name, value in given.items() if name not in modules}


New = Callable[[Any, Mapping[str, Any]], Any]  # (what the step returns, its arguments) to an argument's new value


def _news(function: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> dict[str, New]:
    """How each argument that is the state follows from what the step returns."""
    output = _shapes(function, given)
    parts = [output, *(output if type(output) is tuple else ())]

    def part(place: int) -> New:
        return lambda out, _: out[place - 1] if place else out

    news: dict[str, New] = {}
    for single in (False, True):  # an array by itself may be like a prediction by chance
        free = list(range(len(parts)))
        for name, value in {} if news else given.items():
            place = next((index for index in free if _is_array(value) == single and _same(parts[index], value)), None)
            if place is not None:
                free.remove(place)
                news[name] = part(place)
    if not news:  # gradients of a TrainState's parameters
        for name, value in given.items():
            place = next((index for index, tree in enumerate(parts) if _same(tree, attribute(value, "params"))), None)
            if place is not None and hasattr(value, "apply_gradients"):
                return {name: partial(_applied, name, part(place))}
    return news


def _applied(name: str, gradients: New, output: Any, now: Mapping[str, Any]) -> Any:
    return now[name].apply_gradients(grads=gradients(output, now))


def _shapes(function: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> Any:
    """Return the shapes of what the step returns; what is no array is a constant, as in the script."""
    leaves, structure = jax.tree.flatten(given)
    places = [place for place, leaf in enumerate(leaves) if _is_array(leaf)]
    made: list[Any] = []

    def of(arrays: list[Any]) -> Any:
        values = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            values[place] = array
        made[:] = jax.tree.flatten(function(jax.tree.unflatten(structure, values)))
        return [value if _is_array(value) else None for value in made[0]]

    shapes = jax.eval_shape(of, [leaves[place] for place in places])
    both = zip(made[0], shapes, strict=True)
    return jax.tree.unflatten(made[1], [value if shape is None else shape for value, shape in both])


def _same(one: Any, other: Any) -> bool:
    """Whether two trees have the same structure and arrays of the same shapes, at least one."""
    first, second = (jax.tree.flatten(tree) for tree in (one, other))
    shapes = [[getattr(leaf, "shape", ()) for leaf in leaves] for leaves, _ in (first, second)]
    return any(map(_is_array, second[0])) and first[1] == second[1] and shapes[0] == shapes[1]


def _weights(state: Any) -> list[Any]:
    """The parameters of a state: those of a TrainState or of NNX, or the part of which another has zeros inside.

    An optimiser's moments are such zeros; a layer that starts with zeros is a part itself. Else all of it.
    """
    if "flax.nnx" in sys.modules:
        from flax import nnx

        if isinstance(state, nnx.State):
            return jax.tree.leaves(nnx.filter_state(state, nnx.Param))
    parts = list(state.values()) if isinstance(state, Mapping) else list(state) if isinstance(state, tuple) else []
    for part in parts:
        inner = [subtree for subtree in jax.tree.leaves(parts, is_leaf=partial(_same, part)) if _same(part, subtree)]
        same = [subtree for subtree in inner if all(subtree is not other for other in parts)]
        if any(not any(map(np.any, jax.tree.leaves(subtree))) for subtree in same):
            return jax.tree.leaves(part)
    return jax.tree.leaves(getattr(state, "params", state))


def _plain(leaf: Any) -> Any:
    """A key of random numbers as the numbers that it is of."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
