"""What a script does besides its steps: evaluation, samples and rollouts, by its text and by its trainer."""

import math
import runpy
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from whichdevice.models.script.evaluation import (
    after_trainer,
    evaluations_in,
    of_fit,
    of_trainer,
    passes_in,
    takes_gradients,
)
from whichdevice.models.script.found import Evaluation
from whichdevice.models.script.size import Stack

EVALUATE = """
def evaluate(net, loader):
    net.eval()
    with no_grad():
        for x in loader:
            net(x)
"""
DECORATED = EVALUATE.replace("def evaluate", "@no_grad()\ndef evaluate").replace("with no_grad():", "if loader:")
PARTS = """
def parts(*arrays, size=1):
    for start in range(0, len(arrays[0]), size):
        yield arrays[0][start : start + size]
"""
SAMPLER = """
class Sampler(Net):
    def __init__(self):
        self.net = Net()
    @no_grad()
    def sample(self, batch_size):
        for t in reversed(range(0, self.turns)):
            x = self.net(t)
sampler = Sampler()
"""
EPOCHS = "for epoch in range(10):\n    for x in data:\n        step()\n"
GOING = "done = {}\nfor epoch in range(10):\n    for x in data:\n        step()\n        done += 1\n"
STEPS = "for i in range(20000):\n    step()\n"
LONG = STEPS.replace("20000", "100000")
AFTER = "    evaluate(net, val)\n"
CASES = {  # script: batches, their size, epochs or steps between two times
    EVALUATE + EPOCHS + AFTER: [(79, 128, 1, "epoch")],
    DECORATED + EPOCHS + AFTER: [(79, 128, 1, "epoch")],
    EVALUATE + EPOCHS + "    if (epoch + 1) % 5 == 0:\n    " + AFTER: [(79, 128, 5, "epoch")],
    EVALUATE + EPOCHS + "    if epoch % 4 == 0 or epoch == 9:\n    " + AFTER: [(79, 128, 2.5, "epoch")],
    EVALUATE + EPOCHS + "    if epoch >= args['first']:\n    " + AFTER: [(79, 128, 2, "epoch")],
    EVALUATE + EPOCHS + "    if args['never']:\n    " + AFTER: [],
    EVALUATE + EPOCHS + "    if epoch % 2:\n        continue\n" + AFTER: [(79, 128, 2, "epoch")],
    EVALUATE + EPOCHS + "evaluate(net, val)\n": [(79, 128, 1, "training")],
    EVALUATE + STEPS + "    if i > 0 and i % 500 == 0 and is_main_process():\n    " + AFTER: [(79, 128, 500, "step")],
    EVALUATE + "done = 0\nwhile done < 900:\n    step()\n    done += 1\n    if done % 90 == 0:\n    "
    + AFTER: [(79, 128, 90, "step")],
    EVALUATE.replace("            net", "            if i >= 8:\n                break\n            net").replace(
        "for x in loader", "for i, x in enumerate(loader)") + EPOCHS + AFTER: [(8, 128, 1, "epoch")],
    EVALUATE.replace("for x in loader", "for x in tqdm(loader, desc='')") + EPOCHS + AFTER: [(79, 128, 1, "epoch")],
    EVALUATE.replace("loader):", "count):").replace("in loader", "in range(count)") + EPOCHS
    + "    evaluate(net, args['count'])": [(50, 32, 1, "epoch")],
    EPOCHS + "    net.eval()\n    for x in val:\n        net(x)\n": [(79, 128, 1, "epoch")],
    EPOCHS + "    with no_grad():\n        a = [net(x) for x in val]\n        for x in val:\n            net(x)\n"
    : [(79, 128, 1, "epoch"), (79, 128, 1, "epoch")],
    "for run in range(3):\n    for epoch in range(4):\n        for x in data:\n            step()\n"
    "    with no_grad():\n        net(rows)\n": [(1, 7, 4, "epoch")],
    SAMPLER + STEPS + "    if i % 1000 == 0:\n        sampler.sample(args['images'])": [(250, 25, 1000, "step")],
    # A counter that goes on over epochs, of three steps each
    EVALUATE + GOING.format(0) + "        if done % 50 == 0:\n        " + AFTER: [(79, 128, 50, "step")],
    EVALUATE + GOING.format(1) + "        if done % 50 == 0:\n        " + AFTER: [(79, 128, 50, "step")],
    EVALUATE + "done = 1\ndef train(done):\n    for x in data:\n        step()\n        done += 1\n"
    "        if done % 50 == 0:\n            evaluate(net, val)\n    return done\n"
    "for epoch in range(10):\n    done = train(done)\n": [(79, 128, 50, "step")],
    EVALUATE + "net.done = 0\nwhile net.done < 900:\n    step()\n    net.done += 1\n    if net.done % 90 == 0:\n    "
    + AFTER: [(79, 128, 90, "step")],
    EVALUATE + EPOCHS + "    if epoch in (3, 7):\n    " + AFTER: [(79, 128, 5, "epoch")],
    # Periods and loops that are too long to try
    EVALUATE + LONG + "    if i > 0 and i % 20000 == 0:\n    " + AFTER: [(79, 128, 20000, "step")],
    EVALUATE + LONG + "    if not (i + 1) % 20000:\n    " + AFTER: [(79, 128, 20000, "step")],
    EVALUATE + LONG + "    if i % 20000:\n        continue\n" + AFTER: [(79, 128, 20000, "step")],
    EVALUATE + LONG + "    if i % 20000 < 5:\n    " + AFTER: [(79, 128, 4000, "step")],
    EVALUATE + LONG + "    if i >= 50000:\n    " + AFTER: [(79, 128, 2, "step")],
    # Nothing is without gradients, or it is no model.
    EVALUATE.replace("    net.eval()\n", "").replace("with no_grad()", "if loader") + EPOCHS + AFTER: [],
    EPOCHS + "    with no_grad():\n        for x in val:\n            print(x)\n": [],
    # A library's pipeline makes images.
    EPOCHS + "    if epoch % 5 == 0:\n        pipeline = ImagePipeline(model=launcher.unwrap_model(net))\n"
    "        pipeline = pipeline.to('cuda')\n        images = pipeline(batch_size=16).images\n"
    : [(1000, 16, 5, "epoch")],
    EPOCHS + "with no_grad():\n    pipeline = ImagePipeline.from_pretrained('name', model=net)\n"
    "    pipeline('a cat', num_inference_steps=30, guidance_scale=7.5)\n": [(30, 2, 1, "training")],
    # A generator of the script's own gives batches.
    PARTS + EPOCHS + "    with no_grad():\n        for x in parts(list(args.keys()), size=2):\n            net(x)\n"
    : [(2, 32, 1, "epoch")],
    # What cannot be read is not guessed.
    EVALUATE + EPOCHS + "    evaluate(net, stream())\n": [(None, 32, 1, "epoch")],
    EVALUATE + EPOCHS + "    if better():\n    " + AFTER: [(79, 128, None, "epoch")],
}  # fmt: skip


