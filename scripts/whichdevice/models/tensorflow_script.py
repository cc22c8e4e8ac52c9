"""The training step of a script with a TensorFlow loop of its own: the `tf.function` in which a gradient changes weights.

`tf.function` is replaced by what remembers its arguments. The step's program is what TensorFlow makes for XLA
(`experimental_get_compiler_ir`): StableHLO, with variables as arguments and results. It is kept with one batch as a
file; other processes call it from JAX, without TensorFlow and without the script. A strategy for several GPUs is one
device here, which takes the whole batch.
"""

import ast
import inspect
import json
import linecache
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from whichdevice.code_hash import parsed
from whichdevice.errors import StudyError
from whichdevice.models.evaluation import evaluations_in
from whichdevice.models.framework import JAX
from whichdevice.models.script_run import SEED, Found, JaxStep, Run, Script, Watcher, is_own, replaced
from whichdevice.models.script_size import Function, Stack, is_whole, sizes

KEPT = ".step.npz"
MAX_FLOATS = 2**16  # numbers of an array of floats that is kept with its values; a larger one is zeros
FACTORS = (2, 4, 8)  # of GPUs, each of which takes the script's batch
MAX_READ, READ_SECONDS = 16, 60.0  # batches whose lengths are read; seconds until nobody counts batches any more
APPLIED = ("apply_gradients", "apply", "minimize", "assign_sub")  # methods that change weights
CHANGES = ("ResourceApply", "ResourceSparseApply", "Assign")  # operations that change a variable
TYPES = {"i1": "bool", "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
TENSOR = re.compile(r"tensor<([^<>]*)>")
COPY = re.compile(r"mhlo\.copy (%\S+) : (tensor<[^<>]*>)")  # XLA's own operation; JAX takes StableHLO alone
ALIAS = re.compile(r"parameter_number = (\d+)[^}]*}, output_index = array<i64(?:: (\d+))?>")
BITS = re.compile(r'(%\S+) = stablehlo\.constant dense<"0x(\w+)"> : tensor<([\dx]+)xi1>')  # of an older MLIR
HALF = re.compile(r"stablehlo\.(dot|dot_general|convolution)\b.*: \(tensor<[^<>]*x?b?f16>")
UNSUPPORTED = re.compile(r"Detected unsupported operations.*?: (\w+)", re.DOTALL)
SUMMARIES = ("scalar", "image", "histogram", "text", "audio", "write", "graph")
BY_FUNCTION = "put @tf.function on a function that trains on one batch, from the tape to apply_gradients"
INSTEAD = "or write a model file (docs/start/your-model.md)"
OF_THE_STEP = SimpleNamespace(init=lambda trained: (), update=None)  # as an optimiser: it is inside of the step
COMPILED = "Its step is forecast as XLA compiles it, as with @tf.function(jit_compile=True)."
EACH = "Each of its GPUs takes {batch} examples: for {gpus} of them add --gpus {gpus} --batch {total}."
SHARED = "Its GPUs share {batch} examples: for {gpus} of them add --gpus {gpus}."
LENGTHS = "Lengths vary from {least} to {most}; steps are of the mean, {mean}."


class Call(NamedTuple):
    """A function with the arguments that the script gave it, tensors of a graph among them."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Watching(Watcher):
    """Stops a script where it calls a tf.function that takes a gradient and changes variables."""

    package = "TensorFlow"
    missing = "no tf.function changed variables by a gradient"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.calls: list[Call] = []  # that are being traced, the outermost first
        self.gpus = 0  # that a strategy of the script asks for

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
        self.replacements.enter_context(_silent())
        self.replace(tf.summary, "create_file_writer", lambda *_, **__: tf.summary.create_noop_writer())

    def _devices(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stand in for the list of devices, in which the script sees GPUs."""

        def devices(device_type: str | None = None) -> list[Any]:
            caller = traceback.extract_stack(limit=2)[0].filename
            known = list(original(device_type))
            if not is_own(caller, self.run.path) or device_type not in (None, "GPU"):
                return known
            self.run.counts_gpus = True
            kind = self._tf.config.PhysicalDevice
            return known + [kind(f"/physical_device:GPU:{place}", "GPU") for place in range(self.run.gpus)]

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
            if not self.run.over and not self._tf.inside_function():
                stack = Stack(self.run.path)
                if (call := _eager_step(stack)) is None:
                    reason = f"its loop trains outside of tf.function: {BY_FUNCTION}, {INSTEAD}"
                    self.run.stop(StudyError(f"{stack.where}: {reason}"))
                self.run.stop(partial(_script, self, stack, [call]))
            return original(tape)

        return enter

    def call(self, made: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a tf.function outside of any other; where it trains, end the script."""
        if self.run.over:
            return made(*args, **kwargs)
        self.calls, self._gradient_taken = [Call(function, args, kwargs)], []
        with suppress(Exception):  # the call itself raises the same
            traced = made.get_concrete_function(*args, **kwargs)
            if self._gradient_taken and _changes(traced):
                calls = [*self._gradient_taken]
                self.run.stop(partial(_script, self, Stack(self.run.path), calls))
        return made(*args, **kwargs)


class _Function:
    """What `tf.function` gives, which the watcher knows the calls of."""

    def __init__(self, watching: Watching, made: Any, function: Any) -> None:
        self._watching, self._made, self._function = watching, made, function
        self._is_inside = watching._tf.inside_function

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return _Function(self._watching, self._made.__get__(instance, owner), self._function.__get__(instance, owner))

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
            self._gpus = watching.gpus = len(devices or ()) or watching.run.gpus

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


@contextmanager
def _silent() -> Iterator[None]:
    """Leave out what a step prints and writes into a log: the host does that."""
    import tensorflow as tf

    nothing = tf.autograph.experimental.do_not_convert(lambda *_, **__: None)
    with ExitStack() as stack:
        for owner, name in ((tf, "print"), *((tf.summary, name) for name in SUMMARIES)):
            stack.enter_context(replaced(owner, name, nothing))
        yield


def _changes(traced: Any) -> bool:
    """Whether a traced function changes variables."""
    graph = traced.graph.as_graph_def()
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return any(node.op.startswith(CHANGES) for node in nodes)


def _script(watching: Watching, stack: Stack, calls: Sequence[Call]) -> Script:
    """The script's step with its first batch: the outermost of the functions around the gradient that XLA compiles."""
    import tensorflow as tf

    error: StudyError | None = None
    for number, call in enumerate(calls):
        if any(hasattr(leaf, "element_spec") for leaf in tf.nest.flatten((call.args, dict(call.kwargs)))):
            continue  # a loop over data
        try:
            return _of_call(watching, _inside(stack, calls[:number]), call)
        except StudyError as other:
            error = other
    raise error or StudyError(f"{stack.where}: no function takes the tensors of one batch: {BY_FUNCTION}, {INSTEAD}")


def _inside(stack: Stack, calls: Sequence[Call]) -> Stack:
    """The stack with functions that are being traced, in whose loops the step is."""
    stack = copy(stack)
    for call in calls:
        function = inspect.unwrap(call.function)
        with suppress(TypeError, OSError, ValueError):  # of no source
            known = inspect.getclosurevars(function)
            variables = {**known.nonlocals, **inspect.signature(function).bind(*call.args, **call.kwargs).arguments}
            if inspect.ismethod(function):
                variables["self"] = function.__self__
            code, tree = function.__code__, parsed(Path(function.__code__.co_filename).read_bytes())
            lines = range(code.co_firstlineno, max(line or 0 for *_, line in code.co_lines()) + 1)
            loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While) and node.lineno in lines]
            line = max((loop.body[0].lineno for loop in loops), default=code.co_firstlineno)
            stack.functions = [Function(code, line, variables, function.__globals__), *stack.functions]
    return stack


