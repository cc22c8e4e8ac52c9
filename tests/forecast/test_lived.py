"""Trainings as people lived them: reports with their sources, and hours of scripts that have what they show."""

import math
from dataclasses import replace

import pytest
from fit import lived

from whichdevice.answer import Amount, Wants, Work, facts
from whichdevice.answer.decide import Answer, decide
from whichdevice.answer.rows import FORECAST, MEASURED, Row
from whichdevice.answer.words import lasting_notes
from whichdevice.forecast.lived import Habits, read_habits, reads_each_step

HABITS = Habits(factor=1.25, kernel=-0.5, reads=1.2, log_sd=0.4, reports=100, sources=50)
STEPS = Amount(1e7)
CARD = Row(
    "L4", "gpu", FORECAST, software="eager", chip="L4", step_time=0.1, device_time=0.1, log_sd_shared=0.1,
    log_sd_own=0.05, fits=True, rented=True, usd_per_hour=1.0, start_time=0.0, kernels=500.0,
)  # fmt: skip
HERE = Row("here", "cpu", MEASURED, chip="here", step_time=2.0, log_sd_own=0.01, fits=True, usd_per_hour=0.1)


def answer(*rows: Row, habits: Habits | None = HABITS) -> Answer:
    """The answer for a training of a hundred thousand steps of a hundred images."""
    work = Work("net", "net.py", "train", 100, None, "image", 100.0, None, None, rows, lived=habits)
    return decide(work, Wants(deadline=1e9), STEPS)


def test_every_report_has_a_source_and_a_device_of_the_sheet() -> None:
    lines = lived.published()
    assert len(lines) >= 80 and len({line.group for line in lines}) >= 50
    assert len({line.id for line in lines}) == len(lines)
    assert all(line.where and line.seconds > 0 and line.steps > 0 for line in lines)


def test_most_reports_stand_beside_the_clean_forecast_of_their_step() -> None:
    rows = lived.beside()
    assert len(rows) >= 80 and len({row.line.group for row in rows}) >= 50
    assert all(row.clean > 0 for row in rows)


def test_the_habits_are_those_of_the_reports() -> None:
    habits, rows = read_habits(), lived.beside()
    assert habits.reports == len(rows) and habits.sources == len({row.line.group for row in rows})
    assert habits.factor > 1 and habits.kernel < 0 and habits.reads > 1 and 0 < habits.log_sd < 1


def test_a_source_that_is_left_out_is_mostly_inside_the_interval_that_the_others_state() -> None:
    reports = lived.Reports(lived.beside())
    scores = {name: lived.LeftOut.of(reports, model).score() for name, model in lived.MODELS.items()}
    best = next(iter(scores.values()))
    assert best["median"] <= 0.35 and 0.7 <= best["held"] <= 0.9
    assert best["median"] < scores["naive: the clean step"]["median"]


def test_hours_of_a_script_are_lived_hours_and_wider() -> None:
    clean, real = (answer(CARD, habits=habits).options[0] for habits in (None, HABITS))
    assert clean.seconds and clean.seconds_high and real.seconds and real.seconds_high
    assert real.seconds == pytest.approx(1.5 * clean.seconds, rel=0.05)
    assert real.seconds_high / real.seconds > clean.seconds_high / clean.seconds
    assert real.row.step_time == clean.row.step_time  # the table of steps has the clean one


def test_steps_of_short_kernels_and_of_losses_that_are_read_take_longer() -> None:
    assert HABITS.times(0.1, 500) == pytest.approx(1.5)  # 200 µs each, and each step reads its loss
    assert HABITS.times(0.1, 2000) == pytest.approx(3.0)
    assert HABITS.times(0.1, 500, reads=False) == pytest.approx(1.25)
    assert HABITS.times(10.0, 500) == 1.0  # a lived step holds the clean one
    short = replace(CARD, kernels=2000.0)
    clean, real = (answer(short, habits=habits).options[0].seconds for habits in (None, HABITS))
    assert clean and real and real == pytest.approx(3 * clean, rel=0.05)


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("total += loss.item()", True),
        ("if step % 50 == 0: print(loss.item())", False),
        ("bar.set_postfix(loss=loss)", True),
        ("pass", False),
    ],
)
def test_a_script_shows_whether_each_step_reads_its_loss(line: str, reads: bool) -> None:
    loop = f"for epoch in range(3):\n for step, x in enumerate(data):\n  loss = net(x)\n  loss.backward()\n  {line}\n"
    assert reads_each_step(f"{loop} print(epoch, total.item())\n") is reads