class Stop(BaseException):
    """The step is called."""


class Net:
    """A model, which is set to evaluation."""

    turns = 250

    def eval(self) -> None:
        """As in PyTorch."""

    def __call__(self, x: Any) -> None:
        """Nothing is computed."""


class ImagePipeline:
    """As a library's, which makes images with a model."""

    def __init__(self, model: Net) -> None:
        """As in Diffusers."""

    def __call__(self, prompt: str = "", batch_size: int = 1, num_inference_steps: int = 1000) -> None:
        """Nothing is computed."""


class Loader:
    """A loader with a batch size."""

    batch_size = 128

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return self.batches


class Writer(Net):
    """A library's language model, a quarter of which is its encoder."""

    config = SimpleNamespace(is_encoder_decoder=True)
    generation_config = SimpleNamespace(max_new_tokens=None, max_length=20)

    def generate(self, *_: Any, **__: Any) -> None:
        """Nothing is computed."""

    def parameters(self) -> list[Any]:
        """Eight weights."""
        return [SimpleNamespace(numel=lambda: 8)]

    def get_encoder(self) -> Any:
        """Its encoder has two."""
        return SimpleNamespace(parameters=lambda: [SimpleNamespace(numel=lambda: 2)])


BY_LAMBDA = EVALUATE + EPOCHS + "    list(map(lambda part: evaluate(net, val), [1, 2, 3]))\n"
IN_A_LIST = (
    EVALUATE + "def goal(target):\n    def of(net):\n        for _ in range(50):\n            evaluate(net, val)\n"
)
IN_A_LIST += "    return of\ngoals = [goal(1), goal(2)]\n" + EPOCHS + "    for fn in goals:\n        fn(net)\n"


