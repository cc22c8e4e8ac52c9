"""A training step of TensorFlow as a program that JAX calls, kept as a file for processes without TensorFlow.

step = compiled_step(function, tensors, "train.py, line 8")   # StableHLO, variables as arguments and results
keep_step(step, file), kept_step(file)                        # with one batch
jax_step(step).run(trained, held, inputs)                     # in any process
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.framework import JAX
from whichdevice.models.script.found import Found, JaxStep, Script
from whichdevice.models.script.run import replaced

KEPT = ".step.npz"
MAX_FLOATS = 2**16  # numbers of an array of floats that is kept with its values; a larger one is zeros
TYPE_NAMES = {"i1": "bool", "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
TENSOR = re.compile(r"tensor<([^<>]*)>")
COPY = re.compile(r"mhlo\.copy (%\S+) : (tensor<[^<>]*>)")  # XLA's own operation; JAX takes StableHLO alone
ALIAS = re.compile(r"parameter_number = (\d+)[^}]*}, output_index = array<i64(?:: (\d+))?>")
BITS = re.compile(r'(%\S+) = stablehlo\.constant dense<"0x(\w+)"> : tensor<([\dx]+)xi1>')  # of an older MLIR
HALF_PRODUCT = re.compile(r"stablehlo\.(dot|dot_general|convolution)\b.*: \(tensor<[^<>]*x?b?f16>")
UNSUPPORTED = re.compile(r"Detected unsupported operations.*?: (\w+)", re.DOTALL)
SUMMARIES = ("scalar", "image", "histogram", "text", "audio", "write", "graph")
BY_FUNCTION = "put @tf.function on a function that trains on one batch, from the tape to apply_gradients"
MAIN = re.compile(r"func\.func (?:public )?@main")  # in the line of a program with its arguments
INSTEAD = "or write a model file (docs/start/your-model.md)"
OF_THE_STEP = SimpleNamespace(init=lambda trained: (), update=None)  # as an optimiser: it is inside of the step
COMPILED = "Its step is forecast as XLA compiles it, as with @tf.function(jit_compile=True)."


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
        return HALF_PRODUCT.search(self.text) is not None


def joined_step(steps: Sequence[tuple[Callable[..., Any], Any]], where: str) -> Program:
    """The program of steps one after the other, functions of their batches, each a tree of arrays."""
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
    return compiled_step(flat, [filled(array, array.shape, array.dtype.name) for array in arrays], where)


def compiled_step(function: Callable[..., Any], tensors: Sequence[np.ndarray], where: str) -> Program:
    """Trace a function of a batch's tensors for XLA; raises StudyError in one line where XLA cannot take it."""
    import tensorflow as tf

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in tensors]
    traced = tf.function(function, jit_compile=True)
    try:
        with silent():
            concrete = traced.get_concrete_function(*specs)
            text = traced.experimental_get_compiler_ir(*specs)(stage="stablehlo")
    except Exception as error:
        operation = UNSUPPORTED.search(str(error))
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        reason = (
            f"its operation {operation[1]}" if operation else lines[-1 if lines[0].startswith("in user code") else 0]
        )
        raise StudyError(
            f"{where}: XLA does not compile the step: {reason}: leave that out of it, {INSTEAD}"
        ) from error
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
    if MAIN.search(text) is None:  # TensorFlow writes it so where a part is none of StableHLO
        reason = "a shape depends on values: leave that out of it"
        raise StudyError(f"{where}: XLA does not compile the step: {reason}, {INSTEAD}")
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
            values[place] = filled(array, *given[place])
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
    main = next(line for line in text.splitlines() if MAIN.search(line))
    given, _, results = main.partition(") -> ")
    return [*map(_typed, TENSOR.findall(given))], [*map(_typed, TENSOR.findall(results))]


