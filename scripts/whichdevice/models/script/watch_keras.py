"""The training of an ordinary Keras script: the model and the data that `fit` is given.

What looks words and categories up runs on the host, as in training: its part of the model is cut off and applied to the
data. The rest of the model is kept with a sample of its data as files, if its configuration makes it again; other
processes read those, on whichever backend, and do not run the script but for what defines the model's own classes.
"""

import ast
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import StudyError
from whichdevice.models.consistency import check_declared
from whichdevice.models.data import MIN_BATCHES, arrays_of, as_tree, generate, training_part
from whichdevice.models.declaration import read_declaration
from whichdevice.models.framework import KERAS
from whichdevice.models.model_file import called_with, looks_up, overridden, require_jax_step
from whichdevice.models.script.evaluation import of_fit
from whichdevice.models.script.found import SAMPLE, Evaluation, Found, Script
from whichdevice.models.script.run import ScriptRun, Watcher, calls_of, others_like
from whichdevice.models.script.size import Stack, amounts, is_whole
from whichdevice.models.script.tensorflow_step import joined_step, script_of
from whichdevice.models.script.text import attribute
from whichdevice.models.shapes import Tree, leaves, mapped, named, packed
from whichdevice.models.workloads.base import Options

SAMPLE_BYTES = 2.0**28  # of data that are kept, beyond two batches
COPIES = 4  # of the first batch where the script itself gives one after the other
MOST_KEPT = 2e8  # parameters of a model that is kept as its configuration: its weights are made anew


class Watching(Watcher):
    """Stops a script where it calls `fit` or `train_on_batch` of a Keras model."""

    package = "Keras"
    missing = "nothing called fit"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self._steps: dict[Any, tuple[Any, Any]] = {}  # several train_on_batch of a loop, by their lines
        config = getattr(sys.modules.get(KERAS), "config", None)  # none while Keras is being imported
        self.policy = None if config is None else config.dtype_policy()

    def attach(self, package: ModuleType) -> None:
        """Replace what trains; the number format that the process has for its models is each thread's own."""
        name = self.run.path.name
        if package.__name__ == KERAS:
            if self.policy is not None:
                package.config.set_dtype_policy(self.policy)
            for method in ("fit", "train_on_batch"):
                self.replace(package.Model, method, self._in_place_of(getattr(package.Model, method)))
        else:
            self.run.stop(StudyError(f"{name}: it trains with Keras 2 (tf_keras): write it for Keras 3"))

    def _in_place_of(self, method: Callable[..., Any]) -> Callable[..., Any]:
        parameters = inspect.signature(method)

        @wraps(method)
        def stop(*args: Any, **kwargs: Any) -> Any:
            if self.run.over:
                return method(*args, **kwargs)
            bound = parameters.bind(*args, **kwargs)
            bound.apply_defaults()
            stack, given = Stack(self.run.path), bound.arguments
            if method.__name__ != "fit" and len(_others(stack.path, stack.line)) > 1 and _on_tensorflow():
                return self._one_of_several(given, stack)
            self.run.stop(partial(_script, given | given.pop("kwargs", {}), stack, method.__name__ != "fit"))

        return stop

    def _one_of_several(self, given: Mapping[str, Any], stack: Stack) -> Any:
        """Remember a `train_on_batch`, which only evaluates here; where the loop comes back to it, all are the step."""
        import tensorflow as tf

        if stack.own_lines in self._steps:
            self.run.stop(partial(_script_of_several, stack, list(self._steps.values())))
        model, parts = given["self"], (given["x"], given.get("y"), given.get("sample_weight"))
        data = tuple(mapped(_single, as_tree(part)) for part in parts if part is not None)
        specs = tf.nest.map_structure(lambda array: tf.TensorSpec(array.shape, array.dtype), data)
        traced = tf.function(model.train_step).get_concrete_function(specs)  # with what is trained now
        self._steps[stack.own_lines] = (traced, data)
        return model.test_on_batch(*parts, return_dict=given.get("return_dict", False))

    def ended(self, variables: Mapping[str, Any]) -> Script | None:
        """A model file that looks words up is run as a script: what its functions give is what `fit` would get."""
        return _of_functions(self.run.path, variables) if inspect.isfunction(variables.get("model")) else None