@pytest.mark.parametrize("text, batches", [(BY_LAMBDA, 3 * 79), (IN_A_LIST, 2 * 50 * 79)], ids=["lambda", "list"])
def test_functions_that_are_named_by_a_loop_are_read(text: str, batches: int, tmp_path: Path) -> None:
    found = evaluations_in(stack_of(text, tmp_path / "train.py"), 32, work_of)
    assert [(one.batches, one.every, one.per) for one in found] == [(batches, 1, "epoch")]


def test_a_batch_size_that_a_function_is_given_is_no_number_of_rows(tmp_path: Path) -> None:
    text = (
        "def evaluate(rows, batch_size=10):\n    net.eval()\n    for i in range(0, 700, 70):\n        net(rows)\n"
        "import numpy\n" + EPOCHS + "    evaluate(numpy.zeros((700, 4)))\n    evaluate(rows, 20)\n"
    )
    text = text.replace("for epoch in", "rows = numpy.zeros((700, 4))\nfor epoch in")
    found = evaluations_in(stack_of(text, tmp_path / "train.py"), 32, work_of)
    assert [(one.batches, one.batch_size) for one in found] == [(10, 10), (10, 20)]


def test_an_agent_acts_in_as_many_environments_at_once_as_there_are(tmp_path: Path) -> None:
    text = "def rollout(game, net):\n    with no_grad():\n        for _ in range(400):\n            net(game.frame)\n"
    text += EPOCHS + "    rollout(game, net)\n"
    game = SimpleNamespace(step=lambda *_: (), reset=dict, action_space=object())
    found = evaluations_in(stack_of(text, tmp_path / "train.py", {"game": game}), 32, work_of)
    assert [(one.batches, one.batch_size) for one in found] == [(400, 1)]


WRITES = {  # how a script lets it write: tokens
    "writer.generate(x, max_new_tokens=50)": 50,
    "launcher.unwrap_model(writer).generate(x, **limits)": 40,
    "writer.generate(x)": 20,
}


def stack_of(text: str, path: Path, own: Mapping[str, Any] = MappingProxyType({})) -> Stack:
    """The stack where a script calls `step`."""
    seen = []

    def step(*_: Any, **__: Any) -> None:
        seen.append(Stack(path))
        raise Stop

    @contextmanager
    def no_grad() -> Any:
        yield

    given = {
        "step": step, "no_grad": no_grad, "Net": Net, "net": Net(), "data": [1, 2, 3], "val": Loader(79),
        "args": {"first": 5, "never": False, "count": 50, "images": 25}, "rows": SimpleNamespace(shape=(7, 3)),
        "ImagePipeline": ImagePipeline, "launcher": SimpleNamespace(),
        "better": lambda: True, "is_main_process": lambda: True, "stream": lambda: iter([1]),
    }  # fmt: skip
    path.write_text(text)
    with pytest.raises(Stop):
        runpy.run_path(str(path), {**given, **own}, "__main__")
    return seen[0]


def work_of(called: Any) -> float | None:
    """The work of a forward pass; None of what is no model."""
    return 1.0 if isinstance(called, Net) else None


@pytest.mark.parametrize("text", CASES)
def test_what_a_script_does_without_gradients_is_counted_by_its_text(text: str, tmp_path: Path) -> None:
    found = evaluations_in(stack_of(text, tmp_path / "train.py"), 32, work_of)
    rounded = [one if one.every is None else replace(one, every=round(one.every, 6)) for one in found]
    assert [astuple(one)[1:5] for one in rounded] == CASES[text]