def _eager_step(stack: Stack) -> Call | None:
    """The statements from a tape to the change of the weights as a function of what the loop changes; None: no such."""
    for part in (part for part in stack.functions if is_own(part.code.co_filename, stack.path)):
        body = _body_around(parsed(Path(part.code.co_filename).read_bytes()), part.line)
        first = next((place for place, node in enumerate(body) if part.line <= (node.end_lineno or 0)), len(body))
        last = max((place for place, node in enumerate(body) if _applies(node)), default=-1)
        if first <= last:
            return _as_function(body[first : last + 1], part)
    return None


def _body_around(tree: ast.AST, line: int) -> list[ast.stmt]:
    """The statements of the innermost loop or function around a line, else of the file."""
    kinds = ast.For | ast.While | ast.FunctionDef | ast.Module
    around = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    around = [
        node for node in around
        if isinstance(node, ast.Module) or node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
    ]  # fmt: skip
    return max(around, key=lambda node: getattr(node, "lineno", 0)).body


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
    count: int | None = None  # of one epoch
    notes: tuple[str, ...] = ()


def _of_call(watching: Watching, stack: Stack, call: Call) -> Script:
    import tensorflow as tf

    leaves = tf.nest.flatten((call.args, dict(call.kwargs)))
    known = [*leaves, *(value for scope in stack.scopes for value in scope.values())]
    sources = [value for value in known if hasattr(value, "element_spec") and not inspect.isclass(value)]
    places = [place for place, leaf in enumerate(leaves) if tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable)]
    places = [place for place, leaf in enumerate(leaves) if place in places or isinstance(leaf, np.ndarray)]
    batches = _batches([leaves[place] for place in places], sources, stack.where)

    def flat(*tensors: Any) -> Any:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        args, kwargs = tf.nest.pack_sequence_as((call.args, dict(call.kwargs)), values)
        return call.function(*args, **kwargs)

    step = compiled_step(flat, batches.tensors, stack.where)
    if watching.gpus == 1 and _multiplies(stack.path):
        for factor in FACTORS:
            larger = [np.repeat(array, factor, 0) if len(array) == step.size else array for array in batches.tensors]
            with suppress(StudyError):  # a size that the script has fixed
                step.texts[factor] = compiled_step(flat, larger, stack.where).text
    return _made(watching, stack, step, batches)


