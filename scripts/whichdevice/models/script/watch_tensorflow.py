"""The training step of a script with a TensorFlow loop of its own: a `tf.function` in which a gradient changes weights.

`tf.function` is replaced by what remembers its arguments; the outermost one that takes a batch is the step. Where the
loop has others that train, as a GAN's has, it goes on for two turns, in which they give zeros: all that train once in
each turn are the step. Where the loop trains outside of any, its statements from the tape to the change of the weights
are. A strategy for several GPUs is one device here, which takes the whole batch.
"""

import ast
import inspect
import linecache
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import StudyError
from whichdevice.models.script.beside import APPLIED, trainers_beside
from whichdevice.models.script.found import Script
from whichdevice.models.script.run import SEED, ScriptRun, Watcher, is_own
from whichdevice.models.script.several import ALL_BATCHES, SHARED, divides_steps
from whichdevice.models.script.size import Function, Stack, amounts, is_whole, turns_of
from whichdevice.models.script.tensorflow_step import (
    BY_FUNCTION,
    INSTEAD,
    Program,
    filled,
    joined_step,
    script_of,
    silent,
)
from whichdevice.models.script.text import attribute, code_of, function_of

FACTORS = (2, 4, 8)  # of GPUs, each of which takes the script's batch
MAX_READ, READ_SECONDS = 16, 60.0  # batches whose lengths are read; seconds until nobody counts batches any more
CHANGES = ("ResourceApply", "ResourceSparseApply", "Assign")  # operations that change a variable
UNCOUNTED = "Training starts in line {line}; what trains in {places} is not counted."
TURNS = 2  # of a loop in which several functions train, until it is known which ones do in each
SESSION = (
    "it trains in a session of TensorFlow 1, whose graph is not read: put the step into a @tf.function with a "
    "tf.GradientTape (TensorFlow 2), or write a model file (docs/start/your-model.md)"
)
MAX_BATCH = 2**27  # bytes of a batch that is made again and again
TRIAL_SECONDS = 30.0  # until the turns of a loop with several functions that train are over
LENGTHS = "Lengths vary from {least} to {most}; steps are of the mean, {mean}."