class Own:
    """A script's object whose methods have usual names."""

    def get(self, *_: Any) -> int:
        """Wait for what never comes, or ask a server."""
        raise Called

    tolist = round = floor = get


class Called(BaseException):
    """Code of a script that was stopped."""


@pytest.mark.parametrize(
    "call", ["own.get()", "own.get('x', 3)", "own.tolist()", "own.floor()", "round(3)", "len(val)"]
)
def test_code_of_a_stopped_script_is_not_run(call: str, tmp_path: Path) -> None:
    text = EVALUATE + EPOCHS + f"    if {call} > 2:\n    " + AFTER
    own = {"own": Own(), "len": Own().get, "round": Own().get}
    found = evaluations_in(stack_of(text, tmp_path / "train.py", own), 32, work_of)
    assert [one.every for one in found] == [None]


@pytest.mark.parametrize(
    ("test", "every"),
    [
        ("args.get('first') == 5", 1), ("ceil(4.5) > epoch", 2), ("math.floor(2.5) > epoch", 5),
        ("max([1, 2]) > epoch", 5), ("rank.tolist() == 0", 1), ("len(data) > epoch", 10 / 3),
    ],
)  # fmt: skip
def test_calls_of_mappings_arrays_and_numbers_are_worked_out(test: str, every: float, tmp_path: Path) -> None:
    text = EVALUATE + EPOCHS + f"    if {test}:\n    " + AFTER
    own = {"math": math, "ceil": math.ceil, "rank": np.asarray(0)}
    assert [one.every for one in evaluations_in(stack_of(text, tmp_path / "train.py", own), 32, work_of)] == [every]


def test_a_teacher_is_a_part_of_each_step(tmp_path: Path) -> None:
    text = "for i in range(9):\n    with no_grad():\n        net(rows)\n    step()\n"
    stack = stack_of(text, tmp_path / "train.py")
    assert evaluations_in(stack, 32, work_of, inside=lambda called: isinstance(called, Net)) == []
    assert [one.every for one in evaluations_in(stack, 32, work_of)] == [1]


def transformers(strategy: str, data: Any = range(2000), **settings: Any) -> SimpleNamespace:
    """Hugging Face's trainer with 2,000 examples to evaluate."""
    known = {"per_device_eval_batch_size": 8, "eval_steps": None, "logging_steps": 500, "max_steps": -1}
    args = SimpleNamespace(eval_strategy=strategy, gradient_accumulation_steps=4, **known | settings)
    return SimpleNamespace(args=args, eval_dataset=data, state=SimpleNamespace(max_steps=3000))


def lightning(interval: float, epochs: int | None, most: float = 1.0, **given: Any) -> SimpleNamespace:
    """Lightning's trainer with a loader of 79 batches, and of 1,000 to train."""
    loaders = given.get("loaders", Loader(79))
    return SimpleNamespace(
        check_val_every_n_epoch=epochs, val_check_interval=interval, limit_val_batches=most,
        val_dataloaders=loaders, num_training_batches=given.get("training", 1000),
    )  # fmt: skip


