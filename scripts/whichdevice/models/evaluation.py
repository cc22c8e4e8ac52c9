"""What a script does besides the steps of its training: evaluation, samples, rollouts, all without gradients.

    evaluations_in(stack, 32, forward)      # [Evaluation(line=58, batches=79, batch_size=128, every=1, per="epoch")]

A script is stopped in its first step, so what it does besides is read in its text: what stands beside the step in the
loops around it, and in the script's functions that are called there. Values are those of the script's variables.
"""

import ast
import builtins
import inspect
import math
import re
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from whichdevice.code_hash import parsed
from whichdevice.models.environment import is_environment
from whichdevice.models.script_run import Evaluation, Per, is_own
from whichdevice.models.script_size import HOLDERS, Loop, Stack, attribute, counter_of, function_at, turns_of

FREE = {"no_grad", "inference_mode"}  # of gradients
BARS = {"tqdm", "trange", "enumerate", "reversed", "list", "tuple", "iter", "track", "prange", "log_every", "notebook"}
SAFE = {  # builtin functions that are called to know a number
    "len", "int", "float", "bool", "min", "max", "abs", "round", "range", "reversed", "getattr", "hasattr",
    "isinstance",
}  # fmt: skip
OF_MODULES = {"ceil", "floor", "linspace", "arange", "flip"}  # functions of NumPy and the like
OF_VALUES = {"long", "int", "float", "bool", "flip", "tolist", "round", "ceil", "floor", "min", "max", "abs", "isdigit"}
NUMERIC = {"math", "numpy", "torch", "jax", "jaxlib", "tensorflow"}
TAPE = "GradientTape"
GRADIENTS = {
    "grad", "value_and_grad", "vjp", "filter_grad", "filter_value_and_grad", "apply_gradients", "apply_updates",
    "update", "train_step",
}  # fmt: skip
LOOPED = {"evaluate", "predict"}  # methods of a model that take data
RANKS: Mapping[str, Any] = {  # of the first process
    "is_main_process": True, "is_master": True, "is_rank_zero": True, "get_rank": 0, "get_local_rank": 0,
}  # fmt: skip
EXPRESSIONS = (
    ast.Expression, ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.BinOp,
    ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.expr_context,
)  # fmt: skip
SIZES = re.compile("batch_?size|samples|^bsz?$|num_images|n_images")  # names of how many a function makes
EVALUATES = re.compile("eval|valid|(?<!la)test|sampl|render|generat|infer|predict")  # names of functions
MAX_DEPTH, MAX_TURNS = 6, 10_000  # functions in one another that are read; turns of a loop whose tests are tried
UNKNOWN = object()
HELD = (list, tuple, set, dict, range, KeysView, ValuesView, ItemsView)
OF_ONE = ("min", "max", "list", "tuple")  # builtin functions that go through one argument
IN_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Sampler(NamedTuple):
    """A library's pipeline around a model, which it calls in each of its steps."""

    work: float  # of the model's forward pass
    settings: Mapping[str, Any]  # what it is called with where the script says nothing else


class At(NamedTuple):
    """A place in the text, with what is known of how often it runs."""

    level: int  # of the innermost loop around the step that is around this place, too; -1: none
    line: int  # of the statement in that loop
    scope: dict[str, Any]
    free: bool
    often: float | None = 1.0  # share of the turns of that loop
    loops: tuple[tuple[int, float | None], ...] = ()  # numbers of loops around it beside the step, and their turns
    size: int | None = None
    split: bool = False
    loads: bool = False
    deep: tuple[Any, ...] = ()  # functions it is in


Forward = Callable[[Any], float | None]  # from what is called to its work, of that of a step's forward pass


def evaluations_in(
    stack: Stack, size: int, forward: Forward, inside: Callable[[Any], bool] = lambda called: False, free: bool = False
) -> list[Evaluation]:
    """Return what a script does without gradients besides its step, where it was stopped in the first one.

    `size` is a step's batch. What is `inside` of each step is a part of it. With `free` nothing takes gradients there.
    """
    search = _Search(stack, size, forward, inside, free)
    search.read()
    return _summed(search.found)


def passes_in(stack: Stack, size: int, forward: Forward, method: Any) -> float:
    """Return the forward passes of one of the script's methods; one where its text shows none."""
    search = _Search(stack, size, forward, lambda _: False, False)
    search.follow(method, ast.Call(ast.Name("method"), [], []), At(-1, 0, {}, True))
    return sum(one.work * (one.batches or 1.0) for _, one in search.found) or 1.0


def _summed(found: Sequence[tuple[Any, Evaluation]]) -> list[Evaluation]:
    """Passes of one loop over several modules as one."""
    together: dict[tuple[Any, ...], Evaluation] = {}
    for loops, one in found:
        key = (loops, one.line, one.batch_size, one.every)
        known = together.get(key)
        together[key] = one if known is None else replace(known, work=known.work + one.work)
    return list(together.values())