def _script(given: Mapping[str, Any], stack: Stack, one_batch: bool) -> Script:
    """Return the script as `fit` was called there, or `train_on_batch`, which the script's own loops give batches."""
    path, line, loops = stack.path, stack.line, stack.amount
    replaces_step = "train_step" in overridden(given["self"]) and _on_tensorflow()
    is_of_tensorflow = replaces_step or (_on_tensorflow() and _calls_tensorflow(given["self"]))
    if not replaces_step:
        _check_trainable(given["self"], f"{path.name}, line {line}")
    if not one_batch:
        epochs = int(given.get("epochs") or 1) - int(given.get("initial_epoch") or 0)
        if epochs < 1:
            raise StudyError(
                f"{path.name}, line {line}: fit(epochs={given['epochs']}, initial_epoch={given['initial_epoch']}) "
                "trains no epoch: epochs is the number of the last one"
            )
        epochs *= (loops.epochs or 1) * (loops.steps or loops.batches or 1)  # of a loop around it
        x, first = _with_first(given["x"])
        steps = given.get("steps_per_epoch")
        size = given.get("batch_size") if first is None else first
        batch, examples = _sizes(x, size, steps, given.get("validation_split"))
        size_of_all = {
            "examples": examples, "epochs": epochs, "unknown": loops.unknown, "steps_per_epoch": steps,
            "evaluations": tuple(_validations(given, line, batch, epochs)),
        }  # fmt: skip
        if is_of_tensorflow:
            parts = [part for name in ("x", "y", "sample_weight") if (part := given.get(name)) is not None]
            data = next(_items(x if _streams(x) else tuple(parts), batch))
            train = _on_its_device(given["self"])
            step = joined_step([(train, mapped(_single, data))], f"{path.name}, line {line}")
            return script_of(step, line, size_of_all, x if _streams(x) else None)
        return _made(path, line, dict(given) | {"x": x}, batch, size_of_all, in_import=stack.in_import)
    if len(lines := _others(path, line)) > 1:
        raise StudyError(
            f"{path.name}, line {line}: its loop calls train_on_batch in lines {', '.join(map(str, lines))}, each of "
            "which is a step of its own; put their losses into compute_loss() of one keras.Model and call fit"
        )
    arrays = leaves(as_tree(given["x"]))
    shapes, whole = [array.shape for array in arrays], is_whole(arrays, stack.outside)
    size_of_all = amounts(stack.scopes, loops, shapes, None, whole=whole)
    return _made(path, line, given, len(arrays[0]), size_of_all, COPIES, stack.in_import)


def _validations(given: Mapping[str, Any], line: int | None, batch: int, epochs: int) -> list[Evaluation]:
    """The validation of `fit`; a forward pass is a third of a step, and more where weights are frozen."""
    weights, trained = (
        sum(math.prod(weight.shape) for weight in group)
        for group in (given["self"].weights, given["self"].trainable_weights)
    )
    work = 3 / (1 + 2 * trained / weights) if weights else 1.0
    return [replace(one, work=work) for one in of_fit(given, line, batch, epochs)]


def _on_its_device(model: Any) -> Callable[..., Any]:
    """A model's `train_step` as `fit` runs it: by the strategy in whose scope the model was made."""
    strategy = attribute(model, "distribute_strategy")
    return model.train_step if strategy is None else lambda data: strategy.run(model.train_step, args=(data,))


def _calls_tensorflow(model: Any) -> bool:
    """Whether a function of a model's own, its call, a layer or loss, calls TensorFlow: no other backend runs it."""
    import keras

    layers, functions = [model], leaves(model.loss)
    for layer in layers:
        layers += getattr(layer, "layers", ())
        is_own_class = not type(layer).__module__.startswith("keras.")
        functions += [layer.function] if isinstance(layer, keras.layers.Lambda) else [layer.call] * is_own_class
    return any(map(_names_tensorflow, functions))


def _names_tensorflow(function: Any) -> bool:
    function = inspect.unwrap(function) if callable(function) else None
    codes = [code] if (code := getattr(function, "__code__", None)) else []
    for code in codes:
        codes += [part for part in code.co_consts if inspect.iscode(part)]
    variables = getattr(function, "__globals__", {})
    return any(getattr(variables.get(name), "__name__", "") == "tensorflow" for code in codes for name in code.co_names)


def _on_tensorflow() -> bool:
    import keras

    return bool(keras.backend.backend() == "tensorflow")