def _batches(tensors: Sequence[Any], sources: Sequence[Any], where: str) -> Batches:
    """Arrays of one batch in place of tensors, of the mean length where a source's lengths vary."""
    specs = [(tuple(tensor.shape), str(getattr(tensor.dtype, "name", tensor.dtype))) for tensor in tensors]
    if any(name in ("string", "variant", "resource") for _, name in specs):
        raise StudyError(f"{where}: the step takes words, which XLA does not compile: look them up in the data set")
    source = next((source for source in sources if _gives(source, specs)), None)
    arrays = [np.asarray(tensor) if hasattr(tensor, "numpy") or isinstance(tensor, np.ndarray) else None
              for tensor in tensors]  # fmt: skip
    known = all(None not in shape for shape, _ in specs)
    if source is None:
        if any(array is None for array in arrays) and not known:
            raise StudyError(f"{where}: the shapes of a batch do not show: {BY_FUNCTION}, {INSTEAD}")
        return Batches([_filled(array, *spec) for array, spec in zip(arrays, specs, strict=True)])
    varies = any(None in shape[1:] for shape in _shapes(source))
    count, shapes = _counted(source, varies or not known)
    if not varies:
        first = shapes[0] if shapes and not known else [shape for shape, _ in specs]
        given = [(shape, name) for shape, (_, name) in zip(first, specs, strict=True)]
        return Batches([_filled(array, *spec) for array, spec in zip(arrays, given, strict=True)], source, count)
    usual = Counter(shape[0][0] for shape in shapes).most_common(1)[0][0]
    sized = [shape for shape in shapes if shape[0][0] == usual]
    means = [tuple(round(float(np.mean(axis))) for axis in zip(*column, strict=True)) for column in zip(*sized, strict=True)]  # fmt: skip
    lengths = [(least, max(axis), mean) for column, shape in zip(zip(*sized, strict=True), means, strict=True)
               for axis, mean in zip(zip(*column, strict=True), shape, strict=True) if (least := min(axis)) < max(axis)]  # fmt: skip
    notes = ()
    if lengths:
        least, most, mean = max(lengths, key=lambda length: length[2])
        notes = (LENGTHS.format(least=least, most=most, mean=mean),)
    given = [(shape, name) for shape, (_, name) in zip(means, specs, strict=True)]
    arrays = [None if array is None else np.resize(array, shape) for array, (shape, _) in zip(arrays, given, strict=True)]  # fmt: skip
    return Batches([_filled(array, *spec) for array, spec in zip(arrays, given, strict=True)], source, count, notes)


