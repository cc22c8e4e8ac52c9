"""The explorer: Python's answers from kept steps, which are those that `ask` traces, and a page that filters them."""

import html
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from browser import started_browser, watched_page
from needs import require

from whichdevice.__main__ import main
from whichdevice.apps.explorer.answers import default_answer, record_for, targets, without
from whichdevice.apps.explorer.steps import KnownModel, known_models
from whichdevice.apps.questions.serving import ServingQuestion, ask_serving
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide import words
from whichdevice.forecast import tpu
from whichdevice.forecast.counting import count_steps
from whichdevice.forecast.serving.forecast import Load
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Work
from whichdevice.models.served import served_model

LLAMA, QWEN, GPT2 = "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "openai-community/gpt2"
MIXED, HALF = "mixed 16 bits", "16-bit weights"
NAMED = ("resnet50", LLAMA, GPT2, "mnist_cnn")


@pytest.fixture(scope="module")
def models() -> dict[str, KnownModel]:
    return known_models()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of some models, as the command writes it."""
    file = tmp_path_factory.mktemp("explorer") / "explorer.html"
    named = [part for name in NAMED for part in ("--model", name)]
    assert main(["explorer", "--html", str(file), *named]) == 0
    return file


@pytest.fixture
def opened(page_file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page in a window of the test's width; a complaint of the browser fails the test."""
    require("browser")
    with started_browser() as browser, watched_page(browser, request.param) as (page, _):
        page.goto(page_file.as_uri())
        yield page


@pytest.mark.slow
def test_the_page_has_pythons_answer_for_each_model_and_a_row_for_each_device(models, page_file) -> None:
    text, devices, sheet = html.unescape(page_file.read_text(encoding="utf-8")), targets(), hardware_rows()
    for name in (GPT2, "mnist_cnn"):
        _, answer = default_answer(models[name], devices, sheet)
        rows = re.findall(f'<tr data-model="{name}"([^>]*)><th scope="row">{name}</th><td>(.*?)</td>', text)
        assert all(line in text for line in (*words.lines(answer), *words.notes(answer)))
        assert [device for _, device in rows] == [option.device for option in answer.choices]
        assert [device for facts, device in rows if "pick" in facts] == [answer.pick.device]
    served = ask_serving(ServingQuestion(served_model(LLAMA), Load(5, 1000, 300, 2.0, 0.1), here=False))
    assert all(line in text for line in words.lines(served))


def test_the_default_is_the_first_training_that_a_device_can_do(models: dict[str, KnownModel]) -> None:
    sheet, devices = hardware_rows(), [find_target(name) for name in ("T4", "A100 SXM 80GB", "B300 SXM")]
    trainings = {"resnet50": MIXED, LLAMA: HALF, "meta-llama/Llama-3.1-70B": "LoRA"}
    assert {name: default_answer(models[name], devices, sheet)[0] for name in trainings} == trainings


@pytest.mark.slow
@pytest.mark.parametrize("opened", [1280, 390], indirect=True)
def test_a_reader_filters_by_model_kind_and_words(opened: Any) -> None:
    shown = "tbody tr:visible"
    assert set(opened.locator(f"{shown} th").all_inner_texts()) == {"resnet50"}
    assert opened.locator("details[open]").count() == opened.locator("details:visible").count() == 1
    opened.select_option("[name=kind]", "tpu")
    assert all("TPU" in row for row in opened.locator(shown).all_inner_texts())
    opened.select_option("[name=model]", "")
    opened.select_option("[name=kind]", "")
    opened.fill("[name=text]", "llama h100 sxm")
    [row] = opened.locator(shown).all_inner_texts()
    assert LLAMA in row and "H100 SXM" in row and opened.locator("details[open]").count() == 0
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "how", "option"), [(GPT2, MIXED, {}), (QWEN, "LoRA", {"method": "lora"})])
def test_a_kept_step_is_the_one_that_ask_traces(models: dict[str, KnownModel], name, how, option) -> None:
    from whichdevice.forecast.torch.records import Traced

    model = models[name]
    for device in ("T4", "H100 SXM", *(["TPU v5e"] if name == GPT2 else [])):
        target = find_target(device)
        kept = record_for(model, how, 8, target)
        asked = kept.asked.model_copy(
            update={"module": f"hf:{name}", "options": option, "sequence_length": model.tokens}
        )
        _, _, facts, work = Traced(asked).record(asked, target)
        assert kept.facts.memory_needed == pytest.approx(facts.memory_needed, rel=1e-4)
        assert kept.facts.memory_tight == facts.memory_tight
        of_kept, of_traced = (forecast_step(step, target.row) for step in (Work.from_dict(kept.work), work))
        assert of_kept.device_time == pytest.approx(of_traced.device_time, rel=1e-4)


@pytest.mark.slow
def test_a_kept_count_is_the_one_that_ask_makes(models, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)  # nothing that is kept from before
    name, target = "mnist_official", find_target("T4")
    kept = record_for(models[name], MIXED, 128, target)
    [asked] = count_steps([kept.asked], waits=False)
    assert kept.facts.memory_needed == pytest.approx(asked.facts.memory_needed, rel=1e-4)
    of_kept, of_counted = (forecast_step(Work.from_dict(record.work), target.row) for record in (kept, asked))
    assert of_kept.device_time == pytest.approx(of_counted.device_time, rel=1e-4)


def test_tpus_are_among_the_devices(models: dict[str, KnownModel]) -> None:
    """Whatever the sheet has and one can have alone, wherever a step of it was kept."""
    assert {"GTX 1080 Ti", "MI300X", "TPU v5e", "TPU v6e"} <= {target.device for target in targets()}
    for name, batch in ((GPT2, 8), ("mnist_official", 128)):
        record = record_for(models[name], MIXED, batch, find_target("TPU v5e"))
        assert record is not None and record.status == "ok" and record.work["platform"] == "tpu", name


def test_a_device_without_a_row_is_named_with_why(models: dict[str, KnownModel]) -> None:
    some = [find_target(name) for name in ("TPU v5e", "T4", "P40", "A100 SXM 80GB", "MI300X")]
    for name in (LLAMA, GPT2, "dla60", "mnist_official"):
        model = models[name]
        for training, target in product(model.steps, some):
            record = record_for(model, training, model.batches[0], target)
            assert (record is None) == bool(without(model, training, target)), (name, training, target.device)
    on_tpu = find_target("TPU v5e")
    assert without(models[GPT2], "QLoRA (4-bit weights)", on_tpu) == tpu.NO_4_BITS
    assert without(models["mnist_official"], MIXED, on_tpu) is without(models[GPT2], MIXED, on_tpu) is None
    assert [name for name, model in models.items() if without(model, next(iter(model.steps)), on_tpu)] == []


def test_it_has_eighty_models(models: dict[str, KnownModel]) -> None:
    assert len(models) >= 80 and sum(model.library == "keras" for model in models.values()) == 7


@pytest.mark.slow
def test_the_page_stays_small(page_file: Path) -> None:
    assert page_file.stat().st_size < 4.5e4 * (len(NAMED) + 1)