def _script_of_several(stack: Stack, steps: Sequence[tuple[Any, Any]]) -> Script:
    """The script of a loop with several `train_on_batch`, as a GAN has."""
    step = joined_step(steps, stack.where)
    shapes, loops = [array.shape for array in step.batch.values()], stack.amount
    if stack.has_one_loop and loops.epochs:
        loops = loops._replace(steps=1)  # each turn is one step
    return script_of(step, stack.line, amounts(stack.scopes, loops, shapes, None))


def _check_trainable(model: Any, where: str) -> None:
    if not model.compiled:
        raise StudyError(f"{where}: the model is not compiled: call model.compile(...) before fit")
    try:
        require_jax_step(model)
    except StudyError as error:
        raise StudyError(f"{where}: {error}") from None


def _made(
    path: Path,
    line: int | None,
    given: Mapping[str, Any],
    batch: int,
    size: Mapping[str, Any],
    copies: int = 1,
    in_import: bool = False,
) -> Script:
    """The model without what belongs to the host, and a sample of its data, of one batch so many copies."""
    model, x = given["self"], given["x"]
    parts = tuple(part for name in ("x", "y", "sample_weight") if (part := given.get(name)) is not None)
    policy = getattr(model.dtype_policy, "name", "float32")
    host, device, names = _divided(model)
    sample, lengths = _sample(x if _streams(x) else parts, batch, host, f"{path.name}, line {line}")
    training = Found(
        framework=KERAS,
        batch_size=batch,
        precision="mixed" if policy.startswith("mixed") else "single",
        line=line,
        notes=(
            *([f"{', '.join(names)}: on the host, with the input pipeline."] if names else []),
            *lengths,
            *others_like(path, line),
        ),
        **size,
    )
    sample = mapped(lambda array: np.concatenate([array] * copies), sample)
    functions = SimpleNamespace(model=lambda: device, data=lambda: sample)
    return Script(training, functions, _batches(x, parts, batch, host), in_import)


def keep_keras(script: Script, file: Path) -> None:
    """Write the model's configuration and the sample as `file`.json and .npz; nothing of a large model."""
    model = script.functions.model()
    if script.in_import:  # its classes cannot be defined without its training
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    with suppress(Exception):  # no configuration, or none that can be written: the script runs again
        if model.built and model.count_params() > MOST_KEPT:
            return
        policy = getattr(model.dtype_policy, "name", "float32")
        parts = zip(FIT_PARTS, script.functions.data(), strict=False)
        arrays = {key: array for name, part in parts for key, array in named(part, name).items()}
        text = json.dumps({"policy": policy, "model": json.loads(model.to_json())})
        np.savez(file.with_suffix(".npz"), **arrays)
        file.with_suffix(".model").write_text(text, encoding="utf-8")


def kept_keras(file: Path, path: Path, arguments: Sequence[str]) -> SimpleNamespace | None:
    """The functions of a kept script in this process's backend and number format; None: it must run again."""
    if not file.with_suffix(".model").is_file():
        return None
    import keras

    with np.load(file.with_suffix(".npz")) as held:
        arrays = dict(held)
    data = tuple(part for name in FIT_PARTS if (part := packed(arrays, name)) is not None)
    text = json.loads(file.with_suffix(".model").read_text(encoding="utf-8"))
    try:
        objects = ScriptRun(path, partial(_own_objects, path, set(_named(text["model"])))).variables(arguments)
        config = json.dumps(_remade(text["model"], objects, text["policy"], keras.config.dtype_policy().name))
        if not keras.models.model_from_json(config, objects).compiled:
            return None
    except Exception:  # a class that is made inside of a function, or that its configuration does not make again
        return None
    return SimpleNamespace(model=lambda: keras.models.model_from_json(config, objects), data=lambda: data)