class _Search:
    def __init__(self, stack: Stack, size: int, forward: Forward, inside: Callable[[Any], bool], free: bool) -> None:
        self.stack, self.size, self.forward, self.inside, self.free = stack, size, forward, inside, free
        self.loops = stack.around
        self.found: list[tuple[Any, Evaluation]] = []  # with the loops around it
        self._function: ast.AST = ast.Module([], [])  # that is read
        self._next = 0  # of the loops around the step
        self._loops = 0  # beside it, so far

    def read(self) -> None:
        """Read the functions that are running, the outermost first."""
        level = -1
        for part in self.stack.own:
            tree: Any = function_at(parsed(Path(part.code.co_filename).read_bytes()), part.line)
            scope = {**part.module, **part.variables}
            self._function = tree
            level = self._beside(tree.body, part.line, At(level, 0, scope, self.free))

    def _beside(self, body: Sequence[ast.stmt], line: int, at: At) -> int:
        """Read what stands beside the statement of a line; return the innermost loop around that."""
        deepest = at.level
        for node in body:
            if not node.lineno <= line <= (node.end_lineno or 0):
                at = self._read(node, at._replace(line=node.lineno))
                continue
            at.scope.pop(EVALUATING, None)
            inner = at
            if self._next < len(self.loops) and self.loops[self._next].node.lineno == node.lineno:
                inner, self._next = at._replace(level=self._next, often=1.0), self._next + 1
            for part in _bodies(node):
                if part and part[0].lineno <= line <= (part[-1].end_lineno or 0):
                    deepest = self._beside(part, line, inner)
        return deepest

    def _all(self, body: Sequence[ast.stmt], at: At) -> None:
        for node in body:
            at = self._read(node, at)

    def _read(self, node: ast.AST, at: At) -> At:
        """Read a part of the text; return the place after it. What it does is not known where its objects raise."""
        try:
            return self._read_part(node, at)
        except Exception:  # of the script's own objects
            self.found.append(((), Evaluation(at.line, None, self.size, None)))
            return at

    def _read_part(self, node: ast.AST, at: At) -> At:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                pass
            case ast.If():
                return self._either(node, at)
            case ast.With():
                free = at.free or any(_is_free(item.context_expr) for item in node.items)
                free = free and not any(_last_called(item.context_expr) == TAPE for item in node.items)
                self._all(node.body, at._replace(free=free))
            case ast.For():
                self._read(node.iter, at)
                self._all(node.body, self._in_loop(node, at))
            case ast.While():
                self._all(node.body, at._replace(loops=(*at.loops, (self._numbered(), None))))
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                inner = at
                for part in node.generators:
                    inner = self._in_loop(part, inner)
                for value in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                    self._read(value, inner)
            case ast.Call(
                func=ast.Name(id="map"), args=[ast.Lambda(args=ast.arguments(args=[part])) as function, over]
            ):
                self._read(over, at)
                target = ast.Name(part.arg, ast.Store())
                self._read(function.body, self._in_loop(ast.comprehension(target, over, [], 0), at))
            case ast.Assign(targets=[ast.Name(id=name)]):
                self._read(node.value, at)
                if at.deep or name not in at.scope:  # of a function that runs the values are those of its first step
                    at.scope[name] = self._value(node.value, at.scope)
            case _:
                for child in ast.iter_child_nodes(node):
                    self._read(child, at)
                if isinstance(node, ast.Call):
                    self._called(node, at)
        return at

    def _either(self, node: ast.If, at: At) -> At:
        """Read both branches; what follows a branch that leaves runs where that did not."""
        self._read(node.test, at)
        share = self._share(node.test, at)
        shares = (share, None if share is None else 1 - share)
        for body, part in zip((node.body, node.orelse), shares, strict=True):
            if part != 0:
                self._all(body, at._replace(often=_product(at.often, part)))
        if isinstance(node.body[-1], ast.Continue | ast.Return) and share != 0:
            return at._replace(often=_product(at.often, shares[1]))
        return at

    def _share(self, test: ast.expr, at: At) -> float | None:
        """The share of the turns in which a test holds, by trying it in each of them or in a period."""
        tests = _remainders(test)
        if at.level < 0 or at.deep or at.loops:
            return None if tests else _as_share(_holds(test, at.scope))
        loop = self.loops[at.level]
        changed = _stored(loop.node)
        scope = {name: value for name, value in at.scope.items() if name not in changed}
        named = {ast.unparse(part) for part in ast.walk(test) if isinstance(part, ast.Name | ast.Attribute)}
        counters = {name: count for name, count in _counters(loop).items() if name in named}
        periods = [value_in(part.right, scope) for part in tests]
        periods = [period for period in periods if type(period) is int and period > 0]
        turns = turns_of(loop)
        if not counters or not (turns or periods):
            return _as_share(_holds(test, scope))
        going = {name: count for name, count in counters.items() if self._goes_on(name, at.level)}
        anew = {name: count for name, count in counters.items() if name not in going}
        if going and anew:
            periods = [*periods, turns] if turns and periods else []

        def held(turn: int, part: ast.expr = test) -> bool | None:
            return _holds(part, _Turn(_Turn(scope, anew, turn % turns if turns and going else turn), going, turn))

        return _share_of(test, held, periods, turns, bool(going))

    def _goes_on(self, name: str, level: int) -> bool:
        """Whether a counter that a loop raises keeps its value where the loop around it comes to its next turn."""
        loop = self.loops[level]
        if level == 0 or name == counter_of(loop.node):
            return False
        around: ast.AST = self.loops[level - 1].node
        if loop.node not in ast.walk(around):  # of another function
            around = self._function
        targets = (target for part in ast.walk(around) if isinstance(part, ast.Assign) for target in part.targets)
        return name not in (ast.unparse(part) for target in targets for part in getattr(target, "elts", [target]))

    def _in_loop(self, node: ast.For | ast.comprehension, at: At) -> At:
        """The place in a loop beside the step, whose targets have no known values."""
        loader = _unwrapped(node.iter, at.scope)
        turns = _length(node.iter, at.scope)
        if isinstance(node, ast.For) and (limit := _limit(node, at.scope)) is not None:
            turns = limit if turns is None else min(turns, limit)
        stored, targets = _stored(node), _stored(node.target)  # an array that is set anew keeps its shape
        changed = {name for name in stored if name in targets or attribute(at.scope.get(name), "shape") is None}
        scope = {name: value for name, value in at.scope.items() if name not in changed}
        if (
            isinstance(loader, list | tuple)
            and isinstance(node.target, ast.Name)
            and all(map(inspect.isfunction, loader))
        ):
            scope |= dict.fromkeys([node.target.id], next(iter(loader), UNKNOWN))  # the others are like it
        known = batch_size_of(loader)
        return at._replace(
            scope=scope, loops=(*at.loops, (self._numbered(), turns)), size=known or at.size,
            split=at.split or is_split(loader), loads=at.loads or known is not None,
        )  # fmt: skip

    def _numbered(self) -> int:
        self._loops += 1
        return self._loops

    def _value(self, node: ast.expr, scope: Mapping[str, Any]) -> Any:
        """The value of an expression; a model without what several GPUs put around it, and a pipeline around one."""
        if not isinstance(node, ast.Call):
            return value_in(node, scope)
        name, given = _last(node.func), [*node.args, *(part.value for part in node.keywords)]
        if name == "unwrap_model" and node.args:
            return self._value(node.args[0], scope)
        owner = self._value(node.func.value, scope) if isinstance(node.func, ast.Attribute) else UNKNOWN
        if name == "to" and isinstance(owner, Sampler):
            return owner
        kind = owner if name == "from_pretrained" else value_in(node.func, scope)
        if inspect.isclass(kind) and kind.__name__.endswith("Pipeline"):
            works = (self.forward(value) for part in given if (value := self._value(part, scope)) is not UNKNOWN)
            settings = {key: part.default for key, part in inspect.signature(kind.__call__).parameters.items()}
            work = max((work for work in works if work is not None), default=None)
            return UNKNOWN if work is None else Sampler(work, settings)
        return value_in(node, scope)

    def _samples(self, node: ast.Call, at: At, sampler: Sampler) -> None:
        """Note what a pipeline makes: a forward pass for each of its steps, of twice the images with guidance."""
        given = {part.arg: value_in(part.value, at.scope) for part in node.keywords if part.arg}
        settings = {**sampler.settings, **given}
        counts = [settings.get(name) for name in ("num_inference_steps", "batch_size", "num_images_per_prompt")]
        turns, *sizes = (count if type(count) is int else None for count in counts)
        guided = settings.get("guidance_scale")
        size = (next(filter(None, sizes), 1)) * (2 if isinstance(guided, int | float) and guided > 1 else 1)
        at = at._replace(loops=(*at.loops, (self._numbered(), turns)), size=size, loads=False)
        self._note(node, at, sampler.work, sampler)

    def _generates(self, node: ast.Call, at: At) -> None:
        """Note what a language model of a library writes: a pass over each batch, and one for each token."""
        model = self._value(node.func.value, at.scope)  # type: ignore[attr-defined]
        if (work := self.forward(model)) is None:
            return
        given: dict[str, Any] = {}
        for part in node.keywords:
            value = value_in(part.value, at.scope)
            given |= {part.arg: value} if part.arg else value if isinstance(value, dict) else {}
        self._note(node, at, work, model)
        loops, one = self.found.pop()
        config = given.get("generation_config", attribute(model, "generation_config"))
        limits = [given.get(name, attribute(config, name)) for name in ("max_new_tokens", "max_length")]
        tokens = next((limit for limit in limits if type(limit) is int), None)
        known = replace(one, tokens=tokens or 0, decoder=decoder_share(model))
        self.found.append((loops, known if tokens else replace(one, batches=None)))

    def _called(self, node: ast.Call, at: At) -> None:
        """Note a forward pass, or read the script's function that is called."""
        function = value_in(node.func, at.scope)
        if function is UNKNOWN and isinstance(node.func, ast.Attribute):  # a method of what is no longer wrapped
            owner = self._value(node.func.value, at.scope)
            function = UNKNOWN if owner is UNKNOWN else attribute(owner, node.func.attr) or UNKNOWN
        if function is UNKNOWN:
            return
        if isinstance(function, Sampler):
            self._samples(node, at, function)
            return
        name = getattr(node.func, "attr", "")
        code = attribute(inspect.unwrap(function), "__code__") if callable(function) else None
        if name == "generate" and not (code and is_own(code.co_filename, self.stack.path)):
            self._generates(node, at)
            return
        if name in ("eval", "train") and self.forward(value_in(node.func.value, at.scope)) is not None:  # type: ignore[attr-defined]
            off = name == "eval" or any(value_in(part, at.scope) is False for part in node.args)
            at.scope[EVALUATING] = off
            return
        free = at.free or bool(at.scope.get(EVALUATING))
        if (work := self.forward(function)) is not None:
            if free:
                self._note(node, at, work, function)
            return
        self.follow(function, node, at._replace(free=free))

    def follow(self, function: Any, node: ast.Call, at: At) -> None:
        """Read one of the script's functions where it is called so."""
        owner = None
        if inspect.ismethod(function):
            function, owner = function.__func__, getattr(function, "__self__", None)
        function = inspect.unwrap(function) if callable(function) else function
        if not inspect.isfunction(function) or not is_own(function.__code__.co_filename, self.stack.path):
            return
        code = function.__code__
        tree = _text_of(code)
        if tree is None or code in at.deep or len(at.deep) >= MAX_DEPTH:
            return
        scope = _bound(function, owner, node, at.scope)
        sizes = [value for name, value in scope.items() if SIZES.search(name) and name in code.co_varnames]
        sizes = [_rows_of(node, at.scope), *(value for value in sizes if type(value) is int and value > 0)]
        free = at.free or any(map(_is_free, tree.decorator_list))
        size = at.size or next(filter(None, sizes), None) or _environments_in(scope, code)
        inner = at._replace(scope=scope, free=free, deep=(*at.deep, code), size=size)
        before = len(self.found)
        self._all(tree.body, inner)
        each_step = at.level == len(self.loops) - 1 and at.often == 1
        prepares = self.free and at.level < 0  # as `load_test_data` does: by its name alone it is no evaluation
        by_name = EVALUATES.search(_last(node.func)) and not (at.deep or each_step or prepares)
        if free and by_name and len(self.found) == before:
            self.found.append(((), Evaluation(at.line, None, self.size, None)))

    def _note(self, node: ast.Call, at: At, work: float, called: Any) -> None:
        last = len(self.loops) - 1
        if at.level == last >= 0 and at.often == 1 and self.inside(called):
            return
        batches: float | None = 1.0
        if getattr(called, "__name__", "") in LOOPED:
            data = value_in(node.args[0], at.scope) if node.args else UNKNOWN
            sizes = (value_in(part.value, at.scope) for part in node.keywords if part.arg == "batch_size")
            batches, size = batches_of(data, next(sizes, None))
            at = at._replace(loads=True, size=size)
        elif self.free and not at.loops:
            return
        for _, turns in at.loops:
            batches = _product(batches, turns)
        per, every = self._every(at)
        size = at.size or _rows_of(node, at.scope) or self.size
        one = Evaluation(at.line, batches, size, every, per, work, at.split, at.loads)
        self.found.append((at.loops, one))

    def _every(self, at: At) -> tuple[Per, float | None]:
        """How often a place runs: each so many epochs or steps, or once in the training."""
        often = None if not at.often else 1 / at.often
        if at.level < 0:
            return "training", often
        if at.level == len(self.loops) - 1:
            loops = self.stack.loops
            alone = len(self.loops) == 1 and not loops.steps and not loops.batches
            return "epoch" if alone else "step", often
        for loop in self.loops[at.level + 1 : -1]:
            often = _product(often, turns_of(loop))
        return "epoch", often


def _environments_in(scope: Mapping[str, Any], code: Any) -> int | None:
    """Environments at once of the one that a function is given: an agent acts in each of them."""
    values = (scope.get(name) for name in code.co_varnames[: code.co_argcount])
    environment = next((value for value in values if is_environment(value)), None)
    return None if environment is None else int(attribute(environment, "num_envs") or 1)


def _rows_of(node: ast.Call, scope: Mapping[str, Any]) -> int | None:
    """Rows of the array that a call is given first."""
    shapes = (attribute(value_in(argument, scope), "shape") for argument in node.args[:1])
    return next((int(shape[0]) for shape in shapes if shape), None)


EVALUATING = "evaluating()"  # in a scope: its model was set to evaluation


class _Turn(dict[str, Any]):
    """A scope in one turn of a loop."""

    def __init__(self, scope: Mapping[str, Any], counters: Mapping[str, tuple[Any, Any]], turn: int) -> None:
        super().__init__(scope)
        for name, (first, step) in counters.items():
            head, _, attribute = name.partition(".")
            if attribute:
                self[head] = _Counted(scope.get(head), {attribute: first + step * turn})
            else:
                self[name] = first + step * turn


class _Counted:
    """An object with other values of some attributes."""

    def __init__(self, held: Any, values: Mapping[str, Any]) -> None:
        self.__dict__["_held"], self.__dict__["_values"] = held, values

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__["_values"]
        return values[name] if name in values else getattr(self.__dict__["_held"], name)


def _counters(loop: Loop) -> dict[str, tuple[Any, Any]]:
    """First values and steps of what counts the turns of a loop: its own counter, and what it raises."""
    counters: dict[str, tuple[Any, Any]] = {}
    if isinstance(loop.node, ast.For) and (name := counter_of(loop.node)) is not None:
        call = next((part for part in ast.walk(loop.node.iter) if isinstance(part, ast.Call) and _ranges(part)), None)
        given = [value_in(part, loop.variables) for part in call.args] if call else []
        if call is None or UNKNOWN in given:
            counters[name] = 0, 1
        else:
            counters[name] = (given[0] if len(given) > 1 else 0), (given[2] if len(given) > 2 else 1)
    for node in ast.walk(loop.node):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            name, step = ast.unparse(node.target), value_in(node.value, loop.variables)
            first = value_in(ast.parse(name, mode="eval").body, loop.variables)
            if type(step) is int and type(first) is int and name.count(".") <= 1:
                counters[name] = first, step
    return counters


def _ranges(call: ast.Call) -> bool:
    return ast.unparse(call.func).endswith("range")


def _stored(node: ast.AST) -> set[str]:
    """Names that a part of the text sets."""
    parts = ast.walk(node)
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _remainders(test: ast.expr) -> list[ast.BinOp]:
    return [part for part in ast.walk(test) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)]