TRAINERS = {
    "none": (transformers("no"), []),
    "each epoch": (transformers("epoch"), [Evaluation(None, 250, 8, 1, split=True)]),
    "each 200 steps": (
        transformers("steps", eval_steps=200), [Evaluation(None, 250, 8, 200, "step", split=True, passes=4)]
    ),
    "a tenth of all steps": (
        transformers("steps", eval_steps=0.1), [Evaluation(None, 250, 8, 300, "step", split=True, passes=4)]
    ),
    "as often as it logs": (
        transformers("steps"), [Evaluation(None, 250, 8, 500, "step", split=True, passes=4)]
    ),
    "each 5 epochs": (lightning(1.0, 5), [Evaluation(None, 79, 128, 5, split=True)]),
    "twice an epoch": (lightning(0.5, 1), [Evaluation(None, 79, 128, 0.5, split=True)]),
    "each 100 batches": (lightning(100, None), [Evaluation(None, 79, 128, 100, "step", split=True)]),
    "each 300 batches of an epoch": (lightning(300, 1), [Evaluation(None, 79, 128, 1 / 3, split=True)]),
    "twice in each other epoch": (lightning(500, 2), [Evaluation(None, 79, 128, 1, split=True)]),
    "each 500 batches of a stream": (
        lightning(500, 1, training=float("inf")), [Evaluation(None, 79, 128, 500, "step", split=True)]
    ),
    "each other epoch of a stream": (
        lightning(500, 2, training=float("inf")), [Evaluation(None, 79, 128, None, split=True)]
    ),
    "loaders with names": (
        lightning(1.0, 1, loaders={"a": Loader(79), "b": Loader(8)}),
        [Evaluation(None, 79, 128, 1, split=True), Evaluation(None, 8, 128, 1, split=True)],
    ),
    "data sets with names": (
        transformers("epoch", {"a": range(2000), "b": range(9)}), [Evaluation(None, 252, 8, 1, split=True)]
    ),
    "a stream with a name": (
        transformers("epoch", {"a": range(2000), "b": iter([])}), [Evaluation(None, None, 8, 1, split=True)]
    ),
    "a few batches": (lightning(1.0, 1, 20), [Evaluation(None, 20, 128, 1, split=True)]),
    "no batches": (lightning(1.0, 1, 0), []),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAINERS)
def test_a_trainer_says_how_often_it_evaluates(case: str) -> None:
    trainer, expected = TRAINERS[case]
    assert of_trainer([{"x": 1}, {"self": trainer}]) == expected


def test_a_trainers_validation_has_as_many_passes_as_its_step_makes(tmp_path: Path) -> None:
    text = "class Module:\n    net = Net()\n    def loss(self, batch):\n        return self.net(batch)\n"
    text += "    def validation_step(self, batch, batch_idx):\n        self.loss(batch)\n        self.loss(batch)\n"
    stack = stack_of(text + "module = Module()\nstep()\n", tmp_path / "train.py")
    trainer = lightning(1.0, 1)
    trainer.lightning_module = stack.own[0].variables["module"]
    found = of_trainer([{"trainer": trainer}], lambda method: passes_in(stack, 32, work_of, method))
    assert found and {one.work for one in found} == {2}


MADE = "def {name}():\n    model = make()\n    model{method}(1)\n"
UNREAD = {  # a function in the loop over epochs, whether gradients are by name alone: whether it is said
    "evaluates a model that it makes": (MADE.format(name="evaluate", method=""), True, True),
    "calls a method of one": (MADE.format(name="sample", method=".apply"), True, True),
    "evaluates nothing": ("def evaluate():\n    print(1)\n", True, False),
    "has another name": (MADE.format(name="report", method=""), True, False),
    "has no gradients by its text": ("@no_grad()\n" + MADE.format(name="report", method=""), False, True),
    "sets its model to evaluation": (MADE.format(name="report", method=".eval()\n    model"), False, True),
    "measures alone": ("@no_grad()\ndef test_scores():\n    def top(x): return x\n    top(1)\n", False, False),
    "takes gradients": (MADE.format(name="evaluate", method=""), False, False),
}  # fmt: skip


@pytest.mark.parametrize("case", UNREAD)
def test_what_may_run_a_model_that_does_not_show_is_said_not_to_be_counted(case: str, tmp_path: Path) -> None:
    text, no_grad, expected = UNREAD[case]
    name = text.partition("def ")[2].partition("(")[0]
    text += f"def load_test_data():\n    evaluate = make()\n    evaluate(1)\nload_test_data()\n{EPOCHS}    {name}()\n"
    found = evaluations_in(stack_of(text, tmp_path / "train.py", {"make": lambda: print}), 32, work_of, no_grad=no_grad)
    assert [(one.line, one.batches) for one in found] == [(len(text.splitlines()), None)] * expected


