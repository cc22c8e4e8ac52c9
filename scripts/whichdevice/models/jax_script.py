"""The training step of an ordinary JAX script: the jitted function in which a gradient is taken.

Python's profile hook sees the functions of the script's own files. One that is called with tracers is traced by
`jax.jit`; where inside of it another is called with the tracers of a gradient, it is the step. The nearest caller that
holds arrays where the step has tracers gives its arguments. Where steps run in a `jax.lax.scan`, its body is the step.
Arguments that come back as a result of the same structure are the state, other arrays are the batch. Modules of Flax
NNX are split into their state and merged again; those of Equinox keep what is no array.
"""

import inspect
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import CellType, CodeType, FrameType, FunctionType, SimpleNamespace
from typing import Any, NamedTuple

import jax
import numpy as np

from whichdevice.errors import StudyError
from whichdevice.models.framework import JAX
from whichdevice.models.script_run import NAME_IT, Found, JaxStep, Script, Started, line_of, watch
from whichdevice.models.script_size import frames, is_whole, loops_in, outside, own_files, sizes

COPIES = 4  # of the script's first batch, as data
RATE = 1e-3  # of a descent along gradients that the script applies outside of its step
OF_THE_STEP = SimpleNamespace(init=lambda trained: (), update=None)  # as an optimiser: it is inside of the step
LARGE = 1000  # numbers of an array that is no constant of the step's program
LOOPS = ("scan", "fori_loop", "while_loop")
WRITE = "or write a model file (docs/start/your-model.md)"


class Traced(NamedTuple):
    """The step's function with the arguments that the script gave it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    differentiated: tuple[int, ...] = ()  # arguments whose gradients the script takes of it, if it is a loss


def start_jax(path: Path) -> Script:
    """The script's step with its first batch; raises StudyError in one line where no jitted step is found."""
    seen = SimpleNamespace(step=None, scopes=[], line=None, loops=None, found=None, scan=None, outside=[])
    own = own_files(path)
    gradients = _kinds()[1]

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame is seen.step:
            seen.step = None
        if event != "call" or not own(frame.f_code.co_filename):
            return
        kinds = {type(leaf) for leaf in _tracers(_arguments(frame))}
        if not kinds:
            return
        seen.step = step = seen.step or frame
        for each in _callers(frame, own):  # a loss that is jitted itself has no tracers of a gradient
            kinds |= {type(leaf) for leaf in _tracers(each.get("args"))}
        if kinds & gradients:
            sys.setprofile(None)
            outer = _outer(step, own)
            seen.scopes, seen.line, seen.loops = list(frames(outer)), line_of(outer, path), loops_in(outer, path)
            seen.scan, seen.outside = _scan(frame, outer), outside(outer, path)
            seen.found = seen.scan.step or _called(step, own)
            raise Started

    watch(path, look)
    if not seen.scopes:
        raise StudyError(f"{path.name}: ended, and no function under jax.jit took a gradient: {NAME_IT}")
    where = f"{path.name}, line {seen.line}"
    if seen.scan.loop is not None and (seen.scan.step is None or not _works(seen.scan.step)):
        raise StudyError(
            f"{where}: steps run inside of jax.lax.{seen.scan.loop}: call a jitted function of one step, {WRITE}"
        )
    if seen.found is None:
        why = (
            "the step runs under jax.pmap"
            if "pmap(" in path.read_text()
            else "the gradient is taken outside of jax.jit"
        )
        raise StudyError(f"{where}: {why}: put the step of one batch into one function with @jax.jit, {WRITE}")
    step, batch = _step(seen.found, where)
    size = len(next(iter(batch.values())))
    found = Found(JAX, size, line=seen.line, **_sizes(seen, list(batch.values())))
    data = {name: np.concatenate([np.asarray(value)] * COPIES) for name, value in batch.items()}
    return Script(found, SimpleNamespace(model=lambda: step, data=lambda: data, optimizer=lambda: OF_THE_STEP))


def _arguments(frame: FrameType) -> list[Any]:
    code, flags = frame.f_code, inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
    count = code.co_argcount + code.co_kwonlyargcount + bin(code.co_flags & flags).count("1")
    return [frame.f_locals[name] for name in code.co_varnames[:count] if name in frame.f_locals]


def _tracers(tree: Any) -> list[Any]:
    return [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.core.Tracer)]


@cache
def _kinds() -> tuple[type, set[type]]:
    """The classes of tracers that a function is given under `jax.jit`, and under a gradient."""
    seen: list[type] = []

    def note(x: Any) -> Any:
        seen.append(type(x))
        return x

    for traced in (note, jax.grad(note), lambda x: jax.jvp(note, (x,), (x,))):
        jax.eval_shape(traced, jax.ShapeDtypeStruct((), np.float32))
    return seen[0], set(seen[1:])