@pytest.mark.parametrize("reads", [True, False])
def test_a_step_in_a_function_of_its_own_shows_it(reads: bool) -> None:
    step = f"def train(x):\n loss = net(x)\n loss.backward()\n return loss{'.item()' if reads else ''}\n"
    loops = "def epoch():\n for x in data:\n  train(x)\nfor _ in range(3):\n epoch()\n print(net(data).item())\n"
    assert reads_each_step(step + loops) is reads


JAX_LOOP = """
def note(value):
    values.append(float(value))
grad_fn = jax.value_and_grad(loss_fn)
def update(state, batch):
    loss, grads = grad_fn(state.params, batch)
    return state.apply_gradients(grads=grads), loss
step = jax.jit(update)
def epoch(state, losses):
    for number, batch in enumerate(data):
        state, loss = step(state, jnp.asarray(batch).astype(float))
        {line}
for _ in range(3):
    epoch(state, [])
    print(float(loss_fn(state.params, test)))
"""
TAPE_LOOP = """
def note(value):
    values.append(float(value))
@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x))
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return loss
for number, (x, y) in enumerate(data):
    loss = step(x, y)
    {line}
"""


@pytest.mark.parametrize("loop", [JAX_LOOP, TAPE_LOOP])
@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("total += float(loss)", True),
        ("losses.append(loss)", False),
        ("if number % 100 == 0: print(float(loss))", False),
        ("losses.append(loss.numpy())", True),
        ("loss.block_until_ready()", True),
        ("best = float('inf')", False),
        ("rate = 0.1 * float(number) / 1000", False),
        ("rate = float(options['rate']) * 0.9 ** float(number)", False),
        ("mean = 0.9 * loss; sums = {key: float(value) for key, value in {'loss': mean}.items()}", True),
        ("note(loss)", True),
    ],
)
def test_a_jitted_step_or_one_of_a_tape_shows_it_too(loop: str, line: str, reads: bool) -> None:
    assert reads_each_step(loop.format(line=line)) is reads


def test_keras_reads_the_loss_of_each_batch_that_it_trains_on() -> None:
    assert reads_each_step("for x, y in data:\n loss = model.train_on_batch(x, y)\n") is True


def test_a_script_without_a_loop_of_its_own_does_not_show_it() -> None:
    assert reads_each_step("trainer.fit(model)") is None and reads_each_step("not Python") is None


def test_lived_hours_leave_nothing_out() -> None:
    left_out = "Not included: loading data, validation."
    assert left_out in lasting_notes(answer(CARD, habits=None)) and left_out not in lasting_notes(answer(CARD))


def test_what_was_measured_here_is_left_as_it_is() -> None:
    clean, real = (answer(HERE, CARD, habits=habits).here for habits in (None, HABITS))
    assert clean and real and clean.seconds == real.seconds


def test_a_note_and_a_fact_say_how_much_longer_a_script_takes() -> None:
    step = facts.lived(answer(CARD))
    assert step is not None and step.card == "L4" and step.times == pytest.approx(1.5)
    assert step.high / step.low == pytest.approx(math.exp(2 * 1.2816 * 0.4))
    assert facts.as_dict(answer(CARD))["lived_step"]["times"] == pytest.approx(1.5)
    assert (
        "As scripts like this run: 1.5 times the clean step (0.9 to 2.5 in 8 of 10); "
        "read the loss each 50 steps: 1.2 times." in lasting_notes(answer(CARD))
    )
    assert facts.lived(answer(CARD, habits=None)) is None


def test_a_rough_time_has_its_interval_in_that_note() -> None:
    step = facts.lived(answer(replace(CARD, rough=True, log_sd_own=0.9)))
    [note] = [line for line in lasting_notes(answer(replace(CARD, rough=True, log_sd_own=0.9))) if "scripts" in line]
    assert step is not None and step.whole is not None and step.whole[1] > 5 * step.whole[0]
    assert note.endswith(" On L4 the whole takes 1.2–15 h in 8 of 10 cases.")
    assert (exact := facts.lived(answer(CARD))) is not None and exact.whole is None


def test_what_reads_its_loss_seldom_takes_no_less_than_a_clean_step() -> None:
    long = replace(CARD, step_time=4.0, device_time=4.0)
    assert "clean step (0.6 to 1.7 in 8 of 10); read the loss each 50 steps: 1.0 times." in " ".join(
        lasting_notes(answer(long))
    )