def _typed(text: str) -> tuple[tuple[int, ...], str]:
    *shape, kind = text.split("x")
    return tuple(map(int, shape)), TYPE_NAMES.get(kind) or kind.replace("ui", "uint").replace(
        "i", "int", kind[0] == "i"
    )


def filled(array: Any, shape: Sequence[int], dtype: str) -> np.ndarray:
    """The array; zeros that take no memory in place of no array and of one of many floats."""
    plain = "float32" if dtype == "bfloat16" else dtype
    if array is not None and ("int" in dtype or np.prod(shape) <= MAX_FLOATS):
        return np.asarray(array).astype(plain)
    return np.broadcast_to(np.zeros((), plain), tuple(shape))


@dataclass
class TensorFlowScript(Script):
    """A script whose step is a program of its own."""

    step: Program | None = None


def script_of(
    step: Program,
    line: int | None,
    size: Mapping[str, Any],
    source: Any = None,
    notes: Sequence[str] = (),
) -> Script:
    """The script of a step, with the size of its training."""
    precision = "mixed" if step.is_mixed else "single"
    training = Found(JAX, step.size, line=line, precision=precision, notes=(*notes, COMPILED), **size)
    return TensorFlowScript(training, functions_of(step), source, step=step)


@contextmanager
def silent() -> Iterator[None]:
    """Leave out what a step prints and writes into a log: the host does that."""
    import tensorflow as tf

    nothing = tf.autograph.experimental.do_not_convert(lambda *_, **__: None)
    with ExitStack() as stack:
        for owner, name in ((tf, "print"), *((tf.summary, name) for name in SUMMARIES)):
            stack.enter_context(replaced(owner, name, nothing))
        yield


def keep_step(step: Program, file: Path) -> None:
    """Write the step's programs, the values of its arguments and its batch as `file`.step.npz."""
    file.parent.mkdir(parents=True, exist_ok=True)
    values = {f"value_{place}": array for place, array in step.values.items()}
    values |= {f"batch_{place}": array for place, array in step.batch.items()}
    zeros = {name: (array.shape, array.dtype.name) for name, array in values.items() if _is_empty(array)}
    arrays = {name: array for name, array in values.items() if name not in zeros}
    arrays |= {f"text_{factor}": _bytes(text) for factor, text in step.texts.items()}
    facts = {"trained": step.trained, "results": step.results, "zeros": zeros}
    arrays["facts"] = _bytes(json.dumps(facts))
    np.savez_compressed(file.with_suffix(KEPT), allow_pickle=False, **arrays)


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


def _is_empty(array: np.ndarray) -> bool:
    return array.ndim > 0 and not any(array.strides)


def kept_step(file: Path) -> SimpleNamespace | None:
    """The functions of a kept step; None: there is none."""
    if not file.with_suffix(KEPT).is_file():
        return None
    with np.load(file.with_suffix(KEPT)) as held:
        arrays = dict(held)
    facts = json.loads(arrays.pop("facts").tobytes())
    for name, (shape, dtype) in facts["zeros"].items():
        arrays[name] = np.broadcast_to(np.zeros((), dtype), shape)

    def by_place(kind: str) -> dict[int, np.ndarray]:
        return {int(name.removeprefix(kind)): array for name, array in arrays.items() if name.startswith(kind)}

    texts = {factor: text.tobytes().decode() for factor, text in by_place("text_").items()}
    results = {int(place): result for place, result in facts["results"].items()}
    return functions_of(Program(texts, by_place("value_"), tuple(facts["trained"]), results, by_place("batch_")))


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
        made = program.call(
            *(jax.numpy.asarray(array, kind) for array, (_, kind) in zip(given, arguments, strict=True))
        )
    return list(made)


def _narrow(array: np.ndarray, dtype: Any) -> np.ndarray:
    """An array in a type of JAX; zeros stay without memory."""
    if _is_empty(array):
        return np.broadcast_to(np.zeros((), dtype), array.shape)
    return array.astype(dtype)
