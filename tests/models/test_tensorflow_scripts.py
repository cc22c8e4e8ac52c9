"""Scripts with a TensorFlow loop of their own: the step is what a `tf.function` does with one batch."""

from pathlib import Path

import numpy as np
import pytest

from whichdevice.base.errors import StudyError
from whichdevice.models.script import watch_tensorflow
from whichdevice.models.script.look import is_script
from whichdevice.models.script.run import run_watched
from whichdevice.models.script.tensorflow_step import TensorFlowScript, keep_step, kept_step

HEAD = """
import tensorflow as tf
w, steps, epochs = tf.Variable(tf.ones((4, 2))), tf.Variable(0, trainable=False, dtype=tf.int64), 3
data = tf.data.Dataset.from_tensor_slices((tf.ones((64, 4)), tf.ones((64, 2)))).batch(8)
{decorator}
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.matmul(x, w) - y) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    steps.assign_add(1)
    tf.print(loss)
    return loss
"""
STEP = HEAD.format(decorator="@tf.function")
LOOP = "for epoch in range(epochs):\n    for x, y in data:\n        train_step(x, y)\n"
SIGNATURE = "@tf.function(input_signature=[tf.TensorSpec((None, 4)), tf.TensorSpec((None, 2))])"
BLOCKS = """
strategy = tf.distribute.MirroredStrategy(["/gpu:0", "/gpu:1"])
@tf.function
def block(iterator, count):
    for _ in tf.range(count):
        strategy.run(train_step, args=next(iterator))
iterator = iter(strategy.experimental_distribute_dataset(data.repeat()))
for epoch in range(epochs):
    done, loss = 0, 0.0
    while done < 10:
        block(iterator, tf.constant(4))
        done += 4
"""
FORMS = {
    "a tf.function": (STEP + LOOP, 64, 3),
    "a signature": (HEAD.format(decorator=SIGNATURE) + LOOP, 64, 3),
    "a function that is not traced": (HEAD.format(decorator="") + LOOP, 64, 3),
    "an epoch in a tf.function": (
        STEP + "@tf.function\ndef whole(data):\n    for x, y in data:\n        train_step(x, y)\n"
        "for epoch in range(epochs):\n    whole(data)\n",
        64,
        3,
    ),
    "so many batches": (
        STEP + "for step, (x, y) in data.repeat().take(20).enumerate():\n    train_step(x, y)\n",
        8 * 20,
        1,
    ),
    "blocks of steps": (HEAD.format(decorator="") + BLOCKS, 8 * 30, 1),
    "no function": (
        HEAD.format(decorator="")
        + "for epoch in range(epochs):\n    for x, y in data:\n        with tf.GradientTape() as tape:\n"
        "            loss = tf.reduce_mean((tf.matmul(x, w) - y) ** 2)\n"
        "        w.assign_sub(0.1 * tape.gradient(loss, w))\n        print(float(loss))\n",
        64,
        3,
    ),
    "no loop over data": (STEP + "for i in range(50):\n    train_step(tf.ones((8, 4)), tf.ones((8, 2)))\n", 400, 1),
}
REFUSED = {
    HEAD.format(decorator="@tf.function").replace("tf.print(loss)", "tf.py_function(print, [loss], [])") + LOOP: (
        "line 15: XLA does not compile the step: its operation EagerPyFunc: leave that out of it"
    ),
    "import tensorflow as tf\nw = tf.Variable(1.0)\nfor x in tf.data.Dataset.range(3):\n"
    "    with tf.GradientTape() as tape:\n        loss = w * 2\n    w = w - tape.gradient(loss, w)\n": (
        "line 4: its loop trains outside of tf.function: put @tf.function on a function that trains on one batch"
    ),
}


def script_of(text: str, folder: Path) -> TensorFlowScript:
    path = folder / "train.py"
    path.write_text(text)
    script = run_watched(path, [])
    assert isinstance(script, TensorFlowScript)
    return script


@pytest.mark.parametrize("form", FORMS)
def test_a_loop_of_its_own_shows_its_training(form, tmp_path):
    text, examples, epochs = FORMS[form]
    found = script_of(text, tmp_path).found
    assert (found.batch_size, found.examples, found.epochs, found.precision) == (8, examples, epochs, "single")


def test_other_processes_train_as_the_script_does(tmp_path):
    """They read the step, its variables and its batch from a file: TensorFlow and the script take no part."""
    import jax

    keep_step(script_of(STEP + LOOP, tmp_path).step, tmp_path / "kept.json")
    kept = kept_step(tmp_path / "kept.json")
    step, ((train,), _) = kept.model(), kept.data()
    assert [array.shape for array in train.values()] == [(8, 4), (8, 2)]
    trained, held, loss = jax.jit(step.run)(step.trained, step.held, train)
    assert float(loss) == pytest.approx(9.0)
    assert np.asarray(trained[0]) == pytest.approx(np.full((4, 2), 0.7), rel=1e-5)
    assert [int(count) for count in held] == [1]