def _filled(array: Any, shape: Sequence[int], dtype: str) -> np.ndarray:
    """The array; zeros that take no memory in place of no array and of one of many floats."""
    plain = "float32" if dtype == "bfloat16" else dtype
    if array is not None and ("int" in dtype or np.prod(shape) <= MAX_FLOATS):
        return np.asarray(array).astype(plain)
    return np.broadcast_to(np.zeros((), plain), tuple(shape))


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


def _counted(source: Any, reads: bool) -> tuple[int | None, list[list[tuple[int, ...]]]]:
    """How many batches a source gives in an epoch, and the shapes of the first."""
    import tensorflow as tf

    cardinality = int(source.cardinality()) if hasattr(source, "cardinality") else int(tf.data.INFINITE_CARDINALITY)
    unknown = cardinality == int(tf.data.UNKNOWN_CARDINALITY)
    shapes, count, begin = list[list[tuple[int, ...]]](), 0, time.monotonic()
    if reads or unknown:
        for item in source:
            count += 1
            if len(shapes) < MAX_READ:
                shapes.append([tuple(leaf.shape) for leaf in tf.nest.flatten(item)])
            elif not unknown or time.monotonic() - begin > READ_SECONDS:
                return (cardinality if cardinality > 0 else None), shapes
        return (cardinality if cardinality > 0 else count), shapes
    return (cardinality if cardinality > 0 else None), shapes


@dataclass(frozen=True)
class Program:
    """A training step as XLA's program, with the values of its arguments; a batch's are not among them."""

    texts: dict[int, str]  # StableHLO for batches of so many times the examples
    values: dict[int, np.ndarray]  # of an argument that is no example, by its place
    trained: tuple[int, ...]  # arguments that the step trains
    results: dict[int, int]  # the place of an argument's new value among the results
    batch: dict[int, np.ndarray]  # the first batch, by place

    @property
    def size(self) -> int:
        """Return the examples of a batch."""
        return len(next(iter(self.batch.values())))

    @property
    def text(self) -> str:
        """Return the program for the script's own batch."""
        return self.texts[1]

    @property
    def is_mixed(self) -> bool:
        """Return whether it multiplies in 16 bits."""
        return HALF.search(self.text) is not None


def keras_step(steps: Sequence[tuple[Callable[..., Any], Any]], where: str) -> Program:
    """The program of Keras' own steps one after the other, each with its batch, a tree of arrays."""
    import tensorflow as tf

    leaves = [tf.nest.flatten(data) for _, data in steps]

    def flat(*tensors: Any) -> Any:
        results, start = [], 0
        for (function, data), flat_data in zip(steps, leaves, strict=True):
            given = tensors[start : start + len(flat_data)]
            results.append(function(tf.nest.pack_sequence_as(data, given)))
            start += len(flat_data)
        return results

    arrays = [np.asarray(leaf) for tree in leaves for leaf in tree]
    return compiled_step(flat, [_filled(array, array.shape, array.dtype.name) for array in arrays], where)