def _outer(frame: FrameType, own: Callable[[str], bool]) -> FrameType | None:
    """The function of the script that called a traced one, through JAX."""
    outer = frame.f_back
    while outer is not None and not own(outer.f_code.co_filename):
        outer = outer.f_back
    return outer


def _callers(frame: FrameType, own: Callable[[str], bool]) -> Iterator[Mapping[str, Any]]:
    """Variables of the functions of JAX and other packages between a function and the next one of the script."""
    outer = frame.f_back
    while outer is not None and not own(outer.f_code.co_filename):
        yield outer.f_locals
        outer = outer.f_back


class Scan(NamedTuple):
    """A loop of JAX around the gradient, and the body of the innermost one as the step."""

    loop: str | None = None
    step: Traced | None = None
    steps: int = 1  # of the innermost loop
    times: int = 1  # that it runs


def _scan(inner: FrameType, outer: FrameType | None) -> Scan:
    """Of frames between the gradient and the caller of the jitted function; no step of a loop that takes no batch."""
    frame: FrameType | None = inner
    lengths, found, whole = list[int](), Scan(), True
    while frame is not None and frame is not outer:
        name, caller = frame.f_code.co_name, frame.f_back
        if name in LOOPS and str(frame.f_globals.get("__name__")).startswith("jax."):
            held = caller.f_locals if caller is not None and name == "scan" else {}
            try:  # JAX's wrapper of the loop has its arguments
                given = inspect.signature(jax.lax.scan).bind(*held["args"], **held["kwargs"]).arguments
                lengths.append(next(len(leaf) for leaf in jax.tree.leaves(given["xs"])))
                if found.loop is None:
                    found = Scan(name, _body(**given))
            except (LookupError, TypeError, StopIteration):
                found, whole = Scan(name), False
        frame = caller
    return found._replace(steps=math.prod(lengths[:1]), times=math.prod(lengths[1:])) if whole else found


def _body(f: Callable[..., Any], init: Any, xs: Any, **_: Any) -> Traced:
    """The body of a scan with a carry and a batch; arrays that it captures are an argument and a result, too."""
    carry, first = jax.tree.map(_example, (init, jax.tree.map(lambda leaf: leaf[0], xs)))
    held = [cell.cell_contents for cell in getattr(f, "__closure__", None) or ()]
    held = jax.tree.map(_example, held) if _tracers(held) else []

    def step(carry: Any, x: Any, held: Sequence[Any]) -> Any:
        own = FunctionType(f.__code__, f.__globals__, closure=tuple(map(CellType, held))) if held else f
        carry, y = own(carry, x)
        return carry, jax.tree.map(jax.numpy.mean, y), held

    return Traced(step, (carry, first, held), {})


def _example(leaf: Any) -> Any:
    """Zeros in place of a tracer."""
    if not isinstance(leaf, jax.core.Tracer):
        return leaf
    if _is_key(leaf):
        return jax.random.wrap_key_data(np.zeros(jax.eval_shape(jax.random.key_data, leaf).shape, np.uint32))
    return np.zeros(leaf.shape, leaf.dtype)


def _works(step: Traced) -> bool:
    """Whether a loop's body is a function of its arguments: a function that it calls may capture traced arrays."""
    carry, first, held = jax.tree.map(lambda leaf: jax.numpy.asarray(leaf) if _is_array(leaf) else leaf, step.args)
    try:
        made = jax.make_jaxpr(lambda *given: step.function(*given, held)[0])(carry, first)
    except Exception:
        return False
    return not _tracers(made.consts)


def _sizes(seen: SimpleNamespace, batch: Sequence[Any]) -> dict[str, Any]:
    """Examples and epochs, where each turn of the script's own loops may be a loop of JAX."""
    (epochs, steps), scan, shapes = seen.loops, seen.scan, [each.shape for each in batch]
    if scan.loop is None:
        return sizes(seen.scopes, seen.loops, shapes, None, is_whole(batch, seen.outside))
    if steps:
        steps *= scan.steps * scan.times
    found = sizes(seen.scopes, (epochs, steps), shapes, scan.steps * shapes[0][0])
    return found if steps else found | {"epochs": (found["epochs"] or 1) * scan.times}