RUNNING = {"fit", "evaluate", "predict", "load", "train_on_batch"}  # calls that no definition needs
BLOCKS = (ast.FunctionDef, ast.ClassDef)
DEFINING = (*BLOCKS, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


def _own_objects(path: Path, wanted: set[tuple[str | None, str]]) -> dict[str, Any]:
    """Functions and classes of a script, and of files beside it, by module and name.

    Nothing of the script runs but the statements that they need. Raises NameError where they need a variable that
    another kind of statement makes, such as a loop.
    """
    body, imported = parsed(path.read_bytes()).body, dict[str, Any]()
    for module, name in wanted:
        if module and (path.parent / f"{module.partition('.')[0]}.py").is_file():
            imported[name] = getattr(import_module(module), name, None)
    named = {name for _, name in wanted} - {*imported}
    made = {id(node): _names_made(node) for node in body}
    known = {name for names in made.values() for name in names}
    waiting = {name for node in body if isinstance(node, BLOCKS) for name in made[id(node)] & named}
    needed: set[str] = set()
    while waiting:
        needed |= waiting
        nodes = [node for node in body if made[id(node)] & waiting]
        called = {
            getattr(call.func, "attr", "") for node in nodes if not isinstance(node, BLOCKS) for call in calls_of(node)
        }
        if called & RUNNING or not all(isinstance(node, DEFINING) for node in nodes):
            raise NameError(*waiting)
        used = {part.id for node in nodes for part in ast.walk(node) if isinstance(part, ast.Name)}
        waiting = (used & known) - needed
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    nodes = [node for node in body if made[id(node)] & needed]
    exec(compile(ast.Module(nodes, []), str(path), "exec"), variables)  # nosec B102  # of the user's own script
    return imported | {name: variables[name] for name in needed & named}


def _names_made(node: ast.stmt) -> set[str]:
    """Names that a statement at the top of a file defines."""
    if isinstance(node, BLOCKS):
        return {node.name}
    inside = list(ast.walk(node))
    names = {part.id for part in inside if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    imports = [alias for part in inside if isinstance(part, ast.Import | ast.ImportFrom) for alias in part.names]
    defined = {part.name for part in inside if isinstance(part, BLOCKS)}
    return names | defined | {(alias.asname or alias.name).partition(".")[0] for alias in imports}


def _named(config: Any) -> Iterator[tuple[str | None, str]]:
    """Module and names of each class and function in a configuration."""
    if isinstance(config, list):
        for part in config:
            yield from _named(part)
    elif isinstance(config, dict):
        yield from _named([*config.values()])
        for name in (config.get(key) for key in ("class_name", "registered_name", "config")):
            if "class_name" in config and isinstance(name, str):
                yield config.get("module"), name.rpartition(">")[2]


def _of_functions(path: Path, file: Mapping[str, Any]) -> Script:
    """A model file as a script: what its functions return, else arrays that its constants describe."""
    declared = read_declaration(path)
    check_declared(declared, path.name)

    called = partial(called_with, options=Options(declared.batch_size))
    built, line = called(file["model"]), file["model"].__code__.co_firstlineno
    if not built.compiled:
        chosen = {name: file.get(name, getattr(declared, name)) for name in ("loss", "metric")}
        optimizer = called(file["optimizer"]) if "optimizer" in file else declared.optimizer
        built.compile(optimizer, chosen["loss"], metrics=[chosen["metric"]] if chosen["metric"] else None)
    if "data" in file:
        given = training_part(called(file["data"]), declared.input)
    else:
        few = 2 * declared.batch_size
        arrays = generate(declared.input, declared.target, few, declared.sequence_length, 0)
        given = tuple(packed(arrays, name) for name in FIT_PARTS[:2])
    _check_trainable(built, f"{path.name}, line {line}")
    parts = dict(zip(("x", "y", "sample_weight"), given if isinstance(given, tuple) else (given,), strict=False))
    x, first = _with_first(parts["x"])
    batch, examples = _sizes(x, declared.batch_size if first is None else first, declared.steps_per_epoch, None)
    stated = declared.dataset_examples or declared.examples  # its data may be few, to try the model with
    size: dict[str, int | None] = {
        "examples": stated or (examples if (examples or 0) >= MIN_BATCHES * batch else None),
        "epochs": declared.epochs or 1, "steps_per_epoch": declared.steps_per_epoch,
    }  # fmt: skip
    return _made(path, line, {"self": built} | parts | {"x": x}, batch, size)


def _others(path: Path, line: int | None) -> list[int]:
    """The lines of the outermost loop around a line that call train_on_batch, as a GAN's three do."""
    loops = [loop for loop in ast.walk(parsed(path.read_bytes())) if isinstance(loop, ast.For | ast.While)]
    around = [loop for loop in loops if line and loop.lineno <= line <= (loop.end_lineno or 0)]
    calls = calls_of(min(around, key=lambda loop: loop.lineno)) if around else iter(())
    return sorted({call.lineno for call in calls if getattr(call.func, "attr", "") == "train_on_batch"})


def _streams(x: Any) -> bool:
    """Whether `fit` takes targets from x itself: a tf.data.Dataset, a PyDataset, a DataLoader or a generator."""
    return hasattr(x, "as_numpy_iterator") or not (hasattr(x, "shape") or isinstance(x, Mapping | list | tuple))


def _sizes(x: Any, batch: int | None, steps: int | None, validation: float | None) -> tuple[int, int | None]:
    """Batch size and examples of one epoch, of what `fit` was given."""
    if not _streams(x):
        count = len(leaves(as_tree(x))[0])
        trained = int(count * (1.0 - (validation or 0.0)))
        return min(batch or 32, count), (batch or 32) * steps if steps else trained
    if hasattr(x, "cardinality"):  # tf.data
        size = int(leaves(next(iter(x.take(1))))[0].shape[0])
        count = steps or int(x.cardinality())
        return size, count * size if count > 0 else None
    length = steps or (len(x) if hasattr(x, "__len__") else None)
    return batch or 32, length * (batch or 32) if length else None


def _with_first(x: Any) -> tuple[Any, int | None]:
    """Return what gives batches, and the size of its first one, which a generator repeats; None: arrays, tf.data."""
    if not _streams(x) or hasattr(x, "cardinality"):
        return x, None
    items = _items(x, 1)
    item = next(items, None)
    if item is None:
        return x, None
    size = len(leaves(as_tree(item[0] if isinstance(item, tuple | list) else item))[0])
    return (chain([item], items) if isinstance(x, Iterator) else x), size


Host = Callable[[Any], tuple[Any, ...]]  # from the script's inputs to those of the model's other part


def _divided(model: Any) -> tuple[Host | None, Any, list[str]]:
    """The part of a model that looks words up, the rest as a model compiled as it, and the look-ups' names.

    (None, the model, []) where nothing is looked up, or layers are called several times or by a class of the script.
    """
    import keras

    if overridden(model):
        return None, model, []
    try:
        edges = [(layer, leaves(layer.input), leaves(layer.output)) for layer in model.layers]
        one = isinstance(model, keras.Sequential)
        inputs, outputs = (model.inputs[0], model.outputs[0]) if one else (model.input, model.output)
    except (AttributeError, ValueError, RuntimeError, TypeError):
        return None, model, []
    looks = {id(layer) for layer, taken, _ in edges if looks_up(layer) or any(t.dtype == "string" for t in taken)}
    looks -= {id(layer) for layer, *_ in edges if isinstance(layer, keras.layers.InputLayer)}
    if not looks:
        return None, model, []
    for layer, _, made in reversed(edges):  # what comes before a look-up
        followers = {id(other) for other, taken, _ in edges if {*map(id, made)} & {*map(id, taken)}}
        if followers & looks and not isinstance(layer, keras.layers.InputLayer):
            looks.add(id(layer))
    needed = {id(t) for layer, taken, _ in edges if id(layer) not in looks for t in taken}
    cut = [t for t in leaves(inputs) if id(t) in needed and t.dtype != "string"]
    cut += [t for layer, _, made in edges if id(layer) in looks for t in made if id(t) in needed]
    host, device = keras.Model(inputs, cut), keras.Model(cut, outputs)
    try:
        device.compile_from_config(model.get_compile_config())
    except (TypeError, ValueError):  # functions of the script's own
        device.compile(model.optimizer, model.loss)
    names = dict.fromkeys(type(layer).__name__ for layer, *_ in edges if id(layer) in looks)
    return lambda inputs: tuple(keras.tree.flatten(host(_tensors(inputs)))), device, [*names]


def _tensors(inputs: Tree) -> Tree:
    """Words as tensors of TensorFlow, which alone has them."""
    import tensorflow as tf

    return mapped(lambda each: tf.constant(each) if isinstance(each, np.ndarray) else each, inputs)


def _sample(given: Any, batch: int, host: Host | None, where: str) -> tuple[tuple[Tree, ...], list[str]]:
    """Inputs, targets and weights of the first examples, and in words, how they are padded."""
    taken, count = [], 0
    for item in _items(given, batch):
        parts = tuple(mapped(_array, as_tree(part)) for part in (item if isinstance(item, tuple | list) else (item,)))
        if host is not None:
            parts = mapped(_array, host(parts[0])), *parts[1:]
        flat = {
            key: leaf for name, part in zip(FIT_PARTS, parts, strict=False) for key, leaf in named(part, name).items()
        }
        taken.append(flat)
        count += len(next(iter(flat.values())))
        nbytes = sum(leaf.nbytes / max(len(leaf), 1) for leaf in flat.values())
        if count >= max(2 * batch, min(SAMPLE, SAMPLE_BYTES / nbytes)):
            break
    if not taken:
        raise StudyError(f"{where}: the data end before their first batch")
    notes: dict[int, str] = {}
    joined = {key: _joined([by_name[key] for by_name in taken], notes) for key in taken[0]}
    arrays = arrays_of(
        tuple(packed(joined, name) for name in FIT_PARTS if packed(joined, name) is not None), None, where
    )
    return tuple(part for name in FIT_PARTS if (part := packed(arrays, name)) is not None), [
        notes[max(notes)]
    ] if notes else []


FIT_PARTS = ("inputs", "targets", "weights")


def _items(given: Any, batch: int) -> Iterator[Any]:
    """Batches of what `fit` was given, arrays included."""
    if not _streams(given):
        parts = tuple(map(as_tree, given))
        count = len(leaves(parts[0])[0])
        for start in range(0, count, batch):
            yield tuple(mapped(lambda each, rows=slice(start, start + batch): each[rows], part) for part in parts)
    elif hasattr(given, "as_numpy_iterator"):
        yield from given
    elif hasattr(given, "__getitem__") and hasattr(given, "__len__") and not hasattr(given, "batch_sampler"):
        yield from (given[place] for place in range(len(given)))
    else:
        yield from given


def _array(leaf: Any) -> np.ndarray:
    leaf = leaf.to_tensor() if hasattr(leaf, "to_tensor") else leaf  # ragged
    return np.asarray(leaf.detach().cpu() if hasattr(leaf, "detach") else leaf)


def _single(leaf: Any) -> np.ndarray:
    """An array, as Keras takes one of 64 bits."""
    array = _array(leaf)
    return array.astype("float32") if array.dtype == "float64" else array


def _joined(pieces: list[np.ndarray], notes: dict[int, str]) -> np.ndarray:
    """Batches as one array; of varying lengths each is cut or padded to the mean, which `notes` says by it."""
    sizes = np.array([piece.shape[1:] for piece in pieces]) if len({piece.ndim for piece in pieces}) == 1 else None
    if sizes is None or (sizes == sizes[0]).all():
        return np.concatenate(pieces)
    mean = np.rint(np.average(sizes, axis=0, weights=[len(piece) for piece in pieces])).astype(int)
    axis = int(np.argmax((sizes != sizes[0]).any(axis=0)))
    least, most = sizes[:, axis].min(), sizes[:, axis].max()
    notes[int(mean[axis])] = f"Lengths vary from {least} to {most}; steps are of the mean, {mean[axis]}."
    joined = np.zeros((sum(map(len, pieces)), *mean), pieces[0].dtype)
    start = 0
    for piece in pieces:
        part = piece[(slice(None), *map(slice, mean))]
        joined[(slice(start, start + len(part)), *map(slice, part.shape[1:]))] = part
        start += len(part)
    return joined


def _batches(x: Any, parts: tuple[Any, ...], batch: int, host: Host | None) -> Any:
    """Return what gives batches one after the other, with what the host looks up; None of arrays in memory."""
    if host is None:
        return x if _streams(x) else None
    import tensorflow as tf

    if not _streams(x):
        x = tf.data.Dataset.from_tensor_slices(tuple(map(as_tree, parts))).batch(batch)
    return x.map(lambda inputs, *rest: (host(inputs), *rest)) if hasattr(x, "cardinality") else x


BASE = ("name", "trainable", "dtype")  # what the configuration of every layer has


def _remade(config: Any, own: Mapping[str, Any], old: str, new: str) -> Any:
    """A model's configuration with another number format in place of its own.

    Own classes keep what their constructors take: Keras adds arguments of its base class.
    """
    if isinstance(config, list):
        return [_remade(part, own, old, new) for part in config]
    if not isinstance(config, dict):
        return config
    if config.get("class_name") == "DTypePolicy" and config["config"] == {"name": old}:
        return config | {"config": {"name": new}}
    config = {key: _remade(part, own, old, new) for key, part in config.items()}
    made = own.get(config.get("class_name", ""))
    if inspect.isclass(made) and isinstance(config.get("config"), dict):
        takes = inspect.signature(made.__init__).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in takes.values()):
            given = {key: part for key, part in config["config"].items() if key in takes or key not in BASE}
            config["config"] = given
    return config