def compiled_step(function: Callable[..., Any], tensors: Sequence[np.ndarray], where: str) -> Program:
    """Trace a function of a batch's tensors for XLA; raises StudyError in one line where XLA cannot take it."""
    import tensorflow as tf

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    traced = tf.function(function, jit_compile=True)
    try:
        with _silent():
            concrete = traced.get_concrete_function(*specs)
            text = traced.experimental_get_compiler_ir(*specs)(stage="stablehlo")
    except Exception as error:
        said = UNSUPPORTED.search(str(error))
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = f"its operation {said[1]}" if said else lines[-1 if lines[0].startswith("in user code") else 0]
        raise StudyError(f"{where}: XLA does not compile the step: {reason}: leave that out of it, {INSTEAD}") from error
    text = BITS.sub(_as_bytes, COPY.sub(r"stablehlo.reshape \1 : (\2) -> \2", text))
    return _program(text, concrete, tensors, where)


def _as_bytes(constant: re.Match[str]) -> str:
    """A constant of bits, which TensorFlow packs and JAX does not, as one of bytes that are converted."""
    name, digits, shape = constant.groups()
    numbers = np.unpackbits(np.frombuffer(bytes.fromhex(digits), np.uint8), bitorder="little")
    text = numbers[: int(np.prod([*map(int, shape.split("x"))]))].tobytes().hex().upper()
    return (
        f'%bytes_{name[1:]} = stablehlo.constant dense<"0x{text}"> : tensor<{shape}xi8>\n'
        f"    {name} = stablehlo.convert %bytes_{name[1:]} : (tensor<{shape}xi8>) -> tensor<{shape}xi1>"
    )


def _program(text: str, concrete: Any, tensors: Sequence[np.ndarray], where: str) -> Program:
    given, _ = signature(text)
    wanted = [*tensors, *concrete.captured_inputs]
    variables = {id(variable.handle): variable for variable in concrete.variables}
    rows = dict[int, np.ndarray]()
    values, trained = dict[int, np.ndarray](), list[int]()
    results = {int(place): int(result or 0) for place, result in ALIAS.findall(text.partition("\n  func.func")[0])}
    place = 0
    for number, value in enumerate(wanted):
        variable = variables.get(id(value))
        array = variable if variable is not None else value
        shape = tuple(array.shape)
        if place >= len(given) or given[place][0] != shape:  # a constant of the program
            continue
        if number < len(tensors):
            rows[place] = tensors[number]
        else:
            values[place] = _filled(array, *given[place])
            if variable is not None and variable.trainable and place in results:
                trained.append(place)
        place += 1
    if place != len(given):
        raise StudyError(f"{where}: the arguments of the step's program are not those of its function, {INSTEAD}")
    if not trained:
        raise StudyError(f"{where}: the step changes no trainable variables: {BY_FUNCTION}, {INSTEAD}")
    lengths = Counter(len(array) for array in rows.values() if array.ndim)
    if not lengths:
        raise StudyError(f"{where}: the step takes no batch: give it the tensors of one as arguments, {INSTEAD}")
    size = lengths.most_common(1)[0][0]
    batch = {place: array for place, array in rows.items() if array.ndim and len(array) == size}
    values |= {place: array for place, array in rows.items() if place not in batch}
    return Program({1: text}, values, tuple(trained), results, batch)


def signature(text: str) -> tuple[list[tuple[tuple[int, ...], str]], list[tuple[tuple[int, ...], str]]]:
    """Shapes and types of a program's arguments and of its results."""
    main = next(line for line in text.splitlines() if "func.func" in line and "@main" in line)
    given, _, found = main.partition(") -> ")
    return [*map(_typed, TENSOR.findall(given))], [*map(_typed, TENSOR.findall(found))]


def _typed(text: str) -> tuple[tuple[int, ...], str]:
    *shape, kind = text.split("x")
    return tuple(map(int, shape)), TYPES.get(kind) or kind.replace("ui", "uint").replace("i", "int", kind[0] == "i")