def _called(step: FrameType, own: Callable[[str], bool]) -> Traced | None:
    """The step with its arguments before they were traced; None where no caller under jax.jit holds them.

    JAX has no public way to these: its functions hold them as `args` and `kwargs`, the step itself as an attribute.
    """
    jit, gradients = _kinds()
    function: Any = None
    given = _arguments(step)
    jitted = jit in map(type, _tracers(given))
    sloped = tuple(place for place, each in enumerate(given) if gradients & {*map(type, _tracers(each))})
    containers = {_container(each) for each in given if _tracers(each) and not _is_array(each)}
    for held in _callers(step, own):
        values = [*held.values(), *getattr(held.get("self"), "__dict__", {}).values()]
        function = function or next((each for each in values if _runs(each, step.f_code)), None)
        args, kwargs = held.get("args"), held.get("kwargs") or {}
        if isinstance(args, tuple) and isinstance(kwargs, Mapping) and _takes(function, args, kwargs):
            kinds = {type(leaf) for leaf in _tracers((args, kwargs))}
            jitted = jitted or bool(kinds - gradients)
            if not sloped and kinds & gradients:  # the loss is jitted itself
                sloped = tuple(n for n, each in enumerate(args) if gradients & {*map(type, _tracers(each))})
            if not kinds and jitted and containers <= {_container(each) for each in (*args, *kwargs.values())}:
                return Traced(_descent(function, sloped) if sloped else function, args, dict(kwargs), sloped)
    return None


def _takes(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:  # also None
        return False
    return True


def _container(value: Any) -> Any:
    """By which an argument is known again: the structure of plain trees, the class of others."""
    return jax.tree.structure(value) if isinstance(value, Mapping | list | tuple) else type(value)


def _runs(value: Any, code: CodeType) -> bool:
    """Whether a value is the function of this code, bound or with arguments filled in."""
    return getattr(value.func if isinstance(value, partial) else value, "__code__", None) is code


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
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _is_old_key(leaf: Any) -> bool:
    """Whether an array may be a key of random numbers as jax.random.PRNGKey makes it."""
    return leaf.dtype == np.uint32 and leaf.shape == (2,)


def _step(found: Traced, where: str) -> tuple[JaxStep, dict[str, Any]]:
    """The step as a function of its state and its batch, and the arrays of the first batch by name."""
    function, given = _functional(found)
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
    held += [place for place, _, leaf in rows if place not in taken and leaf.size > LARGE]

    def one(new_trained: Any, new_held: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        values = list(leaves)
        for place, value in zip((*trained, *held), (*new_trained, *new_held), strict=True):
            values[place] = jax.random.wrap_key_data(value) if _is_key(leaves[place]) else value
        for name, (place, leaf) in batch.items():
            values[place] = inputs[name].astype(jax.dtypes.canonicalize_dtype(leaf.dtype))
        now = jax.tree.unflatten(structure, values)
        output = function(now)
        after = jax.tree.leaves(now | {name: new(output, now) for name, new in news.items()})
        single = (each for each in jax.tree.leaves(output) if _is_array(each) and not each.ndim)
        loss = next((each for each in single if "float" in str(each.dtype)), 0.0)

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
            place = next((each for each in free if _is_array(value) == single and _same(parts[each], value)), None)
            if place is not None:
                free.remove(place)
                news[name] = part(place)
    if not news:  # gradients of a TrainState's parameters
        for name, value in given.items():
            place = next((each for each, own in enumerate(parts) if _same(own, getattr(value, "params", None))), None)
            if place is not None and hasattr(value, "apply_gradients"):
                return {name: partial(_applied, name, part(place))}
    return news


def _applied(name: str, gradients: New, output: Any, now: Mapping[str, Any]) -> Any:
    return now[name].apply_gradients(grads=gradients(output, now))


def _shapes(function: Callable[[dict[str, Any]], Any], given: dict[str, Any]) -> Any:
    """What the step returns, as shapes; what is no array is a constant, as in the script."""
    leaves, structure = jax.tree.flatten(given)
    places = [place for place, leaf in enumerate(leaves) if _is_array(leaf)]
    made: list[Any] = []

    def of(arrays: list[Any]) -> Any:
        values = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            values[place] = array
        made[:] = jax.tree.flatten(function(jax.tree.unflatten(structure, values)))
        return [each if _is_array(each) else None for each in made[0]]

    shapes = jax.eval_shape(of, [leaves[place] for place in places])
    both = zip(made[0], shapes, strict=True)
    return jax.tree.unflatten(made[1], [each if shape is None else shape for each, shape in both])


def _same(one: Any, other: Any) -> bool:
    """Whether two trees have the same structure and arrays of the same shapes, at least one."""
    first, second = (jax.tree.flatten(each) for each in (one, other))
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
        inner = [each for each in jax.tree.leaves(parts, is_leaf=partial(_same, part)) if _same(part, each)]
        same = [each for each in inner if all(each is not other for other in parts)]
        if any(not any(map(np.any, jax.tree.leaves(each))) for each in same):
            return jax.tree.leaves(part)
    return jax.tree.leaves(getattr(state, "params", state))


def _plain(leaf: Any) -> Any:
    """A key of random numbers as the numbers that it is of."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf
