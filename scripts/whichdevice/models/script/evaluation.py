"""Work of a script besides the steps of its training: evaluation, samples, rollouts, all without gradients.

    evaluations_in(stack, 32, forward)      # [Evaluation(line=58, batches=79, batch_size=128, every=1, per="epoch")]

A script is stopped in its first step, so what it does besides is read in its text: what stands beside the step in the
loops around it, and in the script's functions that are called there. Values are those of the script's variables.
"""

import ast
import inspect
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from whichdevice.models.script.environment import is_environment
from whichdevice.models.script.found import Evaluation, Per
from whichdevice.models.script.run import is_own
from whichdevice.models.script.size import HOLDERS, Loop, Stack, counter_of, most_turns, turns_of
from whichdevice.models.script.text import (
    UNKNOWN,
    WRAPPING,
    Statement,
    Turns,
    attribute,
    bound,
    calls_around,
    code_of,
    count_of,
    function_of,
    holds,
    is_expression,
    last_name,
    names_in,
    raised_in,
    stored_in,
    targets_of,
    turns_over,
    value_in,
)

NO_GRAD = {"no_grad", "inference_mode"}  # of gradients
TAPE = "GradientTape"
GRADIENTS = {
    "grad", "value_and_grad", "vjp", "filter_grad", "filter_value_and_grad", "apply_gradients", "apply_updates",
    "update", "train_step",
}  # fmt: skip
RUNS = {"apply", "apply_fn", "generate", "sample", "evaluate", "predict", "forward", "scan"}  # a model, as methods
TESTING = {"evaluate", "validate", "test", "predict"}  # methods of a trainer
DATA = {"eval_dataset", "test_dataset", "dataloaders"}  # arguments of these
LOOPED = {"evaluate", "predict"}  # methods of a model that take data
SIZES = re.compile("batch_?size|samples|^bsz?$|num_images|n_images")  # names of how many a function makes
EVALUATES = re.compile("eval|valid|(?<!la)test|sampl|render|generat|infer|predict")  # names of functions
MAX_DEPTH = 6  # functions in one another that are read
MAX_TURNS, MAX_PERIOD = 10_000, 10**6  # turns that are tried one by one; of a loop or a period whose numbers are tried


class Sampler(NamedTuple):
    """A library's pipeline around a model, which it calls in each of its steps."""

    work: float  # of the model's forward pass
    settings: Mapping[str, Any]  # what it is called with where the script says nothing else


class At(NamedTuple):
    """A place in the text, with what is known of how often it runs."""

    level: int  # of the innermost loop around the step that is around this place, too; -1: none
    line: int  # of the statement in that loop
    scope: dict[str, Any]
    no_grad: bool
    often: float | None = 1.0  # share of the turns of that loop
    loops: tuple[tuple[ast.AST, float | None], ...] = ()  # around it beside the step, with their turns
    size: int | None = None
    split: bool = False
    loads: bool = False
    deep: tuple[Any, ...] = ()  # functions it is in
    suspect: bool = False  # whether the name of one of them says that it evaluates


Is = Callable[[Any], bool]
Forward = Callable[[Any], float | None]  # from what is called to its work, of that of a step's forward pass


def evaluations_in(
    stack: Stack,
    size: int,
    forward: Forward,
    inside: Is = lambda called: False,
    no_grad: bool = False,
    epochs: int | None = None,
) -> list[Evaluation]:
    """Return what a script does without gradients besides its step, where it was stopped in the first one.

    `size` is a step's batch. What is `inside` of each step is a part of it. With `no_grad` nothing takes gradients.
    `epochs` are those that a function trains which was called in place of a step.
    """
    search = _Search(stack, size, forward, inside, no_grad, epochs)
    search.read()
    return _summed(search.found)


def after_trainer(stack: Stack, size: int) -> list[Evaluation]:
    """Return what a trainer of Hugging Face or Lightning evaluates beside its training, by calls in the text."""
    evaluations = evaluations_in(stack, size, lambda called: 1.0 if _is_trainers(called) else None, no_grad=True)
    return [one for one in evaluations if one.per == "training"]


def passes_in(stack: Stack, size: int, forward: Forward, method: Any) -> float:
    """Return the forward passes of one of the script's methods; one where its text shows none."""
    search = _Search(stack, size, forward, lambda _: False, False, None)
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
    def __init__(
        self, stack: Stack, size: int, forward: Forward, inside: Is, no_grad: bool, epochs: int | None
    ) -> None:
        self.stack, self.size, self.forward, self.inside, self.no_grad = stack, size, forward, inside, no_grad
        self.loops, self.epochs = [*stack.starting, *stack.around], epochs
        self.found: list[tuple[Any, Evaluation]] = []  # with the loops around it
        self.unread = 0  # calls without gradients of what is not known, so far
        self._function: ast.AST = ast.Module([], [])  # that is read

    def read(self) -> None:
        """Read the functions that are running, the outermost first."""
        level = -1
        for part in self.stack.own:
            self._function = part.tree
            level = self._beside(part.path, At(level, 0, dict(part.scope), self.no_grad))

    def _beside(self, path: Sequence[Statement], at: At) -> int:
        """Read what stands beside the statements of a path; return the innermost loop around its end."""
        if not path:
            return at.level
        place, inner = path[0], at.level + 1
        at = self._all(place.block[: place.number], at, beside=True)
        at.scope.pop(EVALUATING, None)
        is_loop = inner < len(self.loops) and self.loops[inner].node is place.node
        deepest = self._beside(path[1:], at._replace(level=inner, often=1.0) if is_loop else at)
        self._all(place.block[place.number + 1 :], at, beside=True)
        return deepest

    def _all(self, body: Sequence[ast.stmt], at: At, beside: bool = False) -> At:
        for node in body:
            at = self._read(node, at._replace(line=node.lineno) if beside else at)
        return at

    def _read(self, node: ast.AST, at: At) -> At:
        """Read a part of the text; return the place after it. What it does is not known where its objects raise."""
        try:
            return self._read_part(node, at)
        except Exception:  # of the script's own objects
            self.found.append(((), Evaluation(at.line, None, self.size, None)))
            return at

    def _read_part(self, node: ast.AST, at: At) -> At:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                at.scope.setdefault(name, None)  # no model
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                for alias in names:
                    at.scope.setdefault(alias.asname or alias.name.partition(".")[0], None)
            case ast.Lambda():
                pass
            case ast.If():
                return self._either(node, at)
            case ast.With():
                no_grad = at.no_grad or any(_has_no_grad(item.context_expr) for item in node.items)
                no_grad = no_grad and not any(_last_called(item.context_expr) == TAPE for item in node.items)
                self._all(node.body, at._replace(no_grad=no_grad))
            case ast.For():
                self._read(node.iter, at)
                self._all(node.body, self._in_loop(node, at))
            case ast.While():
                self._all(node.body, self._in_loop(node, at))
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
        """The share of the turns in which a test holds: of all of a loop, or of a period.

        That is the second one: the first turn of all is often another.
        """
        parts = [part for part in ast.walk(test) if isinstance(part, ast.BinOp | ast.Name | ast.Attribute)]
        divisors = [part.right for part in parts if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod)]
        if at.level < 0 or at.deep or at.loops:
            return None if divisors else _mean(holds(test, at.scope))
        loop = self.loops[at.level]
        changed, turns = stored_in(loop.node), turns_of(loop)
        scope = {name: value for name, value in at.scope.items() if name not in changed}
        counters = {name: count for name, count in _counters(loop).items() if name in map(ast.unparse, parts)}
        periods = [value_in(part, scope) for part in divisors]
        periods = [period for period in periods if type(period) is int and period > 0]
        if not counters or not (turns or periods):
            return _mean(holds(test, scope))
        going = {name for name in counters if self._goes_on(name, at.level)}
        if going and len(going) < len(counters):
            periods = [*periods, turns] if turns and periods else []
        first, count = 0, 0 if going else turns or 0
        if periods and (going or count == 0 or math.lcm(*periods) <= count > MAX_TURNS):
            first = count = math.lcm(*periods)
        if not 0 < count <= MAX_PERIOD:
            return None
        named_test = _Names(counters).visit(ast.parse(ast.unparse(test), mode="eval")).body

        def held(turn: Any) -> Any:
            anew = turn % turns if turns and going else turn
            values = {name: at + by * (turn if name in going else anew) for name, (at, by) in counters.items()}
            return holds(named_test, {**scope, **values})

        runs = held((first + np.arange(count)).view(Turns))
        if runs is None and count <= MAX_TURNS:  # it takes one turn at a time
            turn_by_turn = [held(turn) for turn in range(first, first + count)]
            runs = None if None in turn_by_turn else turn_by_turn
        return _mean(runs)

    def _goes_on(self, name: str, level: int) -> bool:
        """Whether a counter that a loop raises keeps its value where the loop around it comes to its next turn."""
        loop = self.loops[level]
        if level == 0 or name == counter_of(loop):
            return False
        around: ast.AST = self.loops[level - 1].node
        if loop.node not in ast.walk(around):  # of another function
            around = self._function
        return name not in chain.from_iterable(map(targets_of, ast.walk(around)))

    def _in_loop(self, node: ast.For | ast.While | ast.comprehension, at: At) -> At:
        """The place in a loop beside the step, whose targets have no known values."""
        loader, turns, targets = UNKNOWN, None, set[str]()
        if not isinstance(node, ast.While):
            targets = stored_in(node.target)
            inner = [call.args[0] for name, call in calls_around(node.iter) if name in WRAPPING and call.args]
            loader, turns = value_in((inner or [node.iter])[-1], at.scope), turns_over(node.iter, at.scope)
        if not isinstance(node, ast.comprehension):
            counted = count_of(node, at.scope)
            scope = at.scope if counted is None else at.scope | {counted[0]: counted[1]}
            turns = most_turns(Loop(node, scope, node.end_lineno or 0))
        changed = {  # an array that is set anew keeps its shape
            name for name in stored_in(node) if name in targets or attribute(at.scope.get(name), "shape") is None
        }
        scope = {name: value for name, value in at.scope.items() if name not in changed}
        if len(targets) == 1 and isinstance(loader, list | tuple) and loader and all(map(inspect.isfunction, loader)):
            scope |= dict.fromkeys(targets, loader[0])  # the others are like it
        known = batch_size_of(loader)
        return at._replace(
            scope=scope, loops=(*at.loops, (node, turns)), size=known or at.size,
            split=at.split or is_split(loader), loads=at.loads or known is not None,
        )  # fmt: skip

    def _value(self, node: ast.expr, scope: Mapping[str, Any]) -> Any:
        """The value of an expression; a model without what several GPUs put around it, and a pipeline around one."""
        if not isinstance(node, ast.Call):
            return value_in(node, scope)
        name, given = last_name(node.func), [*node.args, *(part.value for part in node.keywords)]
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
        at = at._replace(loops=(*at.loops, (node, turns)), size=size, loads=False)
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
        before = len(self.found)
        self._note(node, at, work, model)
        if len(self.found) == before:  # a part of each step
            return
        loops, one = self.found.pop()
        config = given.get("generation_config", attribute(model, "generation_config"))
        limits = [given.get(name, attribute(config, name)) for name in ("max_new_tokens", "max_length")]
        tokens = next((limit for limit in limits if type(limit) is int), None)
        known = replace(one, tokens=tokens or 0, decoder=decoder_share(model))
        self.found.append((loops, known if tokens else replace(one, batches=None)))

    def _called(self, node: ast.Call, at: At) -> None:
        """Note a forward pass, or read the script's function that is called."""
        function, name = value_in(node.func, at.scope), last_name(node.func)
        if function is UNKNOWN and isinstance(node.func, ast.Attribute):  # a method of what is no longer wrapped
            owner = self._value(node.func.value, at.scope)
            function = UNKNOWN if owner is UNKNOWN else attribute(owner, name) or UNKNOWN
        no_grad = at.no_grad or bool(at.scope.get(EVALUATING))
        self.unread += no_grad and self._may_run_a_model(node, function, at)
        if function is UNKNOWN:
            if isinstance(node.func, ast.Attribute) and name in ("eval", "train"):
                at.scope[EVALUATING] = name == "eval"
            return
        if isinstance(function, Sampler):
            self._samples(node, at, function)
            return
        code = code_of(function)
        if name == "generate" and isinstance(node.func, ast.Attribute) and not self._is_own(code):
            self._generates(node, at)
            return
        if (
            isinstance(node.func, ast.Attribute)
            and name in ("eval", "train")
            and self.forward(value_in(node.func.value, at.scope)) is not None
        ):
            off = name == "eval" or any(value_in(part, at.scope) is False for part in node.args)
            at.scope[EVALUATING] = off
            return
        if (work := self.forward(function)) is not None:
            if no_grad:
                self._note(node, at, work, function)
            return
        self.follow(function, node, at._replace(no_grad=no_grad))

    def _may_run_a_model(self, node: ast.Call, function: Any, at: At) -> bool:
        """Whether a call is of a model that is not known, or in what is named so of a library's with such a method."""
        if function is UNKNOWN and isinstance(node.func, ast.Name | ast.Call) and not self.no_grad:
            return True
        named = last_name(node.func) in RUNS or (function is UNKNOWN and isinstance(node.func, ast.Name | ast.Call))
        return at.suspect and named

    def _is_own(self, code: CodeType | None) -> bool:
        return code is not None and is_own(code.co_filename, self.stack.path) and not is_expression(code)

    def follow(self, function: Any, node: ast.Call, at: At) -> None:
        """Read one of the script's functions where it is called so."""
        code = code_of(function)
        if code is None or not self._is_own(code) or code in at.deep or len(at.deep) >= MAX_DEPTH:
            return
        tree, scope = function_of(code), bound(function, node, at.scope)
        named = {name: value for name, value in scope.items() if SIZES.search(name) and name in code.co_varnames}
        named = {name: value for name, value in named.items() if type(value) is int and value > 0}
        sizes = [named.get("batch_size"), _rows_of(node, at.scope), *named.values()]
        no_grad = at.no_grad or any(map(_has_no_grad, tree.decorator_list))
        size = at.size or next(filter(None, sizes), None) or _environments_in(scope, code)
        suspect = at.suspect or EVALUATES.search(last_name(node.func)) is not None
        inner = at._replace(scope=scope, no_grad=no_grad, deep=(*at.deep, code), size=size, suspect=suspect)
        before, unread = len(self.found), self.unread
        self._all(tree.body, inner)
        prepares = self.no_grad and at.level < 0  # as `load_test_data` does
        may_evaluate = not (at.deep or prepares or self._is_in_each_step(at))
        if may_evaluate and len(self.found) == before and self.unread > unread:
            self.found.append(((), Evaluation(at.line, None, self.size, None)))

    def _note(self, node: ast.Call, at: At, work: float, called: Any) -> None:
        if (self._is_in_each_step(at) and self.inside(called)) or any(_learns(loop) for loop, _ in at.loops):
            return
        batches: float | None = 1.0
        if getattr(called, "__name__", "") in LOOPED and not _is_trainers(called):
            data = value_in(node.args[0], at.scope) if node.args else UNKNOWN
            sizes = (value_in(part.value, at.scope) for part in node.keywords if part.arg == "batch_size")
            batches, size = batches_of(data, next(sizes, None))
            at = at._replace(loads=True, size=size)
        elif _is_trainers(called):
            named = (part.value for part in node.keywords if part.arg in DATA)
            given = [value_in(part, at.scope) for part in (*node.args, *named)]
            batches, size = _batches_of_trainer(called, given)
            at = at._replace(loads=True, size=size, split=True)
        elif self.no_grad and not at.loops and (at.level < 0 or not at.suspect or self._is_in_each_step(at)):
            return
        for _, turns in at.loops:
            batches = _product(batches, turns)
        per, every = self._every(at)
        size = at.size or _rows_of(node, at.scope) or self.size
        one = Evaluation(at.line, batches, size, every, per, work, at.split, at.loads)
        if _is_trainers(called):
            one = _with_tokens(one, called.__self__, self.stack.scopes)
        self.found.append((at.loops, one))

    def _is_in_each_step(self, at: At) -> bool:
        return at.level == len(self.loops) - 1 >= len(self.stack.starting) and at.often == 1 and not self.epochs

    def _every(self, at: At) -> tuple[Per, float | None]:
        """How often a place runs: each so many epochs or steps, or so many times in the training."""
        if at.level < len(self.stack.starting):
            times = at.often
            for loop in self.loops[: at.level + 1]:
                times = _product(times, turns_of(loop))
            return "training", 1 / times if times else None
        often = None if not at.often else 1 / at.often
        if at.level == len(self.loops) - 1 and not self.epochs:
            loops = self.stack.amount
            alone = len(self.loops) == 1 and not loops.steps and not loops.batches
            return "epoch" if alone else "step", often
        for loop in self.loops[at.level + 1 : None if self.epochs else -1]:
            often = _product(often, turns_of(loop))
        return "epoch", _product(often, self.epochs or 1)


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


class _Names(ast.NodeTransformer):
    """Puts names in place of some attributes: `trainer.step` is a variable, too."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        name = ast.unparse(node)
        return ast.copy_location(ast.Name(name, ast.Load()), node) if name in self.names else self.generic_visit(node)


def _learns(loop: ast.AST) -> bool:
    """Whether a loop takes gradients, as one that looks for examples which a model fails: it is a part of a step."""
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return any(last_name(call.func) in ("grad", "backward") for call in calls)


def _counters(loop: Loop) -> dict[str, tuple[Any, Any]]:
    """First values and steps of what counts the turns of a loop: its own counter, and what it raises."""
    counted = count_of(loop.node, loop.variables)
    counters: dict[str, tuple[Any, Any]] = {} if counted is None else {counted[0]: counted[1:]}
    for name, by in filter(None, map(raised_in, ast.walk(loop.node))):
        step, first = (value_in(part, loop.variables) for part in (by, ast.parse(name, mode="eval").body))
        if type(step) is int and type(first) is int:
            counters[name] = first, step
    return counters


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _mean(held: Any) -> float | None:
    return None if held is None else float(np.mean(held))


def _last_called(node: ast.expr) -> str:
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def _has_no_grad(node: ast.expr) -> bool:
    """Whether it turns gradients off, as a context or a decorator."""
    call = node.func if isinstance(node, ast.Call) else node
    off = isinstance(node, ast.Call) and any(getattr(part, "value", None) is False for part in node.args)
    return last_name(call) in NO_GRAD or (last_name(call) == "set_grad_enabled" and off)


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
    code = code_of(function)
    return code is not None and not GRADIENTS.isdisjoint(names_in(code))


def _is_trainers(called: Any) -> bool:
    """Whether it is a method of a trainer of Hugging Face or Lightning that evaluates."""
    owner = attribute(called, "__self__")
    kinds = attribute(attribute(owner, "args"), "eval_strategy"), attribute(owner, "limit_val_batches")
    return getattr(called, "__name__", "") in TESTING and kinds != (None, None)


def _batches_of_trainer(called: Any, given: Sequence[Any]) -> tuple[int | None, int | None]:
    """Batches of a trainer's evaluation and their size, by what its method is given or else the trainer has."""
    owner, is_validation = called.__self__, called.__name__ in ("evaluate", "validate")
    if attribute(owner, "limit_val_batches") is not None:
        loaders = [value for value in given if batch_size_of(value)]
        loaders = loaders or (list(_in_tree(attribute(owner, "val_dataloaders"))) if is_validation else [])
        counts = [batches_of(loader, None)[0] or 0 for loader in loaders]
        return sum(counts) if counts and all(counts) else None, next(map(batch_size_of, loaders), None)
    data = next(iter(given), owner.eval_dataset if is_validation else None)
    size = int(owner.args.per_device_eval_batch_size)
    return _batches_of_all(_in_tree(data) if isinstance(data, Mapping) else [data], size), size