def _made(watching: Watching, stack: Stack, step: Program, batches: Batches) -> Script:
    """The script of a step, with how long it trains by the loops around it."""
    batch = list(step.batch.values())
    shapes, whole = [array.shape for array in batch], is_whole(batch, stack.outside)
    loops, count = stack.loops, batches.count
    if loops.batches:  # of what the loop is over, which may be more or fewer than its source has
        loops, count = loops._replace(steps=loops.batches), None
    elif stack.has_one_loop and loops.epochs and not (whole or count):
        loops = loops._replace(steps=1)  # each turn is one step
    loaded = None if count is None else count * step.size
    size = sizes(stack.scopes, loops, shapes, loaded, count, whole=whole)
    size["evaluations"] = tuple(evaluations_in(stack, step.size, _evaluates, free=True))
    notes = [*batches.notes, *_of_gpus(watching, stack.path, step.size)]
    source = batches.source if hasattr(batches.source, "as_numpy_iterator") else None
    return script_of(step, stack.line, size, source, notes, watching.run.gpus)


def _evaluates(called: Any) -> float | None:
    """Return the work of a forward pass where a model of Keras is called."""
    import keras

    return 1.0 if isinstance(called, keras.Model) else None


def script_of(
    step: Program, line: int | None, size: Mapping[str, Any], source: Any = None, notes: Sequence[str] = (), gpus: int = 1
) -> Script:
    """The script of a step, with the size of its training."""
    precision = "mixed" if step.is_mixed else "single"
    found = Found(JAX, step.size, line=line, precision=precision, notes=(*notes, COMPILED), gpus=gpus, **size)
    return TensorFlowScript(found, functions_of(step), source, step=step)


def _of_gpus(watching: Watching, path: Path, size: int) -> list[str]:
    """Return how to ask for all GPUs of a strategy."""
    if not watching.gpus:
        return []
    gpus = watching.gpus if watching.gpus > 1 else 4
    if watching.gpus == 1 and _multiplies(path):
        return [EACH.format(batch=size, gpus=gpus, total=gpus * size)]
    return [SHARED.format(batch=size, gpus=gpus)]


def _multiplies(path: Path) -> bool:
    """Whether a script multiplies its batch by the number of its GPUs."""
    products = (node for node in ast.walk(parsed(path.read_bytes())) if isinstance(node, ast.BinOp))
    return any("num_replicas" in ast.unparse(node) for node in products if isinstance(node.op, ast.Mult))


@dataclass
class TensorFlowScript(Script):
    """A script whose step is a program of its own."""

    step: Program | None = None


def keep_step(step: Program, file: Path) -> None:
    """Write the step's program, its arguments and its batch as `file`.step.npz."""
    file.parent.mkdir(parents=True, exist_ok=True)
    zeros = {str(place): (array.shape, array.dtype.name) for place, array in step.values.items() if _is_empty(array)}
    facts: dict[str, Any] = {"trained": step.trained, "results": step.results, "zeros": zeros}
    arrays = {f"value_{place}": array for place, array in step.values.items() if str(place) not in zeros}
    rows = {place: (array.shape, array.dtype.name) for place, array in step.batch.items() if _is_empty(array)}
    arrays |= {f"batch_{place}": array for place, array in step.batch.items() if place not in rows}
    facts["rows"] = rows
    arrays |= {f"text_{factor}": np.frombuffer(text.encode(), np.uint8) for factor, text in step.texts.items()}
    np.savez_compressed(
        file.with_suffix(KEPT),
        facts=np.frombuffer(json.dumps(facts).encode(), np.uint8), **arrays,
    )  # fmt: skip


def _is_empty(array: np.ndarray) -> bool:
    return array.ndim > 0 and not any(array.strides)