class Call(NamedTuple):
    """A function with the arguments that the script gave it, tensors of a graph among them."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class TensorFlowStep(NamedTuple):
    """A call that may be a step, in the loops around it."""

    stack: Stack
    call: Call


@dataclass
class Trainer:
    """A line of the script that trains, by the functions around its gradient, the outermost first."""

    stack: Stack
    calls: list[Call]
    turns: int = 1  # in which it was called
    zeros: Any = None  # of what it returns; None: it is called for that

    @property
    def loop(self) -> str | None:
        """Return the text of the innermost loop around it."""
        return ast.dump(self.stack.around[-1].node, include_attributes=True) if self.stack.around else None

    def steps(self) -> list[TensorFlowStep]:
        """Return its functions that are over no data, from the outermost."""
        import tensorflow as tf

        return [
            TensorFlowStep(_inside(self.stack, self.calls[:number]), call)
            for number, call in enumerate(self.calls)
            if not any(map(_is_dataset, tf.nest.flatten((call.args, dict(call.kwargs)))))
        ]


class Watching(Watcher):
    """Stops a script where it calls a tf.function that takes a gradient and changes variables."""

    package = "TensorFlow"
    missing = "no tf.function changed variables by a gradient"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self.calls: list[Call] = []  # that are being traced, the outermost first
        self._large = dict[str, list[Any]]()  # a large batch, by its shapes
        self.gpus = 0  # that a strategy of the script asks for
        self._began = 0.0  # when the first function trained
        self._trainers = dict[Any, Trainer]()  # of a loop with several, by their lines and functions

    @property
    def has_started(self) -> bool:
        """Return whether one of several functions of a loop has trained."""
        return bool(self._trainers)

    def ended(self, variables: Mapping[str, Any]) -> Script | None:
        """Return the script of what has trained by its end."""
        return _script(self, list(self._trainers.values())) if self._trainers else None

    def attach(self, package: ModuleType) -> None:
        """Replace what traces, what takes gradients, and what asks for GPUs or writes summaries in a step."""
        tf = package
        tf.random.set_seed(SEED)
        self._tf, self._gradient_taken = tf, list[Call]()
        self.replace(tf, "function", self._tracing(tf.function))
        untraced = tf.autograph.experimental.do_not_convert
        self.replace(tf.GradientTape, "gradient", untraced(self._taking(tf.GradientTape.gradient)))
        self.replace(tf.GradientTape, "__enter__", untraced(self._opening(tf.GradientTape.__enter__)))
        strategy = _one_device(self)
        for name in ("MirroredStrategy", "MultiWorkerMirroredStrategy"):
            self.replace(tf.distribute, name, strategy)
        self.replace(tf.config, "list_physical_devices", self._devices(tf.config.list_physical_devices))
        self.replace(tf.config.experimental, "list_physical_devices", tf.config.list_physical_devices)
        for owner, name in (
            (tf.config.experimental, "set_memory_growth"), (tf.config, "set_visible_devices"),
            (tf.config, "set_logical_device_configuration"),
        ):  # fmt: skip
            self.replace(owner, name, lambda *_, **__: None)
        for session in (tf.compat.v1.Session, tf.compat.v1.InteractiveSession):
            self.replace(session, "__init__", self._session)
        self.replace(tf.data.Dataset, "batch", untraced(self._batching(tf.data.Dataset.batch)))
        self.replace(tf.data.Dataset, "__iter__", self._going_over(tf.data.Dataset.__iter__))
        self.replacements.enter_context(silent())
        self.replace(tf.summary, "create_file_writer", lambda *_, **__: tf.summary.create_noop_writer())

    def _session(self, *_: Any, **__: Any) -> None:
        """Stand in for a session of TensorFlow 1."""
        self.run.stop(StudyError(f"{Stack(self.run.path).where}: {SESSION}"))

    def _going_over(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for `Dataset.__iter__`: the length of what a loop of the script's own is over is noted."""

        @wraps(original)
        def begin(dataset: Any) -> Any:
            if not self.run.over and is_own(traceback.extract_stack(limit=2)[0].filename, self.run.path):
                known = int(dataset.cardinality())
                self.run.batches_of_loop = known if known > 0 else None
            return original(dataset)

        return begin

    def _batching(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for `Dataset.batch`: what feeds JAX, whose pipeline is not timed, makes a large batch once."""

        tf = self._tf

        @wraps(original)
        def batch(dataset: Any, batch_size: Any, *args: Any, **settings: Any) -> Any:
            batches = original(dataset, batch_size, *args, **settings)
            if self.run.over or "watch_jax" not in self.run.watchers or not tf.executing_eagerly():
                return batches
            parts = tf.nest.flatten(dataset.element_spec)
            known = batches.cardinality() != tf.data.UNKNOWN_CARDINALITY
            if not known or not all(isinstance(part, tf.TensorSpec) for part in parts):
                return batches
            size = int(batch_size) * sum((part.shape.num_elements() or 0) * part.dtype.size for part in parts)
            return batches if size <= MAX_BATCH else _same_again(batches, self._large)

        return batch

    def _devices(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for the list of devices, in which the script sees GPUs."""

        def devices(device_type: str | None = None) -> list[Any]:
            caller = traceback.extract_stack(limit=2)[0].filename
            known = list(original(device_type))
            if not is_own(caller, self.run.path) or device_type not in (None, "GPU"):
                return known
            self.run.counts_gpus = True
            kind = self._tf.config.PhysicalDevice
            return known + [kind(f"/physical_device:GPU:{place}", "GPU") for place in range(self.run.conditions.gpus)]

        return devices

    def _tracing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for `tf.function`, which is also called with settings alone; libraries' functions pass."""

        def function(func: Any = None, *args: Any, **settings: Any) -> Any:
            if func is None:
                return partial(function, **settings)
            made = original(func, *args, **settings)
            module = getattr(inspect.unwrap(func), "__module__", None) or ""
            return made if module.partition(".")[0] in ("keras", "tensorflow") else _Function(self, made, func)

        return function

    def _taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(*args: Any, **kwargs: Any) -> Any:
            self._gradient_taken = self._gradient_taken or list(self.calls)
            return original(*args, **kwargs)

        return gradient

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def enter(tape: Any) -> Any:
            if not (self.run.over or self._trainers or self._tf.inside_function()):
                stack = Stack(self.run.path)
                if (call := _eager_step(stack)) is None:
                    reason = f"its loop trains outside of tf.function: {BY_FUNCTION}, {INSTEAD}"
                    self.run.stop(StudyError(f"{stack.where}: {reason}"))
                self.run.stop(partial(_script, self, [Trainer(stack, [call])]))
            return original(tape)

        return enter

    def call(self, made: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a tf.function outside of any other; where it trains, end the script or go on to others that train."""
        if self.run.over:
            return made(*args, **kwargs)
        code, stack = code_of(function), Stack(self.run.path) if self._trainers else None
        trainer = None if stack is None else self._trainers.get((stack.own_lines, code))
        if trainer is None:
            self.calls, self._gradient_taken = [Call(function, args, kwargs)], []
            with suppress(Exception):  # the call itself raises the same
                traced = made.get_concrete_function(*args, **kwargs)
                same = (one.calls for (_, known), one in self._trainers.items() if known is code is not None)
                calls = self._gradient_taken or next(same, [])  # of another line: it is not traced again
                if calls and _changes(traced):
                    stack = stack or Stack(self.run.path)
                    trainer = self._trainers[stack.own_lines, code] = Trainer(stack, calls, zeros=_zeros(traced))
        else:
            trainer.turns += 1
        if trainer is None:
            return made(*args, **kwargs)
        is_first = trainer is next(iter(self._trainers.values()))
        self._began = self._began or time.monotonic()
        ends = is_first and (trainer.turns > TURNS or not trainers_beside(trainer.stack, function))
        if ends or time.monotonic() - self._began > TRIAL_SECONDS:  # one may train only once an epoch
            self.run.stop(partial(_script, self, list(self._trainers.values())))
        return made(*args, **kwargs) if trainer.zeros is None else trainer.zeros


class _Function:
    """The function that `tf.function` makes, whose calls the watcher knows."""

    def __init__(self, watching: Watching, made: Any, function: Any) -> None:
        self._watching, self._made, self._function = watching, made, function
        self._is_inside = watching._tf.inside_function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return _Function(self._watching, self._made.__get__(instance, owner), self._function.__get__(instance, owner))

    @property
    def __wrapped__(self) -> Any:
        return self._function

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # AutoGraph rewrites this where a traced function calls it.
        if not self._is_inside():
            return self._watching.call(self._made, self._function, args, kwargs)
        self._watching.calls.append(Call(self._function, args, kwargs))
        result = self._made(*args, **kwargs)
        self._watching.calls.pop()
        return result


def _one_device(watching: Watching) -> type:
    """Return the class that stands for a strategy of several GPUs; AutoGraph rewrites its `run` as well.

    Its data are the script's own, so that nothing is read before the first batch.
    """
    import tensorflow as tf

    class OneDevice(tf.distribute.OneDeviceStrategy):  # type: ignore[misc]
        def __init__(self, devices: Any = None, *_: Any, **__: Any) -> None:
            tf.distribute.OneDeviceStrategy.__init__(self, "/cpu:0")
            watching.run.counts_gpus = watching.run.counts_gpus or devices is None
            self._gpus = watching.gpus = len(devices or ()) or watching.run.conditions.gpus

        @property
        def num_replicas_in_sync(self) -> int:
            return self._gpus

        def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
            return dataset

        def distribute_datasets_from_function(self, dataset_fn: Any, options: Any = None) -> Any:
            return dataset_fn(tf.distribute.InputContext())

        def run(self, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            watching.calls.append(Call(fn, args, kwargs or {}))
            result = tf.distribute.OneDeviceStrategy.run(self, fn, args, kwargs, options)
            watching.calls.pop()
            return result

    return OneDevice


def _changes(traced: Any) -> bool:
    """Whether a traced function changes variables."""
    graph = traced.graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return any(node.op.startswith(CHANGES) for node in nodes)


def _same_again(batches: Any, known: dict[str, list[Any]]) -> Any:
    """Return as many batches of a tf.data.Dataset, each of which is the first one: all share its memory.

    So do data sets of the same shapes one after the other; `known` has the last batch that was made.
    """
    import tensorflow as tf

    parts, form = tf.nest.flatten(batches.element_spec), str(batches.element_spec)

    def made() -> list[Any]:
        if form not in known:
            known.clear()
            known[form] = tf.nest.flatten(next(iter(batches)))
        return known[form]

    def batch(_: Any) -> Any:
        tensors = tf.py_function(made, [], [part.dtype for part in parts])
        shaped = [tf.ensure_shape(tensor, part.shape) for tensor, part in zip(tensors, parts, strict=True)]
        return tf.nest.pack_sequence_as(batches.element_spec, shaped)

    return tf.data.Dataset.range(1).repeat(batches.cardinality()).map(batch)


def _is_dataset(value: Any) -> bool:
    """Whether a value gives batches, as `tf.data` does."""
    return attribute(value, "element_spec") is not None


def _zeros(traced: Any) -> Any:
    """Zeros in place of what a traced function returns; None where their shapes do not show, or there is nothing."""
    import tensorflow as tf

    specs = tf.nest.flatten(traced.structured_outputs)
    if not all(tf.is_tensor(spec) and spec.shape.is_fully_defined() for spec in specs):
        return None
    return tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), traced.structured_outputs)


def _script(watching: Watching, trainers: Sequence[Trainer]) -> Script:
    """The script's step with its first batch: all that trains once in each turn of the first one's loop.

    Of the functions around a gradient the outermost that XLA compiles is a step.
    """
    first = trainers[0]
    together = [one for one in trainers if one.turns >= min(first.turns, TURNS) and one.loop == first.loop]
    together = [one for one in together if one.steps()]
    if len(together) > 1:
        with suppress(StudyError):  # one of them is nothing that XLA compiles
            return _of_steps(watching, together, [one.steps()[0] for one in together])
    error: StudyError | None = None
    for step in first.steps():
        try:
            return _of_steps(watching, [first], [step])
        except StudyError as other:
            error = other
    where = first.stack.where
    raise error or StudyError(f"{where}: no function takes the tensors of one batch: {BY_FUNCTION}, {INSTEAD}")


def _uncounted(counted: Sequence[Trainer]) -> list[str]:
    """Return a sentence for the answer where other functions train in the loops of these."""
    first, path = counted[0], counted[0].stack.path
    lines = {(part.code.co_filename, part.line) for trainer in counted for part in trainer.stack.own}
    places = [place for place in trainers_beside(first.stack, first.calls[0].function) if place not in lines]
    names = [f"line {line}" if Path(file) == path else f"{Path(file).name}, line {line}" for file, line in places]
    return [UNCOUNTED.format(line=first.stack.line, places=" and ".join(names))] if names else []


def _inside(stack: Stack, calls: Sequence[Call]) -> Stack:
    """The stack with functions that are being traced, in whose loops the step is."""
    functions = stack.functions
    for call in calls:
        function = inspect.unwrap(call.function)
        with suppress(TypeError, OSError, ValueError):  # of no source
            known = inspect.getclosurevars(function)
            variables = {**known.nonlocals, **inspect.signature(function).bind(*call.args, **call.kwargs).arguments}
            if inspect.ismethod(function):
                variables["self"] = function.__self__
            code = function.__code__
            loops = [node for node in ast.walk(function_of(code)) if isinstance(node, ast.For | ast.While)]
            line = max((loop.body[0].lineno for loop in loops), default=code.co_firstlineno)
            functions = [Function(code, line, variables, function.__globals__), *functions]
    inside = Stack(stack.path)
    inside.functions = functions
    return inside


def _eager_step(stack: Stack) -> Call | None:
    """The statements from a tape to the change of the weights as a function of what the loop changes; None: no such."""
    for part in (part for part in stack.functions if is_own(part.code.co_filename, stack.path)):
        inner = (place.node.body for place in reversed(part.path) if isinstance(place.node, ast.For | ast.While))
        body = next(inner, part.tree.body)
        first = next((place for place, node in enumerate(body) if part.line <= (node.end_lineno or 0)), len(body))
        last = max((place for place, node in enumerate(body) if _applies(node)), default=-1)
        if first <= last:
            return _as_function(body[first : last + 1], part)
    return None


def _applies(node: ast.stmt) -> bool:
    return any(isinstance(part, ast.Call) and getattr(part.func, "attr", "") in APPLIED for part in ast.walk(node))


def _as_function(body: Sequence[ast.stmt], part: Function) -> Call:
    """Statements as a function of the tensors in their variables, and of what they set anew."""
    names = [node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    given = {
        node.id: part.variables[node.id]
        for node in names
        if node.id in part.variables and (node.id in stored or _is_batch(part.variables[node.id]))
    }
    code = ast.unparse(ast.Module([*body], []))
    lines = [f"def step({', '.join(given)}):\n", *(f"    {line}\n" for line in code.splitlines())]
    name = f"<step of {part.code.co_filename}, line {part.line}>"
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)  # AutoGraph reads a function's text
    variables = {**part.module, **part.variables}
    exec(compile("".join(lines), name, "exec"), variables)  # nosec B102  # of the user's own script
    return Call(variables["step"], tuple(given.values()), {})


def _is_batch(value: Any) -> bool:
    import tensorflow as tf

    return all(
        isinstance(leaf, np.ndarray) or (tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable))
        for leaf in tf.nest.flatten(value)
    ) and bool(tf.nest.flatten(value))


class Batches(NamedTuple):
    """The tensors of a step's first batch, and what else its source shows."""

    tensors: list[Any]  # arrays; shapes where nobody reads one
    source: Any = None
    number: int | None = None  # of them in one epoch
    notes: tuple[str, ...] = ()


def _of_steps(watching: Watching, counted: Sequence[Trainer], steps: Sequence[TensorFlowStep]) -> Script:
    """The script whose step are these, one after the other."""
    stack = steps[0].stack
    parts = [_with_batches(step) for step in steps]
    program = joined_step([(run, batches.tensors) for run, batches in parts], stack.where)
    if watching.gpus == 1 and _multiplies(stack.path):
        for factor in FACTORS:
            larger = [
                (run, [_larger(array, factor) if array.shape[:1] == (program.size,) else array
                       for array in batches.tensors])
                for run, batches in parts
            ]  # fmt: skip
            with suppress(StudyError):  # a size that the script has fixed
                program.texts[factor] = joined_step(larger, stack.where).text
    batches = next((batches for _, batches in parts if batches.source is not None), parts[0][1])
    return _made(watching, stack, program, batches, _uncounted(counted))


def _with_batches(step: TensorFlowStep) -> tuple[Callable[..., Any], Batches]:
    """A step as a function of a list of the tensors of its batch, and those."""
    import tensorflow as tf

    stack, call = step
    leaves = tf.nest.flatten((call.args, dict(call.kwargs)))
    known = [*leaves, *(value for scope in stack.scopes for value in scope.values())]
    sources = [value for value in known if _is_dataset(value) and not inspect.isclass(value)]
    places = [place for place, leaf in enumerate(leaves) if tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable)]
    places = [place for place, leaf in enumerate(leaves) if place in places or isinstance(leaf, np.ndarray)]

    def run(tensors: Sequence[Any]) -> Any:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        args, kwargs = tf.nest.pack_sequence_as((call.args, dict(call.kwargs)), values)
        return call.function(*args, **kwargs)

    return run, _batches([leaves[place] for place in places], sources, stack.where)


def _batches(tensors: Sequence[Any], sources: Sequence[Any], where: str) -> Batches:
    """Arrays of one batch in place of tensors, of the mean length where a source's lengths vary."""
    specs = [(tuple(tensor.shape), str(getattr(tensor.dtype, "name", tensor.dtype))) for tensor in tensors]
    types = [dtype for _, dtype in specs]
    if not {"string", "variant", "resource"}.isdisjoint(types):
        raise StudyError(f"{where}: the step takes words, which XLA does not compile: look them up in the data set")
    shapes: list[Any] = [shape for shape, _ in specs]
    source, count, notes = next((source for source in sources if _gives(source, specs)), None), None, list[str]()
    if source is not None:
        open_axes = any(None in shape for shape in shapes)
        varies = any(None in shape[1:] for shape in _shapes(source))
        count, read = _counted(source, open_axes or varies)
        if varies and read:
            shapes, notes = _mean(read)
        elif open_axes and read:
            shapes = list(read[0])
    if any(None in shape for shape in shapes):
        raise StudyError(f"{where}: the shapes of a batch do not show: {BY_FUNCTION}, {INSTEAD}")
    arrays = [np.asarray(tensor) if isinstance(tensor, np.ndarray) or hasattr(tensor, "numpy") else None
              for tensor in tensors]  # fmt: skip
    given = [
        array if array is None or array.shape == shape else np.resize(array, shape)
        for array, shape in zip(arrays, shapes, strict=True)
    ]
    return Batches([filled(*one) for one in zip(given, shapes, types, strict=True)], source, count, tuple(notes))


def _larger(array: np.ndarray, factor: int) -> np.ndarray:
    return filled(None, (factor * len(array), *array.shape[1:]), array.dtype.name)


Shapes = list[tuple[int, ...]]  # of the tensors of a batch


def _mean(read: Sequence[Shapes]) -> tuple[Shapes, list[str]]:
    """The mean shapes of batches, as whole numbers, and in words, how much the longest lengths vary."""
    usual = Counter(shapes[0][:1] for shapes in read).most_common(1)[0][0]
    columns = [np.array(column) for column in zip(*(shapes for shapes in read if shapes[0][:1] == usual), strict=True)]
    means = [np.rint(column.mean(axis=0)).astype(int) for column in columns]
    varying = [
        (int(mean[axis]), column[:, axis].min(), column[:, axis].max())
        for column, mean in zip(columns, means, strict=True)
        for axis in np.flatnonzero((column != column[0]).any(axis=0))
    ]
    notes = [LENGTHS.format(mean=mean, least=least, most=most) for mean, least, most in sorted(varying)[-1:]]
    return [tuple(map(int, mean)) for mean in means], notes


def _shapes(source: Any) -> list[tuple[int | None, ...]]:
    import tensorflow as tf

    specs = tf.nest.flatten(source.element_spec)
    return [tuple(spec.shape) if getattr(spec.shape, "rank", None) is not None else (None,) for spec in specs]


def _gives(source: Any, wanted: Sequence[tuple[Sequence[int | None], str]]) -> bool:
    """Whether what gives batches gives tensors like these."""
    import tensorflow as tf

    specs = tf.nest.flatten(source.element_spec)
    if len(specs) != len(wanted) or not wanted:
        return False
    return all(
        isinstance(spec, tf.TensorSpec)
        and spec.dtype.name == dtype
        and spec.shape.rank == len(shape)
        and spec.shape.is_compatible_with(tf.TensorShape(shape))
        for spec, (shape, dtype) in zip(specs, wanted, strict=True)
    )


def _counted(source: Any, reads: bool) -> tuple[int | None, list[Shapes]]:
    """How many batches a source gives in an epoch, counted where it does not know, and the shapes of the first."""
    import tensorflow as tf

    known = int(source.cardinality()) if hasattr(source, "cardinality") else tf.data.INFINITE_CARDINALITY
    count = known if known > 0 else None
    if not reads and known != tf.data.UNKNOWN_CARDINALITY:
        return count, []
    read, begin = list[Shapes](), time.monotonic()
    for number, item in enumerate(source, 1):
        if number <= MAX_READ:
            read.append([tuple(leaf.shape) for leaf in tf.nest.flatten(item)])
        elif known != tf.data.UNKNOWN_CARDINALITY or time.monotonic() - begin > READ_SECONDS:
            return count, read
    return count or number, read


def _made(watching: Watching, stack: Stack, step: Program, batches: Batches, uncounted: Sequence[str]) -> Script:
    """The script of a step, with how long it trains by the loops around it."""
    batch = list(step.batch.values())
    shapes, whole = [array.shape for array in batch], is_whole(batch, stack.outside)
    loops, count = stack.amount, batches.number
    if loops.batches:  # of what the loop is over, which may be more or fewer than its source has
        loops, count = loops._replace(steps=loops.batches), None
    elif stack.has_one_loop and loops.epochs and not (whole or count) and turns_of(stack.around[0]) is not None:
        loops = loops._replace(steps=1)  # each turn is one step
    loaded = None if count is None else count * step.size
    size = amounts(stack.scopes, loops, shapes, loaded, count, whole=whole)
    keeps, shared = _of_gpus(watching, stack, step.size)
    notes = [*batches.notes, *shared, *uncounted]
    source = batches.source if hasattr(batches.source, "as_numpy_iterator") else None
    return script_of(step, stack.line, size | keeps, source, notes)


def _of_gpus(watching: Watching, stack: Stack, size: int) -> tuple[dict[str, Any], list[str]]:
    """Return what the GPUs of a strategy do not change, as fields of what is found, and how to ask for more."""
    if watching.gpus == 1 and _multiplies(stack.path):
        texts = [stack.path.read_text(encoding="utf-8")]
        by_steps = stack.amount.steps and not divides_steps(texts, ALL_BATCHES)
        return {"keeps": "steps" if by_steps else "examples", "asks": None}, []
    gpus = watching.gpus if watching.gpus != 1 else 4
    return {}, [SHARED.format(batch=size, gpus=gpus)] * (gpus > 0)


def _multiplies(path: Path) -> bool:
    """Whether a script multiplies its batch by the number of its GPUs."""
    products = (node for node in ast.walk(parsed(path.read_bytes())) if isinstance(node, ast.BinOp))
    return any("num_replicas" in ast.unparse(node) for node in products if isinstance(node.op, ast.Mult))
