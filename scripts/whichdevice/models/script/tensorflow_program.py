"""A training step of TensorFlow as a counted program: traced with shapes, then lowered by XLA to StableHLO.

What XLA has no form for, a look-up of words or a turned image, is left out of the step and named: TensorFlow runs it.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import tensorflow as tf

from whichdevice.base.errors import StudyError
from whichdevice.models.script.found import COUNTER
from whichdevice.models.script.programs import doubled, rows_of
from whichdevice.models.script.run import replaced

WITHOUT_FORM = re.compile(r"(\w+) \(No registered")
ALIAS = re.compile(r"parameter_number = (\d+)")
SUMMARIES = ("scalar", "image", "histogram", "text", "audio", "write", "graph")
MOST_LEFT_OUT = 8  # times that parts are left out, until a step is none that XLA takes
LEFT_OUT = "{names}: not in the step that is counted, as XLA has no form for it; TensorFlow runs it."
WITHOUT_VALUES = (tf.string, tf.resource, tf.variant)

Call = tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]]


class Lowered:
    """A function's program for arguments of some shapes."""

    def __init__(
        self, call: Call, shapes: Sequence[tuple[int, ...]] | None = None, named: Collection[int] = ()
    ) -> None:
        function, args, kwargs = call
        self._call, self._named = call, named
        self._leaves = tf.nest.flatten((args, dict(kwargs)))
        self.places = [place for place, leaf in enumerate(self._leaves) if is_tensor(leaf)]
        given = [self._leaves[place] for place in self.places]
        self.shapes = [tuple(leaf.shape) for leaf in given] if shapes is None else list(shapes)
        if any(None in shape for shape in self.shapes):
            raise StudyError("the shapes of its batch do not show")
        self._specs = [tf.TensorSpec(shape, leaf.dtype) for shape, leaf in zip(self.shapes, given, strict=True)]

        def run(*tensors: Any) -> Any:
            values = list(self._leaves)
            for place, tensor in zip(self.places, tensors, strict=True):
                values[place] = tensor
            args_, kwargs_ = tf.nest.pack_sequence_as((args, dict(kwargs)), values)
            return function(*args_, **kwargs_)

        with silent():
            self.traced = tf.function(run, jit_compile=True).get_concrete_function(*self._specs)
        self.left_out, self.named = set[str](), set[str]()  # types of operations
        self.counted, self.arrays = self._count()

    def _count(self) -> tuple[Any, int]:
        """Lower the traced graph, without parts that XLA does not take, and count it."""
        for _ in range(MOST_LEFT_OUT):
            words = [spec.dtype == tf.string for spec in self._specs]
            specs = [spec for spec, is_word in zip(self._specs, words, strict=True) if not is_word]
            compiled = tf.function(self._again, jit_compile=True, autograph=False)
            try:
                text = str(compiled.experimental_get_compiler_ir(*specs)(stage="stablehlo"))
            except Exception as error:
                unknown = set(WITHOUT_FORM.findall(str(error))) - self.left_out
                if not unknown:
                    raise StudyError(f"XLA does not take its step: {line_of_error(error)}") from error
                self.left_out |= unknown
                self.named |= unknown
                continue
            count = import_module(COUNTER)
            module = count.parsed_program(text)
            donated = {int(place) for place in ALIAS.findall(text.partition("func.func")[0])}
            counted = count.count_program(module, donated)
            return counted, text.partition("@main(")[2].partition(") ->")[0].count("%arg")
        raise StudyError(f"XLA does not take its step: {', '.join(sorted(self.left_out))}")

    def _again(self, *tensors: Any) -> Any:
        """The traced graph again, with zeros in place of what the parts left out return."""
        graph, given = self.traced.graph, iter(tensors)
        inputs, captured = graph.inputs[: len(self._specs)], self.traced.captured_inputs
        values = {one.name: None if one.dtype == tf.string else next(given) for one in inputs}
        values |= {one.name: value for one, value in zip(graph.inputs[len(inputs) :], captured, strict=True)}
        values |= self._left_out(graph.as_graph_def(), values)
        gone = {name.partition(":")[0] for name in values}
        definition = graph.as_graph_def()
        kept = [node for node in definition.node if node.name not in gone]
        del definition.node[:]
        for node in kept:
            inputs_ = [name for name in node.input if name.removeprefix("^") not in gone or name[:1] != "^"]
            del node.input[:]
            node.input.extend(inputs_)
            definition.node.add().CopyFrom(node)
        used = {name if ":" in name else f"{name}:0" for node in kept for name in node.input}
        mapped = {name: tf.identity(value) for name, value in values.items() if value is not None and name in used}
        outputs = [one.name for one in graph.outputs if one.dtype != tf.string and one.name not in values]
        return tf.graph_util.import_graph_def(definition, input_map=mapped, return_elements=outputs)

    def _left_out(self, definition: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return zeros in place of what parts left out return, by name: None in place of words."""
        library = {one.signature.name: one for one in definition.library.function}
        values, unknown = dict[str, Any](), list[Any]()
        for operation in self.traced.graph.get_operations():
            words = any(one.dtype == tf.string for one in operation.inputs)
            if words or (operation.type != "Placeholder" and self._is_left_out(operation.node_def, library)):
                self.named |= {operation.type} if words else set()
                values.setdefault(f"{operation.name}:0", None)
                for one in operation.outputs:
                    values[one.name] = _zeros(one)
                    unknown += [one] if values[one.name] is None and one.dtype not in WITHOUT_VALUES else []
        if unknown:
            shapes = self._shapes_of(definition, [one.name for one in unknown])
            values |= {one.name: tf.zeros(shape, one.dtype) for one, shape in zip(unknown, shapes, strict=True)}
        return values

    def _shapes_of(self, definition: Any, names: Sequence[str]) -> list[Any]:
        """Return the shapes of tensors whose shapes depend on values, as TensorFlow makes them of the batch."""
        with tf.init_scope():
            part = tf.compat.v1.graph_util.extract_sub_graph(definition, [name.partition(":")[0] for name in names])
            needed = {node.name for node in part.node}
            leaves = [self._leaves[place] for place in self.places]
            arrays = [_of_shape(*one) for one in zip(leaves, self._specs, strict=True)]
            values = [*arrays, *self.traced.captured_inputs]
            mapped = {one.name: value for one, value in zip(self.traced.graph.inputs, values, strict=True)
                      if one.name.partition(":")[0] in needed}  # fmt: skip

            def run() -> Any:
                inside = {name: tf.identity(value) for name, value in mapped.items()}
                return tf.graph_util.import_graph_def(part, input_map=inside, return_elements=list(names))

            return [one.shape for one in tf.function(run, autograph=False)()]

    def _is_left_out(self, node: Any, library: Mapping[str, Any]) -> bool:
        """Whether a node, or a function that it calls, is what XLA has no form for."""
        if node.op in self.left_out:
            return True
        names = [one.func.name for one in node.attr.values() if one.HasField("func")]
        names += [part.name for one in node.attr.values() for part in one.list.func]
        return any(self._is_left_out(part, library) for name in names if name in library
                   for part in library[name].node_def)  # fmt: skip

    @property
    def rows(self) -> int | None:
        """Return the examples of its batch, by the shapes of its arguments."""
        given = (*self._call[1], *dict(self._call[2]).values())
        return rows_of(([tuple(leaf.shape) for leaf in tf.nest.flatten(one) if is_tensor(leaf) and len(leaf.shape)]
                        for one in given), self._named)  # fmt: skip

    @property
    def note(self) -> str | None:
        """Return a sentence on what is left out of it; None: it has all."""
        return LEFT_OUT.format(names=", ".join(sorted(self.named))) if self.named else None

    def doubled(self) -> list[tuple[int, ...]]:
        """Return the shapes of twice as many examples."""
        return [doubled(shape, self.rows or 0) for shape in self.shapes]

    @cached_property
    def _variables(self) -> dict[int, float]:
        return {id(one.handle): nbytes(one) for one in self.traced.graph.variables}

    @property
    def state(self) -> float:
        """Return the bytes of its variables."""
        return sum(self._variables.values())

    @cached_property
    def held(self) -> dict[int, float]:
        """Return the bytes of its variables and of its batch, by their place in memory."""
        given = [self._leaves[place] for place in self.places]
        return self._variables | {id(one): nbytes(one, shape) for one, shape in zip(given, self.shapes, strict=True)}


def line_of_error(error: BaseException) -> str:
    """Return the first line of an error; the last one where AutoGraph wrote whence it comes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return lines[-1 if lines[0].startswith("in user code") else 0]


def _of_shape(leaf: Any, spec: Any) -> Any:
    """A batch's tensor with some number of examples; of one that is not known zeros."""
    known = leaf.numpy() if hasattr(leaf, "numpy") else leaf
    if isinstance(known, np.ndarray):
        return tf.constant(np.resize(known, tuple(spec.shape)), spec.dtype)
    return tf.zeros(spec.shape, spec.dtype) if spec.dtype != tf.string else tf.fill(spec.shape, "")


def is_tensor(leaf: Any) -> bool:
    """Whether a value is an array, and no variable."""
    return isinstance(leaf, np.ndarray) or (tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable)
                                            and hasattr(leaf, "dtype") and leaf.dtype != tf.resource
                                            and leaf.dtype != tf.variant)  # fmt: skip


def nbytes(array: Any, shape: Sequence[int] | None = None) -> float:
    """Return the bytes of a tensor or variable, perhaps of another shape."""
    return float(np.prod(array.shape if shape is None else shape)) * tf.as_dtype(array.dtype).size


def _zeros(tensor: Any) -> Any:
    known = tensor.shape.is_fully_defined() and tensor.dtype not in WITHOUT_VALUES
    return tf.zeros(tensor.shape, tensor.dtype) if known else None


def zeros_like(traced: Any) -> Any:
    """Zeros in place of what a traced function returns; None where their shapes do not show."""
    specs = tf.nest.flatten(traced.structured_outputs)
    if not all(tf.is_tensor(spec) and spec.shape.is_fully_defined() for spec in specs):
        return None
    return tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), traced.structured_outputs)


@contextmanager
def silent() -> Iterator[None]:
    """Leave out what a step prints and writes into a log: the host does that."""
    nothing = tf.autograph.experimental.do_not_convert(lambda *_, **__: None)
    with ExitStack() as stack:
        for owner, name in ((tf, "print"), *((tf.summary, name) for name in SUMMARIES)):
            stack.enter_context(replaced(owner, name, nothing))
        yield