def kept_step(file: Path) -> SimpleNamespace | None:
    """The functions of a kept step; None: there is none."""
    if not file.with_suffix(KEPT).is_file():
        return None
    with np.load(file.with_suffix(KEPT)) as held:
        arrays = dict(held)
    facts = json.loads(arrays.pop("facts").tobytes())

    def all_of(kind: str, empty: Mapping[str, Any]) -> dict[int, np.ndarray]:
        known = {int(name.partition("_")[2]): array for name, array in arrays.items() if name.startswith(kind)}
        return known | {int(place): np.broadcast_to(np.zeros((), dtype), shape) for place, (shape, dtype) in empty.items()}  # fmt: skip

    values, batch = all_of("value_", facts["zeros"]), all_of("batch_", facts["rows"])
    results = {int(place): result for place, result in facts["results"].items()}
    texts = {int(name[5:]): array.tobytes().decode() for name, array in arrays.items() if name.startswith("text_")}
    return functions_of(Program(texts, values, tuple(facts["trained"]), results, batch))


def functions_of(step: Program) -> SimpleNamespace:
    """A model file's functions, made of a step; its data, to train and to validate, are the one batch."""
    batch = ({f"input_{place}": array for place, array in step.batch.items()},)
    return SimpleNamespace(model=lambda: jax_step(step), data=lambda: (batch, batch), optimizer=lambda: OF_THE_STEP)


def jax_step(step: Program) -> JaxStep:
    """The step as a function of JAX, which calls the program."""
    import jax

    arguments, outputs = signature(step.text)
    results = set(step.results.values())
    losses = (place for place, (shape, kind) in enumerate(outputs) if not shape and "float" in kind)
    loss = next((place for place in losses if place not in results), None)
    held = [place for place in step.values if place not in step.trained]

    def run(new_trained: Any, new_held: Any, inputs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        given = dict(zip((*step.trained, *held), (*new_trained, *new_held), strict=True))
        given |= {place: inputs[f"input_{place}"] for place in step.batch}
        factor = len(given[next(iter(step.batch))]) / step.size
        if factor not in step.texts:
            raise StudyError(f"its step is compiled for a batch of {step.size}: change it in the script")
        made = _called(step.texts[int(factor)], [given[place] for place in range(len(arguments))])
        after = {place: made[step.results[place]] if place in step.results else given[place] for place in given}

        def kept(places: Sequence[int]) -> list[Any]:
            return [jax.lax.convert_element_type(after[place], given[place].dtype) for place in places]

        return kept(step.trained), kept(held), 0.0 if loss is None else made[loss]

    def stored(places: Sequence[int]) -> list[Any]:
        return [_narrow(step.values[place], jax.dtypes.canonicalize_dtype(arguments[place][1])) for place in places]

    return JaxStep(stored(step.trained), stored(held), run)


def _called(text: str, given: Sequence[Any]) -> list[Any]:
    """The results of a program: it takes the place of a program with the same arguments and results."""
    import jax
    from jax import export

    arguments, outputs = signature(text)

    def zeros(*_: Any) -> list[Any]:
        return [jax.numpy.zeros(shape, kind) for shape, kind in outputs]

    with jax.enable_x64(True):  # TensorFlow counts in 64 bits
        specs = [jax.ShapeDtypeStruct(shape, kind) for shape, kind in arguments]
        checks = [export.DisabledSafetyCheck.platform()]
        empty = export.export(jax.jit(zeros), platforms=["cpu"], disabled_checks=checks)(*specs)
        every = tuple(range(len(arguments)))
        program = replace(empty, mlir_module_serialized=text.encode(), module_kept_var_idx=every)
        made = program.call(*(jax.numpy.asarray(array, kind) for array, (_, kind) in zip(given, arguments, strict=True)))
    return list(made)


def _narrow(array: np.ndarray, dtype: Any) -> np.ndarray:
    """An array in a type of JAX; zeros stay without memory."""
    if _is_empty(array):
        return np.broadcast_to(np.zeros((), dtype), array.shape)
    return array.astype(dtype)