Held = Callable[..., bool | None]  # from a turn, and a part of a test, to whether that holds


def _share_of(test: ast.expr, held: Held, periods: Sequence[int], turns: int | None, goes_on: bool) -> float | None:
    """The share of turns in which a test holds: of all of a loop, or of the second period.

    The first turn of all is often another. None: they are too many to try.
    """
    tried = range(0 if goes_on else turns or 0)
    if periods and (goes_on or not turns or turns > MAX_TURNS):
        period = math.lcm(*periods)
        tried = range(period, 2 * period)
        if len(tried) > MAX_TURNS:
            return None if turns and not goes_on and turns < period else _share_of_long(test, held, tried)
    if not tried or len(tried) > MAX_TURNS:
        return None
    found = [held(turn) for turn in tried]
    return None if None in found else sum(map(bool, found)) / len(found)


def _share_of_long(test: ast.expr, held: Held, tried: range) -> float | None:
    """The share of a long period for `(step + 1) % 20000 == 0`, by itself, or with what holds in all of it."""
    match test:
        case ast.BoolOp(op=ast.And(), values=parts):
            shares = [_share_of_long(part, held, tried) for part in parts]
            rare = [share for share in shares if share != 1]
            return 0.0 if 0 in rare else 1.0 if not rare else rare[0] if len(rare) == 1 else None
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            share = _share_of_long(inner, held, tried)
            return None if share is None else 1 - share
        case ast.Compare(
            left=ast.BinOp(op=ast.Mod()), ops=[ast.Eq() | ast.NotEq()], comparators=[ast.Constant(value=0)]
        ):
            share = _share_of_long(test.left, held, tried)
            return None if share is None else share if isinstance(test.ops[0], ast.NotEq) else 1 - share
        case ast.BinOp(op=ast.Mod(), left=ast.Name() | ast.Attribute() | ast.BinOp(op=ast.Add(), right=ast.Constant())):
            zeros = [turn for turn in (tried[0], tried[-1]) if held(turn, test) is False]
            return None if len(zeros) > 1 else 1 - 1 / len(tried)
        case _ if not _remainders(test):
            return _as_share(held(tried[0], test)) if held(tried[0], test) == held(tried[-1], test) else None
    return None


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _as_share(holds: bool | None) -> float | None:
    return None if holds is None else float(holds)


def _holds(test: ast.expr, scope: Mapping[str, Any]) -> bool | None:
    """Whether a test holds; None: its values do not show it."""
    if isinstance(test, ast.BoolOp):
        decides = isinstance(test.op, ast.Or)
        parts = [_holds(part, scope) for part in test.values]
        return decides if decides in parts else None if None in parts else not decides
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _holds(test.operand, scope)
        return None if inner is None else not inner
    value = value_in(test, scope)
    try:
        return None if value is UNKNOWN else bool(value)
    except Exception:  # of the script's own object
        return None