def test_a_single_pass_of_what_is_named_so_is_counted_where_gradients_are_by_name(tmp_path: Path) -> None:
    text = "def show():\n    net(rows)\n" + EPOCHS + "    if epoch % 2 == 0:\n        {name}()\n"
    images = stack_of(text.replace("show", "{name}").format(name="generate_images"), tmp_path / "train.py")
    found = evaluations_in(images, 32, work_of, no_grad=True)
    assert [(one.batches, one.batch_size, one.every) for one in found] == [(1, 7, 2)]
    assert evaluations_in(stack_of(text.format(name="show"), tmp_path / "other.py"), 32, work_of, no_grad=True) == []


def test_a_compiled_function_is_none_of_the_scripts_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code has a relative file name, which is in the script's folder."""
    monkeypatch.chdir(tmp_path)
    text = "np.random.seed(0)\n" + EPOCHS + "    np.random.seed(epoch)\n"
    assert evaluations_in(stack_of(text, tmp_path / "train.py", {"np": np}), 32, work_of) == []


TESTS = "    net.eval()\n    for x in val:\n        net(x)\n"
FITTING = {  # where a library's function trains for 4 epochs: how often the evaluation is, without and with its epochs
    "for fold in range(5):\n    step()\n" + TESTS: (4, "epoch"),
    "step()\nif data:\n" + TESTS: (1, "training"),
    "for fold in range(5):\n    for rate in range(3):\n        step()\n" + TESTS: (12, "epoch"),
    "for fold in range(10):\n    step()\n    if fold == 0:\n        continue\n" + TESTS: (4 / 0.9, "epoch"),
}  # fmt: skip


@pytest.mark.parametrize("text", FITTING)
def test_an_evaluation_after_each_call_of_fit_is_one_in_so_many_epochs(text: str, tmp_path: Path) -> None:
    found = evaluations_in(stack_of(text, tmp_path / "train.py"), 32, work_of, epochs=4)
    assert [(one.every, one.per) for one in found] == [FITTING[text]]


TRAINER = """
class Trainer:
    max_epochs = 2
    def fit(self, step):
        step()
"""


def test_an_evaluation_in_the_loop_that_starts_a_librarys_trainer_is_one_of_each_turn(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "trainer.py").write_text(TRAINER)
    trainer = runpy.run_path(str(tmp_path / "library" / "trainer.py"))["Trainer"]()
    (tmp_path / "own").mkdir()
    text = "for fold in range(5):\n    trainer.fit(step)\n" + TESTS
    stack = stack_of(text, tmp_path / "own" / "train.py", {"trainer": trainer})
    assert [(one.batches, one.every, one.per) for one in evaluations_in(stack, 32, work_of)] == [(79, 0.2, "training")]


class Transformers:
    """Hugging Face's trainer, as far as it is asked for."""

    args = SimpleNamespace(eval_strategy="no", per_device_eval_batch_size=8)
    eval_dataset = range(2000)

    def evaluate(self, eval_dataset: Any = None) -> None:
        """Nothing is computed."""

    predict = evaluate


class Lightning:
    """Lightning's."""

    limit_val_batches, val_dataloaders = 1.0, Loader(79)

    def test(self, *_: Any, **__: Any) -> None:
        """Nothing is computed."""

    def validate(self, *_: Any, **__: Any) -> None:
        """Nothing is computed."""