ADVERSARIES = """
import tensorflow as tf
judge, maker = tf.Variable(tf.ones((4, 1))), tf.Variable(tf.ones((2, 4)))
data = tf.data.Dataset.from_tensor_slices(tf.ones((64, 4))).batch(8)
def loss_of(real):
    return tf.reduce_mean(real @ judge) - tf.reduce_mean(tf.random.normal((8, 2)) @ maker @ judge)
@tf.function
def train_judge(real):
    with tf.GradientTape() as tape:
        loss = loss_of(real)
    judge.assign_sub(0.1 * tape.gradient(loss, judge))
    return loss
@tf.function
def train_maker():
    with tf.GradientTape() as tape:
        loss = -loss_of(tf.ones((8, 4)))
    maker.assign_sub(0.1 * tape.gradient(loss, maker))
    return loss
def both(real):
    return float(train_judge(real)), float(train_maker())
for epoch in range(3):
    for step, real in enumerate(data):
        {body}
"""
BODIES = {  # of its loop: the weights that a step trains, and what trains besides
    "one after the other": ("train_judge(real); train_maker()", 2, ""),
    "in a function": ("both(real)", 2, ""),
    "two for one": ("train_maker(); train_judge(real)\n        train_maker()", 2, ""),
    "at times": ("train_judge(real)\n        if step % 2 == 0:\n            train_maker()", 1, "line 25"),
    "several for one": ("for _ in range(2):\n            train_judge(real)\n        train_maker()", 1, "line 25"),
    "one of the two": ("train_judge(real)", 1, ""),
    "one batch": ("both(real)\n        break\n    break", 2, ""),
    "until it fails": ("train_judge(real)\n        train_maker()\n        unknown", 2, ""),
}


@pytest.mark.parametrize("case", BODIES)
def test_functions_that_train_in_each_turn_of_one_loop_are_one_step(case, tmp_path):
    body, trained, beside = BODIES[case]
    script = script_of(ADVERSARIES.replace("{body}", body), tmp_path)
    assert script.found.batch_size == 8 and len(script.step.trained) == trained
    notes = [note for note in script.found.notes if "not counted" in note]
    assert [note.partition("; ")[2] for note in notes] == [f"what trains in {beside} is not counted."] * bool(beside)


def test_the_joined_step_trains_all_weights(tmp_path):
    import jax

    script = script_of(ADVERSARIES.replace("{body}", "both(real)"), tmp_path)
    keep_step(script.step, tmp_path / "kept.json")
    kept = kept_step(tmp_path / "kept.json")
    step, ((train,), _) = kept.model(), kept.data()
    trained, _, loss = jax.jit(step.run)(step.trained, step.held, train)
    assert all(np.abs(np.asarray(after) - 1).max() > 1e-4 for after in trained) and np.isfinite(float(loss))


def test_lengths_that_vary_are_their_mean(tmp_path):
    text = """
import tensorflow as tf
w = tf.Variable(tf.ones((10, 1)))
rows = tf.data.Dataset.range(64).map(lambda place: tf.range(2 + place // 16 * 2) % 10)
data = rows.padded_batch(16)
@tf.function(reduce_retracing=True)
def train_step(tokens):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.gather(w, tokens) ** 2)
    w.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, w)))
for tokens in data:
    train_step(tokens)
"""
    script = script_of(text, tmp_path)
    assert script.found.notes[0] == "Lengths vary from 2 to 8; steps are of the mean, 5."
    assert [array.shape for array in script.step.batch.values()] == [(16, 5)]


def test_each_gpus_batch_makes_larger_programs(tmp_path):
    text = "batch = 8 * tf.distribute.MirroredStrategy().num_replicas_in_sync\n"
    script = script_of(STEP.replace("@tf.function", text + "@tf.function") + LOOP, tmp_path)
    assert (script.found.batch_size, script.found.keeps, script.found.asks) == (8, "examples", None)
    assert sorted(script.step.texts) == [1, 2, 4, 8]


@pytest.mark.parametrize("text", REFUSED)
def test_what_no_program_is_made_of_is_refused_in_one_line(text, tmp_path):
    with pytest.raises(StudyError, match=REFUSED[text]) as refused:
        script_of(text, tmp_path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["Session", "InteractiveSession"])
def test_a_session_of_tensorflow_1_is_named(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"import tensorflow.compat.v1 as tf\nwith tf.{kind}() as session:\n    session.run(None)\n")
    assert is_script(path)
    with pytest.raises(StudyError, match=r"train\.py, line 2: it trains in a session of TensorFlow 1, whose graph"):
        run_watched(path, [])


@pytest.mark.slow
@pytest.mark.parametrize(("most", "over"), [(2**27, "data.as_numpy_iterator()"), (100, "shuffled()")])
def test_a_large_batch_that_feeds_jax_is_made_once(
    most: int, over: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script goes on with as many batches as before, also where a function of its own gives them."""
    monkeypatch.setattr(watch_tensorflow, "MAX_BATCH", most)
    text = """
import jax, jax.numpy as jnp, tensorflow as tf
data = tf.data.Dataset.range(320).map(lambda place: tf.fill((8,), tf.cast(place, tf.float32)))
data = data.batch(16, drop_remainder=True).map(lambda x: {"x": x}).prefetch(1)
assert len(data) == 20 and data.element_spec["x"].shape == (16, 8)
numbers = [int(batch["x"][0, 0]) for batch in data][:3]
open(f"{numbers}", "w").close()
step = jax.jit(lambda w, x: w - jax.grad(lambda w: (x @ w).mean())(w))
w = jnp.ones((8, 4))
def shuffled():
    return data.shuffle(4)
for epoch in range(3):
    for batch in OVER:
        w = step(w, jnp.asarray(batch["x"]))
"""
    path = tmp_path / "train.py"
    path.write_text(text.replace("OVER", over))
    monkeypatch.chdir(tmp_path)
    found = run_watched(path, []).found
    assert (found.batch_size, found.examples, found.epochs) == (16, 320, 3)
    assert (tmp_path / ("[0, 0, 0]" if most == 100 else "[0, 16, 32]")).exists()