def value_in(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """The value of an expression that calls nothing of the script's own, else UNKNOWN."""
    for part in ast.walk(node):
        if not isinstance(part, EXPRESSIONS):
            return UNKNOWN
        if isinstance(part, ast.Name) and scope.get(part.id) is UNKNOWN:
            return UNKNOWN
        if isinstance(part, ast.Call) and not _is_safe(part, scope):
            return RANKS.get(_last(part.func), UNKNOWN) if part is node else _by_ranks(node, scope)
    try:
        code = compile(ast.Expression(node), "script", "eval")
        return eval(code, {}, dict(scope))  # nosec B307  # of the user's own script, without calls of its own
    except Exception:  # of the script's own objects
        return UNKNOWN


def _is_safe(call: ast.Call, scope: Mapping[str, Any]) -> bool:
    """Whether a call runs no code of the script's and waits for nothing.

    It is one of a builtin function, of a mapping's `get`, or of an array, a number or a module of theirs.
    """
    name = _last(call.func)
    if isinstance(call.func, ast.Name):
        function = scope.get(name, getattr(builtins, name, None))
        if name in OF_ONE and len(call.args) == 1:  # of what has an end
            return function is getattr(builtins, name) and isinstance(value_in(call.args[0], scope), HELD)
        is_builtin = name in SAFE and function is getattr(builtins, name)
        return is_builtin or (name in OF_MODULES and _package(getattr(function, "__module__", None)) in NUMERIC)
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = value_in(call.func.value, scope)
    if isinstance(owner, ModuleType):
        return name in OF_MODULES and _package(owner.__name__) in NUMERIC
    if name == "get":
        return isinstance(owner, Mapping)
    if name in ("keys", "values", "items"):
        return type(owner) is dict
    is_array = attribute(owner, "shape") is not None and attribute(owner, "dtype") is not None
    is_array = is_array and any(_package(base.__module__) in NUMERIC for base in type(owner).__mro__)
    return name in OF_VALUES and (is_array or isinstance(owner, int | float | str))


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _by_ranks(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """The value of a comparison whose one side asks for the process."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Call):
        left, right = value_in(node.left, scope), value_in(node.comparators[0], scope)
        if UNKNOWN not in (left, right) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            return (left == right) == isinstance(node.ops[0], ast.Eq)
    return UNKNOWN


def _last(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _last_called(node: ast.expr) -> str:
    return _last(node.func) if isinstance(node, ast.Call) else ""


def _is_free(node: ast.expr) -> bool:
    """Whether it turns gradients off, as a context or a decorator."""
    call = node.func if isinstance(node, ast.Call) else node
    off = isinstance(node, ast.Call) and any(getattr(part, "value", None) is False for part in node.args)
    return _last(call) in FREE or (_last(call) == "set_grad_enabled" and off)


def _bodies(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The lists of statements in a statement."""
    for part in [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
        yield from (getattr(part, name, []) for name in ("body", "orelse", "finalbody"))


def _unwrapped(node: ast.expr, scope: Mapping[str, Any]) -> Any:
    """The value of what a loop is over, without bars around it."""
    while isinstance(node, ast.Call) and node.args and _last(node.func) in BARS:
        node = node.args[0]
    return value_in(node, scope)


def _length(node: ast.expr, scope: Mapping[str, Any]) -> int | None:
    """Turns of a loop over it."""
    while isinstance(node, ast.Call) and node.args and _last(node.func) in BARS - {"trange", "prange"}:
        node = node.args[0]
    if isinstance(node, ast.Call) and _last(node.func) == "zip":
        known = [length for part in node.args if (length := _length(part, scope)) is not None]
        return min(known, default=None)
    if isinstance(node, ast.Call) and _last(node.func) == "islice":
        bounds = [value_in(part, scope) for part in node.args[1:]]
        return bounds[-1] if len(bounds) == 1 and type(bounds[0]) is int else None
    if isinstance(node, ast.Call) and _ranges(node):
        given = [value_in(part, scope) for part in node.args]
        return len(range(*given)) if all(type(value) is int for value in given) else None
    if isinstance(node, ast.Call) and inspect.isgeneratorfunction(function := value_in(node.func, scope)):
        return _yields(function, node, scope)
    value = value_in(node, scope)
    try:
        return None if value is UNKNOWN else len(value)
    except Exception:  # of the script's own object, or of a stream
        return None


def _yields(function: Any, node: ast.Call, scope: Mapping[str, Any]) -> int | None:
    """How often a generator of the script's own gives something, where one loop of its does that in each turn."""
    tree = _text_of(function.__code__)
    loops = [part for part in tree.body if isinstance(part, ast.For)] if tree else []
    inside = [part.value for loop in loops for part in loop.body if isinstance(part, ast.Expr)]
    all_inside = [part for part in ast.walk(tree) if isinstance(part, ast.Yield | ast.YieldFrom)] if tree else []
    if (
        len(loops) != 1
        or len(all_inside) != 1
        or not isinstance(all_inside[0], ast.Yield)
        or all_inside[0] not in inside
    ):
        return None
    return _length(loops[0].iter, _bound(function, None, node, scope))


def _limit(node: ast.For, scope: Mapping[str, Any]) -> int | None:
    """Turns after which `if i >= limit: break` ends a loop."""
    name = counter_of(node)
    for part in node.body:
        if isinstance(part, ast.If) and isinstance(part.body[-1], ast.Break) and isinstance(part.test, ast.Compare):
            test, end = part.test, value_in(part.test.comparators[0], scope)
            if name and ast.unparse(test.left) == name and type(end) is int:
                return end + isinstance(test.ops[0], ast.Gt)
    return None


def batches_of(data: Any, size: int | None) -> tuple[int | None, int | None]:
    """Batches of what `fit` or `evaluate` of Keras takes, and their size: arrays have `size` or 32 examples in each."""
    data = data[0] if isinstance(data, tuple | list) and data else data
    while isinstance(data, tuple | list | dict) and data:
        data = next(iter(data.values())) if isinstance(data, dict) else data[0]
    try:
        if hasattr(data, "cardinality"):
            first = data.element_spec
            while isinstance(first, tuple | list | dict):
                first = next(iter(first.values())) if isinstance(first, dict) else first[0]
            count = int(data.cardinality())
            return count if count >= 0 else None, (first.shape[0] if first.shape else None) or size
        if hasattr(data, "shape"):
            return -(-data.shape[0] // (size or 32)), min(size or 32, data.shape[0])
        return len(data), batch_size_of(data) or size
    except Exception:  # of a stream, or of the script's own object
        return None, size


def of_fit(given: Mapping[str, Any], line: int | None, batch: int, epochs: int) -> list[Evaluation]:
    """Return the validation of Keras' `fit`, by its arguments."""
    data, freq = given.get("validation_data"), given.get("validation_freq") or 1
    if data is None and not given.get("validation_split"):
        return []
    size = given.get("validation_batch_size") or batch
    if data is None:
        x = given["x"]
        while isinstance(x, tuple | list | dict) and x:
            x = next(iter(x.values())) if isinstance(x, dict) else x[0]
        held = len(x) - int(len(x) * (1 - given["validation_split"]))
        batches: int | None = -(-held // size)
        size = min(size, held)
    else:
        batches, known = batches_of(data, size)
        size = known or size
    batches = given.get("validation_steps") or batches
    every = freq if isinstance(freq, int | float) else epochs / max(1, len(freq))
    return [Evaluation(line, batches, size, every)]


def batch_size_of(loader: Any) -> int | None:
    """Examples of each batch of a loader; None of anything else."""
    for held in (loader, attribute(loader, "batch_sampler")):
        size = attribute(held, "batch_size")
        if type(size) is int and size > 0:
            return size
    return None


def decoder_share(model: Any) -> float:
    """Return the share of a language model's weights that each token of its takes: all but its encoder's."""
    if not attribute(attribute(model, "config"), "is_encoder_decoder"):
        return 1.0
    encoder, whole = (sum(weight.numel() for weight in part.parameters()) for part in (model.get_encoder(), model))
    return float(1 - encoder / whole)


def takes_gradients(function: Any) -> bool:
    """Whether a function names what takes gradients or applies them."""
    waiting, names = [getattr(function, "__code__", None)], set[str]()
    while waiting:
        if (code := waiting.pop()) is not None:
            names |= {*code.co_names}
            waiting += [part for part in code.co_consts if inspect.iscode(part)]
    return bool(names & GRADIENTS)


def is_split(loader: Any) -> bool:
    """Whether each of several processes takes its own part of a loader's batches."""
    samplers = [attribute(loader, "sampler"), attribute(loader, "batch_sampler")]
    samplers += [attribute(sampler, "sampler") for sampler in samplers]
    names = [type(part).__name__ for part in samplers]
    return any("Distributed" in name for name in names) or type(loader).__module__.startswith("accelerate")


def _text_of(code: Any) -> ast.FunctionDef | None:
    """The text of one of the script's functions."""
    nodes = ast.walk(parsed(Path(code.co_filename).read_bytes()))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == code.co_name)
    first = ((min([node.lineno, *(part.lineno for part in node.decorator_list)]), node) for node in functions)
    return next((node for line, node in first if line == code.co_firstlineno), None)


def _bound(function: Any, owner: Any, node: ast.Call, scope: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a function where it begins, as far as the call shows them."""
    given: dict[str, Any] = dict(function.__globals__)
    with_cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in with_cells:
        try:
            given[name] = cell.cell_contents
        except ValueError:  # not set yet
            given[name] = UNKNOWN
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        given[name] = UNKNOWN if parameter.default is parameter.empty else parameter.default
    positional = takewhile(lambda part: not isinstance(part, ast.Starred), node.args)
    values = [*([owner] if owner is not None else []), *(value_in(part, scope) for part in positional)]
    first = [name for name, parameter in parameters.items() if parameter.kind in IN_PLACE]
    given |= dict(zip(first, values, strict=False))
    rest = next((name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL), None)
    if rest is not None:
        given[rest] = tuple(values[len(first) :]) if len(values) >= len(node.args) else UNKNOWN
    return given | {part.arg: value_in(part.value, scope) for part in node.keywords if part.arg}


def of_trainer(
    scopes: Sequence[Mapping[str, Any]], passes: Callable[[Any], float] = lambda _: 1.0
) -> list[Evaluation] | None:
    """Return the evaluation of a trainer of Hugging Face or Lightning; None where none trains.

    `passes` are the forward passes in a method of a module of Lightning's.
    """
    holders = [scope[name] for scope in scopes for name in HOLDERS if name in scope]
    try:
        for held in holders:
            if attribute(attribute(held, "args"), "eval_strategy") is not None:
                return [_with_tokens(one, held, scopes) for one in _of_transformers(held)]
            if attribute(held, "limit_val_batches") is not None:
                method = attribute(attribute(held, "lightning_module"), "validation_step")
                work = 1.0 if method is None else passes(method)
                return [replace(one, work=work) for one in _of_lightning(held)]
    except Exception:  # of the script's own data or settings
        return [Evaluation(None, None, 1, None)]
    return None


def _of_transformers(trainer: Any) -> list[Evaluation]:
    """The evaluation of Hugging Face's `Trainer`: its processes share the examples."""
    settings, data = trainer.args, getattr(trainer, "eval_dataset", None)
    strategy = str(getattr(settings.eval_strategy, "value", settings.eval_strategy))
    if strategy == "no" or data is None:
        return []
    size = int(settings.per_device_eval_batch_size)
    sets = list(_in_tree(data)) if isinstance(data, Mapping) else [data]
    batches = sum(-(-len(part) // size) for part in sets) if all(hasattr(part, "__len__") for part in sets) else None
    if strategy == "epoch":
        return [Evaluation(None, batches, size, 1, "epoch", split=True)]
    every = settings.eval_steps or settings.logging_steps
    steps = settings.max_steps if settings.max_steps > 0 else trainer.state.max_steps
    every = every * steps if every < 1 and steps > 0 else every  # a share of all
    passes = int(settings.gradient_accumulation_steps)
    return [Evaluation(None, batches, size, float(every), "step", split=True, passes=passes)]


def _with_tokens(one: Evaluation, trainer: Any, scopes: Sequence[Mapping[str, Any]]) -> Evaluation:
    """An evaluation with the tokens that its model writes: as many as a step's labels have, and not above its limit."""
    if not attribute(trainer.args, "predict_with_generate"):
        return one
    held = (scope["inputs"] for scope in scopes if isinstance(scope.get("inputs"), Mapping))
    labels = next((attribute(inputs.get("labels"), "shape") for inputs in held), None)
    config = attribute(trainer.model, "generation_config")
    limits = [attribute(config, name) for name in ("max_new_tokens", "max_length")]
    limit = next((limit for limit in [trainer.args.generation_max_length, *limits] if limit), None)
    tokens = min([*(labels or ())[1:2], *([limit] if limit else [])], default=None)
    if tokens is None:
        return replace(one, batches=None)
    return replace(one, tokens=int(tokens), decoder=decoder_share(trainer.model))


def _of_lightning(trainer: Any) -> list[Evaluation]:
    """The validation of Lightning's `Trainer`: it gives each process its own part of the batches."""
    loaders = list(_in_tree(getattr(trainer, "val_dataloaders", None)))
    if not loaders or not trainer.limit_val_batches:
        return []
    most, interval = trainer.limit_val_batches, trainer.val_check_interval
    found = []
    for loader in loaders:
        try:
            batches: float | None = len(loader)
        except TypeError:
            batches = None if isinstance(most, float) else most
        if batches is not None:
            batches = int(batches * most) if isinstance(most, float) else min(batches, most)
        size = batch_size_of(loader) or 1
        per, every = _each(interval, trainer.check_val_every_n_epoch, getattr(trainer, "num_training_batches", None))
        found.append(Evaluation(None, batches, size, every, per, split=True))
    return found


def _each(interval: float, epochs: int | None, batches: float | None) -> tuple[Per, float | None]:
    """How often Lightning validates: each so many batches, in each so many epochs, or a part of an epoch's."""
    if not isinstance(interval, int):
        return "epoch", (epochs or 1) * interval
    if epochs is None or (epochs == 1 and not _is_finite(batches)):
        return "step", interval
    times = int(batches) // interval if batches is not None and _is_finite(batches) else 0
    return "epoch", epochs / times if times else None


def _is_finite(batches: float | None) -> bool:
    return batches is not None and math.isfinite(batches)


def _in_tree(data: Any) -> Iterator[Any]:
    """The data sets or loaders in dictionaries and lists."""
    if isinstance(data, Mapping | list | tuple):
        for part in data.values() if isinstance(data, Mapping) else data:
            yield from _in_tree(part)
    elif data is not None:
        yield data
