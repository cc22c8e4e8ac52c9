"""Scripts of Keras, TensorFlow and JAX show their training and the programs of a step: tests/scripts/expected.yaml."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.forecast.count.kept import StepCount
from whichdevice.forecast.count.recorded import step_of_batch
from whichdevice.forecast.work import Work
from whichdevice.models.address import read_address
from whichdevice.models.script.look import known, probe, recording, seconds_here
from whichdevice.models.script.programs import rows_of
from whichdevice.models.script.text import is_script

SCRIPTS = Path(__file__).parents[1] / "scripts"
BESIDE = beside(__file__)
EXPECTED = yaml.safe_load((SCRIPTS / "expected.yaml").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True, scope="module")
def in_one_folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each script is run once: later tests know what it showed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("scripts"))
        patch.setenv("KERAS_BACKEND", "tensorflow")
        yield


def count_of(name: str) -> StepCount:
    return StepCount.model_validate(recording(read_address(f"{SCRIPTS}/{name}.py"))[1]["count"])


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_script_shows_its_training_and_its_step(name: str) -> None:
    address, expected = read_address(f"{SCRIPTS}/{name}.py"), EXPECTED[name]
    assert is_script(SCRIPTS / f"{name}.py")
    found = probe(address)
    assert found == known(address)
    assert [found.framework, found.batch_size, found.examples, found.epochs] == expected["shows"]
    assert (found.precision, found.keeps) == (expected.get("precision", "single"), expected.get("keeps", "batch"))
    assert expected.get("unknown", "") in (found.unknown or "") and bool(found.unknown) == ("unknown" in expected)
    assert expected.get("note", "") in " ".join(found.notes)
    assert len(found.evaluations) == expected.get("evaluations", 0)
    assert bool(found.pipeline) or not expected.get("pipeline")
    count = count_of(name)
    assert [one.batch for one in count.sizes] == [found.batch_size, 2 * found.batch_size][: expected.get("sizes", 2)]
    operations = Work.from_dict(count.sizes[0].gpu).operations
    assert operations == pytest.approx(expected.get("operations", operations), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "why"), BESIDE["refused"])
def test_what_does_not_train_or_fails_is_refused_in_one_line(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(text)
    with pytest.raises(StudyError, match=why) as refused:
        probe(read_address(str(path)))
    assert str(refused.value).startswith("train.py") and "\n" not in str(refused.value)


@pytest.mark.slow
def test_an_error_after_a_period_leaves_the_answer(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    step = "step = jax.jit(jax.grad(lambda w: (w * w).sum()))"
    path.write_text(f"import jax\nw = jax.numpy.ones(3)\n{step}\nfor it in range(2):\n    w -= step(w)\nw.absent\n")
    found = probe(read_address(str(path)))
    assert (found.examples, found.unit, found.line) == (2, "step", 5)


@pytest.mark.parametrize(("arguments", "named", "rows"), BESIDE["rows of a batch"])
def test_the_examples_of_a_batch_are_a_length_that_its_arrays_share(arguments, named, rows) -> None:
    assert rows_of(arguments, named) == rows


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jax_state", "keras_fit", "tensorflow_function"])
def test_a_script_is_timed_where_it_trains_for_some_steps(name: str) -> None:
    address = read_address(f"{SCRIPTS}/{name}.py")
    if known(address) is None:
        probe(address)
    assert 0 < seconds_here(address) < 5


def count(*sizes: tuple[int, float]) -> StepCount:
    def one(batch: int, operations: float) -> dict[str, Any]:
        items = [["product", "tf32", operations / 2, 8.0, 2, None, 1], ["memory", "", 0.0, 4.0 * batch, 3, None, 1]]
        work = {"platform": "gpu", "items": items, "unknown_loops": 0, "unknown_calls": 0}
        return {"batch": batch, "gpu": work, "tpu": work, "lasting": 100.0 + batch, "temporary": 10.0 * batch}

    sizes_ = [one(*size) for size in sizes]
    return StepCount.model_validate({"sizes": sizes_, "weights": 1, "optimizer": 2, "gradients": 1, "arrays": 3})


def test_another_batch_lies_on_the_line_through_two() -> None:
    made = step_of_batch(count((8, 900.0), (16, 1700.0)), 4, half=False)
    assert [one.batch for one in made.sizes] == [4, 8] and made.units == 4
    work = Work.from_dict(made.sizes[0].gpu)
    assert work.operations == pytest.approx(500) and made.sizes[0].memory == pytest.approx(144)
    assert {item.precision for item in work.items if item.operations} == {"float32"}
    assert Work.from_dict(made.sizes[0].gpu).bytes == pytest.approx(16.0 + 48.0)


def test_a_step_of_one_batch_says_so() -> None:
    assert step_of_batch(count((8, 900.0)), 8, half=True).sizes[0].batch == 8
    with pytest.raises(StudyError, match="its step is of 8 examples alone"):
        step_of_batch(count((8, 900.0)), 4, half=False)
