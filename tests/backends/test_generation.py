"""Mode generate: a cache changes no score, prompt and tokens are timed apart, and other models are refused."""

import pytest
from backends.generation_behaviour import generated
from beside import beside
from needs import require

BESIDE = beside(__file__)

pytestmark = pytest.mark.slow

BATCH, LENGTH = 2, 16
SMALL = {"layers": 2, "width": 16, "heads": 2, "vocabulary": 50}
PARAMETERS = 50 * 16 + LENGTH * 16 + 2 * (12 * 16 * 16 + 13 * 16) + 2 * 16
HUB = BESIDE["hub"]
GPT2 = BESIDE["gpt2"]
LINEAR = BESIDE["linear"]
CLASSIFIER = BESIDE["classifier"]


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("generation")
    (folder / "hub.py").write_text(HUB)
    (folder / "classifier.py").write_text(CLASSIFIER)
    runs = {
        "decoder": {"module": "decoder", "options": SMALL},
        "hub": {"module": str(folder / "hub.py")},
        "classifier": {"module": str(folder / "classifier.py")},
    }
    found = generated(folder, runs, backend="jax", batch_size=BATCH, sequence_length=LENGTH)
    assert [name for name in found if "refused" in found[name]] == ["classifier"], found
    return found


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory) -> dict[str, dict]:
    require("torch")
    folder = tmp_path_factory.mktemp("torch")
    (folder / "gpt2.py").write_text(GPT2)
    (folder / "linear.py").write_text(LINEAR)
    runs = {name: {"module": str(folder / f"{name}.py")} for name in ("gpt2", "linear")}
    return generated(folder, runs, backend="torch", batch_size=BATCH, sequence_length=LENGTH)


def test_a_model_of_hugging_face_generates_with_its_own_cache(hugging_face):
    found = hugging_face["gpt2"]
    assert "refused" not in found, found
    assert found["difference"] < 1e-5
    assert found["generated"]["cache_bytes"] == 2 * 2 * BATCH * LENGTH * 16 * 4
    assert found["steady"]["steps"] > LENGTH  # places are used again
    assert found["steady"]["throughput"] == pytest.approx(BATCH / found["steady"]["step_time"])


def test_another_module_of_pytorch_is_refused_in_one_line(hugging_face):
    assert hugging_face["linear"]["refused"].startswith("linear.py: the model does not generate tokens")


@pytest.mark.parametrize("name", ["decoder", "hub"])
def test_scores_with_a_cache_are_those_of_the_whole_sequence(found, name):
    assert found[name]["difference"] < 1e-5


@pytest.mark.parametrize("name", ["decoder", "hub"])
def test_prompt_and_tokens_are_timed_apart(found, name):
    prompt, steady, facts = found[name]["generated"], found[name]["steady"], found[name]["workload"]
    assert (prompt["prompt"], facts["unit"]) == (LENGTH // 2, "token")
    assert prompt["cache_bytes"] == 2 * 2 * BATCH * LENGTH * 16 * 4  # keys and values, layers, float32
    assert steady["throughput"] == pytest.approx(BATCH * steady["steps"] / steady["seconds"])
    first = prompt["prefill"]
    assert first["throughput"] == pytest.approx(BATCH * LENGTH // 2 * first["steps"] / first["seconds"])


def test_a_model_that_generates_nothing_is_refused_in_one_line(found):
    assert found["classifier"]["refused"].startswith("classifier.py: the model does not generate tokens: mode generate")