def _batches_of_all(sets: Iterable[Any], size: int) -> int | None:
    with suppress(TypeError):  # of a stream
        return sum(-(-len(part) // size) for part in sets)
    return None


def is_split(loader: Any) -> bool:
    """Whether each of several processes takes its own part of a loader's batches."""
    samplers = [attribute(loader, "sampler"), attribute(loader, "batch_sampler")]
    samplers += [attribute(sampler, "sampler") for sampler in samplers]
    names = [type(part).__name__ for part in samplers]
    return any("Distributed" in name for name in names) or type(loader).__module__.startswith("accelerate")


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
    batches = _batches_of_all(_in_tree(data) if isinstance(data, Mapping) else [data], size)
    if strategy == "epoch":
        return [Evaluation(None, batches, size, 1, "epoch", split=True)]
    every = settings.eval_steps or settings.logging_steps
    steps = settings.max_steps if settings.max_steps > 0 else trainer.state.max_steps
    every = every * steps if every < 1 and steps > 0 else every  # a share of all
    passes = int(settings.gradient_accumulation_steps)
    return [Evaluation(None, batches, size, float(every), "step", split=True, passes=passes)]


def _with_tokens(one: Evaluation, trainer: Any, scopes: Sequence[Mapping[str, Any]]) -> Evaluation:
    """An evaluation with the tokens that its model writes: as many as a step's labels have, and not above its limit."""
    if not attribute(attribute(trainer, "args"), "predict_with_generate"):
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
