"""Programs of a TensorFlow script: each `tf.function` that no other one calls and in which a gradient is taken.

Of functions inside of one another the outermost that XLA takes is the program; where it loops over data itself, each of
its turns is a step. A loop that trains outside of any is recorded by its statements from the tape to the change of the
weights. A strategy for several GPUs is one device here, which takes the whole batch.
"""

import ast
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from whichdevice.base.code_hash import parsed
from whichdevice.models.script.frames import is_own, own_frames
from whichdevice.models.script.programs import Program, ProgramWatcher, named_sizes, refused
from whichdevice.models.script.run import SEED, ScriptRun
from whichdevice.models.script.tensorflow_program import (
    Call,
    Lowered,
    is_tensor,
    line_of_error,
    nbytes,
    zeros_like,
)  # fmt: skip

APPLIED = {"apply_gradients", "apply", "minimize", "assign", "assign_sub", "assign_add", "update"}
COMPILED = "Its step is forecast as XLA compiles it, as with @tf.function(jit_compile=True)."
BY_FUNCTION = "put @tf.function on a function that trains on one batch, from the tape to apply_gradients"
INSTEAD = "or write a model file (docs/start/your-model.md)"
SESSION = (
    "it trains in a session of TensorFlow 1, whose graph is not read: put the step into a @tf.function with a "
    "tf.GradientTape (TensorFlow 2), or write a model file (docs/start/your-model.md)"
)


