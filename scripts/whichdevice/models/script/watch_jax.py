"""Programs of a JAX script: each function under `jax.jit` or `jax.pmap` that no other one calls is lowered and counted.

`jax.jit`, which Equinox and Flax NNX call, too, is replaced by what knows the arguments of a call, `jax.grad` and its
forms by what notes the weights and the batch. A gradient that is taken outside of `jax.jit` is a program itself. Where
weights go around in a loop of JAX, each of its turns is a step.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from whichdevice.models.script.found import COUNTER
from whichdevice.models.script.frames import caller, is_own
from whichdevice.models.script.programs import Program, ProgramWatcher, doubled, named_sizes, rows_of
from whichdevice.models.script.run import ScriptRun

GRADIENTS = ("grad", "value_and_grad", "vjp")
LOOPS = {"scan": "f", "fori_loop": "body_fun", "while_loop": "body_fun"}
COUNTS = ("devices", "local_devices", "device_count", "local_device_count")
LARGE_ARRAY = 2**26  # bytes of an array without values
NOT_JITTED = "Its gradient is taken outside of jax.jit: it is counted as if it were jitted, what follows it is not."


class Loop(NamedTuple):
    """A loop of JAX whose body is being traced."""

    turns: int | None
    carried: set[int]  # what goes around, by place in memory
    given: list[tuple[int, ...]]  # shapes of what each turn is given


@dataclass
class Traced:
    """Facts that tracing of a program shows."""

    loops: list[Loop] = field(default_factory=list)
    settings: list[str] | None = None  # arguments besides arrays and numbers; None: of an inner function
    mapped: int = 0  # depth of functions of one example
    gradients: int = 0  # depth of gradients
    trained: float = 0.0  # bytes of weights
    given: list[list[tuple[int, ...]]] = field(default_factory=list)  # shapes of other arrays, by argument
    steps: float | None = 1.0


class Watching(ProgramWatcher):
    """Watches the jitted functions of a script."""

    package = "JAX"
    missing = "nothing took a gradient by jax.grad"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self._programs = dict[Any, Program]()
        self._traced: Traced | None = None  # while a program is traced or runs
        self._rows: int | None = None  # examples of a batch
        self._doubled = set[Program]()  # whose count for twice as many was tried
        self._with_gradient = dict[Any, Traced]()  # of functions that were traced before

    def attach(self, package: ModuleType) -> None:
        """Replace what compiles, what takes gradients and loops, and what counts devices."""
        if package.__name__ == "flax.jax_utils":
            self.replace(package, "prefetch_to_device", lambda iterator, *_, **__: iter(iterator))
            return
        for name in ("jit", "pmap"):
            self.replace(jax, name, self._compiling(getattr(jax, name), name == "pmap"))
        for name in GRADIENTS:
            self.replace(jax, name, self._taking(getattr(jax, name), name == "vjp"))
        for name in LOOPS:
            self.replace(jax.lax, name, self._looping(name, getattr(jax.lax, name)))
        self.replace(jax, "vmap", self._mapping(jax.vmap))
        for name in COUNTS:
            self.replace(jax, name, self._counting(getattr(jax, name)))

    def _counting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def count(*args: Any, **kwargs: Any) -> Any:
            frame = caller()
            if frame is not None and is_own(frame.f_code.co_filename, self.run.path):
                self.run.counts_gpus = True
            return original(*args, **kwargs)

        return count

    # Programs.

    def _compiling(self, original: Callable[..., Any], maps: bool) -> Callable[..., Any]:
        """Replace `jax.jit` and `jax.pmap`, which are also called with settings alone."""

        @wraps(original)
        def jit(*functions: Any, **settings: Any) -> Any:
            if not (functions or "fun" in settings):
                return partial(jit, **settings)
            compiled = original(*functions, **settings)
            function = functions[0] if functions else settings["fun"]

            @wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                return self.call(function, compiled, args, kwargs, maps)

            def lower(*args: Any, **kwargs: Any) -> Any:
                program = partial(self.program, function, compiled, args, kwargs, maps)
                return Ahead(self, compiled.lower(*args, **kwargs), program)

            for name in ("trace", "eval_shape", "clear_cache"):
                if hasattr(compiled, name):
                    setattr(call, name, getattr(compiled, name))
            call.lower = lower  # type: ignore[attr-defined]
            return call

        return jit

    def call(self, function: Any, compiled: Any, args: Any, kwargs: Any, maps: bool) -> Any:
        """Call a jitted function, outside or inside of another one."""
        if self.run.over or _tracers((args, kwargs)):
            result = compiled(*args, **kwargs)
            self._note_again(compiled)
            return result
        if self._traced is not None:
            return compiled(*args, **kwargs)
        program = self.program(function, compiled, args, kwargs, maps)
        return self.run_program(program, compiled, args, kwargs)

    def _note_again(self, compiled: Any) -> None:
        """Note what a function takes a gradient by, where JAX does not trace it again."""
        known, now = self._with_gradient.get(compiled), self._traced
        if known is not None and now is not None and not now.trained:
            now.trained, now.steps, now.given = known.trained, known.steps, [*now.given, *known.given]

    def program(self, function: Any, compiled: Any, args: Any, kwargs: Any, maps: bool = False) -> Program:
        """Return the program of a function for arguments of these shapes."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        forms = ((leaf.shape, str(leaf.dtype)) if _is_array(leaf) else repr(leaf) for leaf in leaves)
        key = compiled, str(structure), *forms
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._lowered(function, compiled, args, kwargs, maps)
            self._rows = program.rows or self._rows
        if self._rows and program not in self._doubled and not self.run.conditions.timed:
            self._doubled.add(program)
            self._traced = Traced()
            with suppress(Exception):  # a function of one batch, which raises what it likes
                program.twice = _twice(program, compiled, args, kwargs, self._rows)
            self._traced = None
        return program

    def _lowered(self, function: Any, compiled: Any, args: Any, kwargs: Any, maps: bool) -> Program:
        self._traced = traced = Traced()
        try:
            lowered = _lower(compiled, args, kwargs)
            traced.settings = _settings((args, kwargs))
            if traced.settings == getattr(self._with_gradient.get(compiled), "settings", None):
                self._note_again(compiled)
        finally:
            self._traced = None
        if traced.trained:
            self._with_gradient[compiled] = traced
        given = [leaf for leaf in _of_batch((args, kwargs), lowered.out_info) if leaf.ndim > maps]
        shapes = traced.given
        if not shapes and traced.steps == 1:  # else a loop of many steps is given all examples
            shapes = [[leaf.shape[maps:]] for leaf in given]
        rows = rows_of(shapes, named_sizes(self.run)) if traced.trained else None
        arrays = [leaf for leaf in jax.tree.leaves((args, kwargs)) if _is_array(leaf)]
        devices = max([len(leaf.sharding.device_set) for leaf in arrays if isinstance(leaf, jax.Array)], default=1)
        devices = jax.device_count() if maps else devices
        program = Program(
            function, getattr(function, "__name__", ""), import_module(COUNTER).count_program(lowered),
            arrays=len(arrays), trained=traced.trained,
            state=max(0.0, sum(map(_nbytes, arrays)) - sum(map(_nbytes, given))), rows=rows, steps=traced.steps,
            shapes=tuple(leaf.shape for leaf in given if rows in leaf.shape), devices=devices,
            shared=devices if maps else 1, results=lowered.out_info,
        )  # fmt: skip
        return program

    def run_program(self, program: Program, runner: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run a program, or return results without values where it would take long."""
        held = {id(leaf): _nbytes(leaf) for leaf in jax.tree.leaves((args, kwargs)) if _is_array(leaf)}

        def compute() -> Any:
            self._traced = Traced()
            try:
                return jax.block_until_ready(runner(*args, **kwargs))
            finally:
                self._traced = None

        return self.computed(program, held, compute)

    def made(self, program: Program) -> Any:
        """Return results of a program without values."""
        return jax.tree.map(_without_values, program.results)

    # Gradients.

    def _taking(self, original: Callable[..., Any], at_once: bool) -> Callable[..., Any]:
        """Replace `jax.grad` and the like, which give a function, and `jax.vjp`, which takes it at once."""

        @wraps(original)
        def take(function: Any, *rest: Any, **settings: Any) -> Any:
            if at_once:
                with self._gradient((*range(len(rest)),), rest, {}):
                    return original(function, *rest, **settings)
            slope = original(function, *rest, **settings)
            places = rest[0] if rest else settings.get("argnums", 0)
            places = (places,) if isinstance(places, int) else tuple(places)

            @wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                return self._take(function, places, slope, args, kwargs)

            return call

        return take

    def _take(self, function: Any, places: Sequence[int], slope: Any, args: Any, kwargs: Any) -> Any:
        def taking(*args: Any, **kwargs: Any) -> Any:
            with self._gradient(places, args, kwargs):
                return slope(*args, **kwargs)

        if self.run.over or self._traced is not None or _tracers((args, kwargs)):
            return taking(*args, **kwargs)
        of_arrays, arrays = _of_arrays(taking, args, kwargs)
        key = getattr(function, "__code__", function)
        program = self.program(key, Jitted(key, of_arrays), arrays, {})
        self.say(NOT_JITTED)
        return self.run_program(program, lambda *_: taking(*args, **kwargs), arrays, {})

    @contextmanager
    def _gradient(self, places: Sequence[int], args: Any, kwargs: Any) -> Iterator[None]:
        """Note what a gradient is taken by, and other arguments, unless it is inside of another gradient."""
        traced = self._traced
        if traced is None:
            yield
            return
        if not traced.gradients:
            weights = [leaf for place in places for leaf in jax.tree.leaves(args[place]) if _is_array(leaf)]
            others = [value for place, value in enumerate(args) if place not in places] + [*kwargs.values()]
            traced.trained += sum(_nbytes(leaf) for leaf in weights)
            of_loop = [loop for loop in traced.loops if any(id(leaf) in loop.carried for leaf in weights)]
            for loop in of_loop:
                traced.steps = None if loop.turns is None or traced.steps is None else traced.steps * loop.turns
            if not traced.mapped and not traced.given:
                shapes = [[tuple(leaf.shape) for leaf in jax.tree.leaves(value) if _is_array(leaf) and _is_batch(leaf)]
                          for value in others]  # fmt: skip
                traced.given = [*filter(None, shapes)] or [loop.given for loop in of_loop[-1:] if loop.given]
        traced.gradients += 1
        try:
            yield
        finally:
            traced.gradients -= 1

    def _mapping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace `jax.vmap`: in its function an array's first axis is not a batch's."""

        @wraps(original)
        def vmap(function: Any, *rest: Any, **settings: Any) -> Any:
            mapped = original(function, *rest, **settings)

            @wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                if (traced := self._traced) is None:
                    return mapped(*args, **kwargs)
                traced.mapped += 1
                try:
                    return mapped(*args, **kwargs)
                finally:
                    traced.mapped -= 1

            return call

        return vmap

    def _looping(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace a loop of JAX: note what goes around in it."""

        signature = inspect.signature(original)

        @wraps(original)
        def loop(*args: Any, **kwargs: Any) -> Any:
            traced = self._traced
            if traced is None:
                return original(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            known, body = Loop(_turns(given.arguments), set(), []), given.arguments[LOOPS[name]]

            @wraps(body)
            def traced_body(*values: Any) -> Any:
                carry = values[1] if name == "fori_loop" else values[0]
                known.carried.update(id(leaf) for leaf in jax.tree.leaves(carry))
                if name == "scan":
                    known.given[:] = [leaf.shape for leaf in jax.tree.leaves(values[1]) if _is_batch(leaf)]
                return body(*values)

            given.arguments[LOOPS[name]] = traced_body
            traced.loops.append(known)
            try:
                return original(*given.args, **given.kwargs)
            finally:
                traced.loops.remove(known)

        return loop


class Jitted:
    """A function of arrays under `jax.jit`, known by what it is of: a new one is made for each call."""

    def __init__(self, key: Any, function: Callable[..., Any]) -> None:
        self._key, self.trace = key, original_jit(function).trace

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Jitted) and other._key == self._key


class Ahead:
    """A lowered function, whose compiled form is called as a program of the script's."""

    def __init__(self, watching: Watching, lowered: Any, program: Callable[[], Program]) -> None:
        self._watching, self._lowered, self._program = watching, lowered, program

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lowered, name)

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Return what runs it."""
        compiled, program = self._lowered.compile(*args, **kwargs), self._program()

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._watching.run.over:
                return compiled(*args, **kwargs)
            return self._watching.run_program(program, compiled, args, kwargs)

        return call


original_jit = jax.jit


def _settings(given: Any) -> list[str]:
    """Return what a function is given besides arrays and numbers, by which JAX traces it again."""
    return [repr(leaf) for leaf in jax.tree.leaves(given) if not _is_array(leaf) and type(leaf) not in (int, float)]


def _lower(compiled: Any, args: Any, kwargs: Any) -> Any:
    """Lower a function for a GPU; what each device runs, and what calls the host back, for this one."""
    if hasattr(compiled, "trace"):
        with suppress(ValueError, NotImplementedError):
            return compiled.trace(*args, **kwargs).lower(lowering_platforms=("cuda",))
    return compiled.lower(*args, **kwargs)


def _twice(program: Program, compiled: Any, args: Any, kwargs: Any, rows: int) -> Any:
    """Count a program with twice the examples: arrays that are no state, in the first axis of as many.

    None: no argument is its batch.
    """
    larger = {id(leaf) for leaf in _of_batch((args, kwargs), program.results) if rows in leaf.shape}

    def scaled(leaf: Any) -> Any:
        if not _is_array(leaf):
            return leaf
        return jax.ShapeDtypeStruct(doubled(leaf.shape, rows) if id(leaf) in larger else leaf.shape, leaf.dtype)

    args, kwargs = jax.tree.map(scaled, (args, kwargs))
    if not larger:
        return None if program.rows else program.counted
    return import_module(COUNTER).count_program(_lower(compiled, args, kwargs))


def _turns(given: Mapping[str, Any]) -> int | None:
    """Return how often a loop of JAX turns; None: it depends on values."""
    if "f" in given:
        return next((len(leaf) for leaf in jax.tree.leaves(given.get("xs"))), given.get("length"))
    with suppress(TypeError, KeyError, jax.errors.ConcretizationTypeError):
        return int(given["upper"]) - int(given["lower"])
    return None


def _of_arrays(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of the arrays among some arguments, and these."""
    leaves, structure = jax.tree.flatten((args, kwargs))
    places = [place for place, leaf in enumerate(leaves) if _is_array(leaf)]

    def call(*arrays: Any) -> Any:
        values = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            values[place] = array
        args, kwargs = jax.tree.unflatten(structure, values)
        return function(*args, **kwargs)

    return call, [leaves[place] for place in places]


def _of_batch(given: Any, made: Any) -> list[Any]:
    """Return the arrays that a function is given and returns none like, nor numbers or keys of random numbers.

    Of arrays alike those are of the batch beside which others are that it returns none like.
    """
    named = [(path[:-1], leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(given) if _is_array(leaf)]
    left = Counter(_form(leaf) for _, leaf in named) - Counter(map(_form, jax.tree.leaves(made)))
    known = set(map(_form, jax.tree.leaves(made)))
    beside = {path for path, leaf in named if _is_batch(leaf) and _form(leaf) not in known}
    batch = list[Any]()
    for _, leaf in sorted(reversed(named), key=lambda pair: pair[0] not in beside):
        if _is_batch(leaf) and left[_form(leaf)] > 0:
            left[_form(leaf)] -= 1
            batch.append(leaf)
    return batch[::-1]


def _is_batch(leaf: Any) -> bool:
    """Whether an array may be of a batch: no number, and no key of random numbers."""
    return bool(leaf.ndim) and not _is_key(leaf) and not (leaf.dtype == np.uint32 and leaf.shape == (2,))


def _form(leaf: Any) -> Any:
    return tuple(leaf.shape), str(jax.dtypes.canonicalize_dtype(leaf.dtype)) if not _is_key(leaf) else "key"


def _without_values(leaf: Any) -> Any:
    """An array that takes no memory where it is large: ones, by which a script may divide."""
    if _is_key(leaf):
        return jax.random.wrap_key_data(np.zeros(jax.eval_shape(jax.random.key_data, leaf).shape, np.uint32))
    large = _nbytes(leaf) > LARGE_ARRAY
    return np.broadcast_to(np.ones((), leaf.dtype), leaf.shape) if large else jax.numpy.ones(leaf.shape, leaf.dtype)


def _nbytes(leaf: Any) -> float:
    return 0.0 if _is_key(leaf) else float(leaf.size * leaf.dtype.itemsize)


def _tracers(tree: Any) -> bool:
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def _is_array(leaf: Any) -> bool:
    try:
        return hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    except Exception:  # of the script's own object
        return False


def _is_key(leaf: Any) -> bool:
    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))