CALLED = {  # what comes after a trainer's training: batches, their size, once in which part of all
    "step()\ntrainer.evaluate()\n": (Transformers, [(250, 8, 1)]),
    "step()\ntrainer.evaluate(metric_key_prefix='eval')\n": (Transformers, [(250, 8, 1)]),
    "step()\nprint(trainer.evaluate(data))\n": (Transformers, [(1, 8, 1)]),
    "step()\ntrainer.evaluate(stream())\n": (Transformers, [(None, 8, 1)]),
    "step()\ntrainer.test(net, val)\n": (Lightning, [(79, 128, 1)]),
    "step()\ntrainer.test(net)\n": (Lightning, [(None, 32, 1)]),
    "step()\ntrainer.validate(net)\n": (Lightning, [(79, 128, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("text", CALLED)
def test_what_a_trainer_evaluates_after_its_training_is_counted(text: str, tmp_path: Path) -> None:
    kind, expected = CALLED[text]
    found = after_trainer(stack_of(text, tmp_path / "train.py", {"trainer": kind()}), 32)
    assert [(one.batches, one.batch_size, one.every) for one in found] == expected
    assert {one.per for one in found} == {"training"}


@pytest.mark.parametrize("call", WRITES)
def test_tokens_that_a_model_writes_are_counted_one_by_one(call: str, tmp_path: Path) -> None:
    text = EPOCHS + f"    for x in val:\n        {call}\n"
    stack = stack_of(text, tmp_path / "train.py", {"writer": Writer(), "limits": {"max_length": 40}})
    assert evaluations_in(stack, 32, work_of) == [Evaluation(4, 79, 128, 1, tokens=WRITES[call], decoder=0.75)]


@pytest.mark.parametrize("limit, labels, tokens", [(225, 38, 38), (20, 38, 20), (None, None, 20)])
def test_a_trainer_that_predicts_by_writing_writes_as_much_as_the_labels_have(
    limit: int | None, labels: int | None, tokens: int
) -> None:
    trainer = transformers("epoch", predict_with_generate=True, generation_max_length=limit)
    trainer.model = Writer()
    inputs = {"labels": SimpleNamespace(shape=(8, labels))} if labels else {}
    found = of_trainer([{"inputs": inputs}, {"self": trainer}])
    assert found == [Evaluation(None, 250, 8, 1, split=True, tokens=tokens, decoder=0.75)]


def test_what_an_own_object_hides_by_raising_is_said_not_to_be_known() -> None:
    trainer = transformers("epoch")
    trainer.args.per_device_eval_batch_size = "eight"
    assert of_trainer([{"trainer": trainer}]) == [Evaluation(None, None, 1, None)]


def test_a_loop_of_the_scripts_own_has_no_trainer() -> None:
    assert of_trainer([{"self": Net(), "args": SimpleNamespace(epochs=3)}]) is None


ROWS = np.zeros((600, 3))
FITS = {  # arguments of fit: batches, their size, epochs between two times
    "no validation": ({}, []),
    "arrays": ({"validation_data": (ROWS, ROWS)}, [(5, 128, 1)]),
    "several inputs": ({"validation_data": ({"a": ROWS, "b": ROWS}, ROWS)}, [(5, 128, 1)]),
    "few examples": ({"validation_data": (ROWS[:60], ROWS[:60])}, [(1, 60, 1)]),
    "a part of the data": ({"validation_split": 0.1}, [(1, 60, 1)]),
    "another batch": ({"validation_data": (ROWS, ROWS), "validation_batch_size": 60}, [(10, 60, 1)]),
    "each 5 epochs": ({"validation_data": (ROWS, ROWS), "validation_freq": 5}, [(5, 128, 5)]),
    "after these epochs": ({"validation_data": (ROWS, ROWS), "validation_freq": [5, 20]}, [(5, 128, 10)]),
    "some steps": ({"validation_data": iter([]), "validation_steps": 7}, [(7, 128, 1)]),
    "a stream": ({"validation_data": iter([])}, [(None, 128, 1)]),
    "a loader": ({"validation_data": Loader(79)}, [(79, 128, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("case", FITS)
def test_the_validation_of_fit_follows_from_its_arguments(case: str) -> None:
    given, expected = FITS[case]
    found = of_fit({"x": ROWS, **given}, 9, 128, 20)
    assert [(one.batches, one.batch_size, one.every) for one in found] == expected


def test_a_function_that_names_gradients_is_no_evaluation() -> None:
    def evaluate(weights: Any, x: Any) -> Any:
        return weights @ x

    def train(optimizer: Any, weights: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            return optimizer.value_and_grad(weights @ x)

        return loss(weights)

    assert (takes_gradients(evaluate), takes_gradients(train), takes_gradients(len)) == (False, True, False)