class Watching(ProgramWatcher):
    """Watches functions of TensorFlow that take gradients."""

    package = "TensorFlow"
    missing = "no tf.function took a gradient by variables"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self.calls: list[Call] = []  # that are being traced, the outermost first
        self._taken: tuple[list[Call], float] | None = None  # the calls around a gradient, and bytes of its variables
        self.resting = 0  # depth of what is recorded already
        self._programs = dict[Any, tuple[Program, Lowered] | None]()
        self._trained = dict[Any, float]()  # bytes of variables, by the function whose own step takes gradients

    def attach(self, package: ModuleType) -> None:
        """Replace what traces, what takes gradients, and what asks for GPUs or writes summaries in a step."""
        tf.random.set_seed(SEED)
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
            self.replace(session, "__init__", lambda *_, **__: self.run.stop(refused(self.run, SESSION)))
        self.replace(tf.data.Dataset, "__iter__", self._going_over(tf.data.Dataset.__iter__))
        self.replace(tf.summary, "create_file_writer", lambda *_, **__: tf.summary.create_noop_writer())

    def _going_over(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace `Dataset.__iter__`: note what a loop of the script goes over."""

        @wraps(original)
        def begin(dataset: Any) -> Any:
            if not self.run.over and self.periods.frame is None:
                for frame in own_frames(sys._getframe(1), self.run.path):
                    self.run.loaders[frame.f_code.co_filename, frame.f_lineno] = dataset
            return original(dataset)

        return begin

    def _devices(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace the list of devices, in which the script sees GPUs."""

        def devices(device_type: str | None = None) -> list[Any]:
            caller_ = traceback.extract_stack(limit=2)[0].filename
            known = list(original(device_type))
            if not is_own(caller_, self.run.path) or device_type not in (None, "GPU"):
                return known
            kind = tf.config.PhysicalDevice
            return known + [kind(f"/physical_device:GPU:{place}", "GPU") for place in range(self.run.conditions.gpus)]

        return devices

    def _tracing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace `tf.function`, which is also called with settings alone; libraries' functions pass."""

        def function(func: Any = None, *args: Any, **settings: Any) -> Any:
            if func is None:
                return partial(function, **settings)
            made = original(func, *args, **settings)
            module = getattr(inspect.unwrap(func), "__module__", None) or ""
            passes = module.partition(".")[0] in ("keras", "tensorflow", "whichdevice")
            return made if passes else _Function(self, made, func)

        return function

    def _taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
            variables = [one for one in tf.nest.flatten(sources) if hasattr(one, "trainable") or hasattr(one, "handle")]
            if variables and self._taken is None:
                self._taken = list(self.calls), sum(map(nbytes, variables))
            return original(tape, target, sources, *args, **kwargs)

        return gradient

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def enter(tape: Any) -> Any:
            if not (self.run.over or self.resting or self.calls or tf.inside_function()):
                frame = next(own_frames(sys._getframe(1), self.run.path), None)
                call = None if frame is None else _statements(frame, self.run)
                if call is not None:
                    self._eager(call, frame)
            return original(tape)

        return enter

    # Programs.

    def program(self, key: Any, call: Call, trained: float | None = None) -> tuple[Program, Lowered]:
        """Return the program of a call; raises what TensorFlow raises, and StudyError where XLA does not take it."""
        leaves = [leaf for leaf in tf.nest.flatten((call[1], dict(call[2]))) if is_tensor(leaf)]
        key = key, *(tuple(leaf.shape) for leaf in leaves)
        if self._programs.get(key) is None:
            with self.at_rest():
                self._taken = None
                lowered = Lowered(call, named=named_sizes(self.run))
                bytes_trained = trained if trained is not None else self._taken[1] if self._taken else 0.0
                program = Program(
                    key[0], _name(call), lowered.counted, None, lowered.arrays, bytes_trained, rows=lowered.rows,
                    state=lowered.state, shapes=tuple(lowered.shapes), results=zeros_like(lowered.traced),
                )  # fmt: skip
                with suppress(Exception):  # a function of one batch, which raises what it likes
                    program.twice = Lowered(call, lowered.doubled()).counted
            self._programs[key] = program, lowered
        known = self._programs[key]
        assert known is not None
        return known

    @contextmanager
    def at_rest(self) -> Any:
        """Let tapes and functions pass."""
        self.resting += 1
        try:
            yield
        finally:
            self.resting -= 1

    def _eager(self, call: Call, frame: FrameType | None) -> None:
        """Record a step that is in no function, whose statements run on by themselves."""
        self.say(COMPILED)
        code = call[0].__code__
        try:
            program, lowered = self.program((code.co_filename, code.co_firstlineno), call)
        except Exception as error:
            self.run.stop(refused(self.run, f"{line_of_error(error)}: {BY_FUNCTION}, {INSTEAD}"))
        if not program.trained:
            return
        self.say(lowered.note)
        self.periods.ran(program, lowered.held, 0.0, frame)
        if not program.is_computed:
            self.run.stop(self.periods.script)

    def call(self, made: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a tf.function outside of any other."""
        if self.run.over or self.resting:
            return made(*args, **kwargs)
        key = getattr(function, "__func__", function), id(getattr(function, "__self__", None))
        shapes = tuple(str(getattr(leaf, "shape", type(leaf))) for leaf in tf.nest.flatten((args, kwargs)))
        if (key, shapes) not in self._programs:
            self._programs[key, shapes] = self._outermost(made, key, (function, args, kwargs))
        known = self._programs[key, shapes]
        if known is None:
            return made(*args, **kwargs)

        def compute() -> Any:
            with self.at_rest():
                result = tf.nest.map_structure(lambda one: one, made(*args, **kwargs))
            for leaf in tf.nest.flatten(result)[:1]:
                np.asarray(leaf)
            return result

        program, lowered = known
        return self.computed(program, lowered.held, compute)

    def _outermost(self, made: Any, key: Any, call: Call) -> tuple[Program, Lowered] | None:
        """Return the program of the outermost function around a gradient that XLA takes; None: it takes none."""
        _, args, kwargs = call
        self.calls, self._taken = [call], None
        try:
            traced = made.get_concrete_function(*args, **kwargs)
        except Exception:  # the call itself raises the same
            return None
        finally:
            self.calls = []
        if self._taken is None and key not in self._trained:
            return None
        calls, trained = self._taken or ([call], self._trained[key])  # else it was traced for any shape
        sources = [*filter(_is_data, tf.nest.flatten((args, kwargs))), *self.run.loaders.values()]
        error: Exception | None = None
        for place, one in enumerate(calls):
            if any(map(_is_data, tf.nest.flatten((one[1], dict(one[2]))))):
                continue
            try:
                program, lowered = self.program((key, place), self._with_shapes(one, sources), trained)
            except Exception as other:
                error = error or other
                continue
            self.say(COMPILED, lowered.note)
            if not place:
                self._trained[key] = trained
            else:
                steps, results = _turns(args, kwargs), zeros_like(traced)
                program = replace(program, name=_name(call), steps=steps, has_all=False, results=results)
            return program, lowered
        reason = line_of_error(error) if error else "no function takes the tensors of one batch"
        self.run.stop(refused(self.run, f"{reason}: {BY_FUNCTION}, {INSTEAD}"))

    def _with_shapes(self, call: Call, sources: Sequence[Any]) -> Call:
        """Return a call in whose tensors open sizes are the sizes of the script's batches."""
        function, args, kwargs = call
        leaves = tf.nest.flatten((args, dict(kwargs)))
        places = [place for place, leaf in enumerate(leaves) if is_tensor(leaf)]
        if not any(None in tuple(leaves[place].shape) for place in places):
            return call
        for source in (one for one in sources if hasattr(one, "take")):
            for item in source.take(1):
                arrays = tf.nest.flatten(item)
                if len(arrays) == len(places) and all(
                    leaves[place].shape.is_compatible_with(array.shape)
                    for place, array in zip(places, arrays, strict=True)
                ):
                    for place, array in zip(places, arrays, strict=True):
                        leaves[place] = array
                    args, kwargs = tf.nest.pack_sequence_as((args, dict(kwargs)), leaves)
                    return function, args, kwargs
        return call


def _name(call: Call) -> str:
    return getattr(call[0], "__name__", "")


def _is_data(value: Any) -> bool:
    """Whether a value gives batches, as `tf.data` does."""
    with suppress(Exception):  # of the script's own object
        return getattr(value, "element_spec", None) is not None and not tf.is_tensor(value)
    return False


def _turns(args: Any, kwargs: Any) -> float | None:
    """Return the batches of the data set that a function loops over; None: they do not show."""
    for leaf in tf.nest.flatten((args, kwargs)):
        if hasattr(leaf, "cardinality"):
            known = int(leaf.cardinality())
            return float(known) if known > 0 else None
    return None


class _Function:
    """The function that `tf.function` makes, whose calls the watcher knows."""

    def __init__(self, watching: Watching, made: Any, function: Any) -> None:
        self._watching, self._made, self._function = watching, made, function
        self._is_inside = tf.inside_function

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
        self._watching.calls.append((self._function, args, kwargs))
        result = self._function(*args, **kwargs)
        self._watching.calls.pop()
        return result


def _one_device(watching: Watching) -> type:
    """Return the class that stands for a strategy of several GPUs; AutoGraph rewrites its `run` as well.

    Its data are the script's own, so that nothing is read before the first batch.
    """

    class OneDevice(tf.distribute.OneDeviceStrategy):  # type: ignore[misc]
        def __init__(self, devices: Any = None, *_: Any, **__: Any) -> None:
            tf.distribute.OneDeviceStrategy.__init__(self, "/cpu:0")
            watching.run.counts_gpus = watching.run.counts_gpus or devices is None
            watching.periods.parallel = True
            self._gpus = len(devices or ()) or watching.run.conditions.gpus

        @property
        def num_replicas_in_sync(self) -> int:
            return self._gpus

        def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
            return dataset

        def distribute_datasets_from_function(self, dataset_fn: Any, options: Any = None) -> Any:
            return dataset_fn(tf.distribute.InputContext())

        def run(self, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
            watching.calls.append((fn, args, kwargs or {}))
            result = tf.distribute.OneDeviceStrategy.run(self, fn, args, kwargs, options)
            watching.calls.pop()
            return result

    return OneDevice


def _statements(frame: FrameType, run: ScriptRun) -> Call | None:
    """The statements from a tape to the change of the weights as a function of what the loop changes; None: no such."""
    if not is_own(frame.f_code.co_filename, run.path):
        return None
    line, module = frame.f_lineno, parsed(Path(frame.f_code.co_filename).read_bytes())
    bodies = [body for node in ast.walk(module) for body in (getattr(node, "body", None), getattr(node, "orelse", None))
              if isinstance(body, list) and body and body[0].lineno <= line <= (body[-1].end_lineno or 0)]  # fmt: skip
    for body in sorted(bodies, key=lambda body: (body[-1].end_lineno or 0) - body[0].lineno):
        first = next(place for place, node in enumerate(body) if line <= (node.end_lineno or 0))
        last = max((place for place, node in enumerate(body) if _applies(node)), default=-1)
        if isinstance(body[first], ast.With) and first <= last:
            return _as_function(body[first : last + 1], frame)
    return None


def _applies(node: ast.stmt) -> bool:
    return any(isinstance(part, ast.Call) and getattr(part.func, "attr", "") in APPLIED for part in ast.walk(node))


def _as_function(body: Sequence[ast.stmt], frame: FrameType) -> Call:
    """Statements as a function of the tensors in their variables, and of what they set anew."""
    names = sorted((node for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)),
                   key=lambda node: (node.lineno, isinstance(node.ctx, ast.Store)))  # fmt: skip
    summed = {ast.unparse(node.target) for one in body for node in ast.walk(one) if isinstance(node, ast.AugAssign)}
    first = {node.id: isinstance(node.ctx, ast.Store) and node.id not in summed for node in reversed(names)}
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    known = {**frame.f_globals, **frame.f_locals}
    given = {name: known[name] for name, is_made in first.items() if name in known and not is_made
             and (name in stored or all(map(is_tensor, tf.nest.flatten(known[name]) or [None])))}  # fmt: skip
    code = ast.unparse(ast.Module([*body], []))
    lines = [f"def step({', '.join(given)}):\n", *(f"    {line}\n" for line in code.splitlines())]
    name = f"<step of {frame.f_code.co_filename}, line {body[0].lineno}>"
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)  # AutoGraph reads a function's text
    exec(compile("".join(lines), name, "exec"), known)  # nosec B102  # of the user's own script
    return known["step"], tuple(given.values()), {}
