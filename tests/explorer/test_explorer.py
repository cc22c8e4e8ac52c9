"""The explorer in a real browser: its answers are those of Python, for the same traced steps on a typical host."""

import random
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from browser import started_browser, watched_page
from needs import require

from whichdevice.__main__ import main
from whichdevice.apps.explorer.answers import answer_for, record_for, targets, without
from whichdevice.apps.explorer.steps import KnownModel, known_models
from whichdevice.apps.questions.serving import ServingQuestion, ask_serving
from whichdevice.base.numbers import time_words
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide import Answer, Option, Wants, serving_words, words
from whichdevice.decide.words import fits_words, known_words, why_words
from whichdevice.forecast import tpu
from whichdevice.forecast.serving.forecast import Load
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Work
from whichdevice.forecast.xla.compile import compile_programs
from whichdevice.models.served import served_model

LLAMA, QWEN, BERT, GPT2 = (
    "meta-llama/Llama-3.1-8B", "Qwen/Qwen2.5-0.5B", "google-bert/bert-base-uncased", "openai-community/gpt2",
)  # fmt: skip
UNET, MIXED, HALF = "diffusion U-Net, 64 x 64 latents", "mixed 16 bits", "16-bit weights"
SINGLE = "TF32 or float32"
ASKED = [
    ("resnet50", MIXED, 128), ("resnet50", SINGLE, 256), ("resnet18", MIXED, 32), (UNET, MIXED, 32), (LLAMA, HALF, 8),
    (LLAMA, "LoRA", 8), (LLAMA, "QLoRA (4-bit weights)", 1), (QWEN, "LoRA", 32), (BERT, SINGLE, 32), (GPT2, MIXED, 128),
    ("mnist_cnn", MIXED, 1024), ("fashion_cnn", SINGLE, 128),  # which XLA compiles
]  # fmt: skip


@pytest.fixture(scope="module")
def models() -> dict[str, KnownModel]:
    return known_models()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the models that are asked about, as the command writes it."""
    file = tmp_path_factory.mktemp("explorer") / "explorer.html"
    named = [part for name, *_ in ASKED for part in ("--model", name)]
    assert main(["explorer", "--html", str(file), *named]) == 0
    return file


@pytest.fixture
def opened(page_file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page at an address and width; a complaint of the browser fails the test."""
    require("browser")
    width, address = getattr(request, "param", (1280, ""))
    with started_browser() as browser, watched_page(browser, width) as (page, _):
        page.goto(f"{page_file.as_uri()}#{address}")
        yield page


@pytest.mark.slow
def test_the_table_begins_short_and_has_the_devices_that_people_ask_about(opened: Any) -> None:
    """The first twelve by cost were all: no H100, no A100, no TPU."""
    visible = "tbody tr:visible th"
    shown = opened.locator(visible).all_inner_texts()
    assert {"T4", "RTX 4090", "A100 SXM 80GB", "H100 SXM", "TPU v5e"} <= set(shown) and 12 < len(shown) < 26
    opened.fill("input[name=units]", "5000000")
    assert "H100 SXM" in opened.locator(visible).all_inner_texts()
    opened.check("input[name=every]")
    assert opened.locator(visible).count() > 60


@pytest.mark.slow
def test_these_answers_are_those_of_python(opened: Any, models: dict[str, KnownModel]) -> None:
    chance, devices, sheet = random.Random(3), targets(), hardware_rows()
    for name, how, batch in ASKED:
        wants = Wants(
            examples=round(10 ** chance.uniform(4, 8)), by=chance.choice(["cost", "time"]),
            deadline=chance.choice([6, 24, 240]) * 3600.0, budget=chance.choice([None, 20.0]),
        )  # fmt: skip
        expected = answer_for(models[name], how, batch, devices, sheet, wants)
        amount = words.amount_words(expected)
        asked = {"units": wants.examples, "words": amount, "by": wants.by, "deadline": wants.deadline,
                 "budget": wants.budget, "only_free": False, "spot": False, "hour_usd": 0}  # fmt: skip
        page = opened.evaluate(
            """async ([name, how, batch, asked]) => {
                const data = (await explorer).dataOf(name, how, batch), answer = decision.decide(data, asked);
                const { pick } = answer, lines = sentences.lines(data, asked, answer);
                return { pick: pick && [pick.row.device, pick.seconds, pick.usd, pick.sure], lines,
                         cells: answer.options.map((option) => sentences.cells(option, data, answer)) };
            }""",
            [name, how, batch, asked],
        )  # fmt: skip
        shown = {device: (fits, known) for device, fits, *_, known in page["cells"]}
        rows = {option.device: (fits_words(option.row), _source(option, expected)) for option in expected.options}
        assert shown == {device: rows[device] for device in shown}, (name, how)
        assert {option.device for option in expected.options if option.seconds} <= set(shown), (name, how)
        if expected.pick is not None:
            device, *numbers = page["pick"]
            assert device == expected.pick.device, (name, how)
            assert numbers == pytest.approx([expected.pick.seconds, expected.pick.usd, expected.pick.sure], rel=2e-3)
            assert page["lines"][0] == words.lines(expected)[0], (name, how)


def _source(option: Option, answer: Answer) -> str:
    if option.ruled_out is None and answer.by == "cost" and not option.timely:
        return words.say("ends_late", time=time_words(answer.wants.deadline))
    return known_words(option) if option.ruled_out is None else why_words(option.ruled_out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "opened", [(390, "model=meta-llama%2FLlama-3.1-8B&how=LoRA&batch=8&of=tokens&units=1000000000")], indirect=True
)
def test_an_address_brings_a_phone_to_the_same_choice_and_a_keyboard_changes_it(opened: Any) -> None:
    assert "Llama-3.1-8B · 1,000,000,000 tokens · batch 8" in opened.inner_text("[data-title]")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    before = opened.inner_text("[data-decision]")
    opened.focus("select[name=how]")
    opened.keyboard.press("ArrowDown")
    assert "QLoRA" in opened.url and opened.inner_text("[data-decision]") != before
    opened.focus("select[name=model]")
    opened.select_option("select[name=model]", "resnet18")  # which takes no adapters
    assert opened.input_value("select[name=how]") == MIXED


@pytest.mark.slow
@pytest.mark.parametrize("opened", [(1280, f"model={LLAMA}&use=serving"), (390, f"model={LLAMA}")], indirect=True)
def test_a_switch_shows_what_serves_a_language_model(opened: Any) -> None:
    if opened.input_value("select[name=use]") == "training":
        heads = opened.locator("thead th").all_inner_texts()
        opened.select_option("select[name=use]", "serving")
    else:
        heads = []
    answer = ask_serving(ServingQuestion(served_model(LLAMA), Load(5, 1000, 300, 2.0, 0.1), here=False))
    assert opened.inner_text("[data-decision]") == serving_words.decision(answer)
    rows = [row for _, row in serving_words.cells(answer)]
    assert opened.locator("tbody th").all_inner_texts() == [row[0] for row in rows]
    assert opened.locator("tbody tr:first-child td").all_inner_texts() == rows[0][1:]
    assert opened.locator(".notes li").all_inner_texts() == serving_words.notes(answer)
    assert opened.is_hidden("select[name=how]") and opened.is_hidden("svg.chart") and "use=serving" in opened.url
    assert opened.evaluate("document.documentElement.scrollWidth") <= opened.viewport_size["width"]
    opened.select_option("select[name=model]", GPT2)  # whose context is shorter than the requests
    assert opened.input_value("select[name=use]") == "training" and opened.is_visible("select[name=how]")
    assert opened.locator("thead th").all_inner_texts()[: len(heads)] == heads


@pytest.mark.slow
@pytest.mark.parametrize("opened", [(1280, "model=nonsense&how=LoRA")], indirect=True)
def test_what_is_not_there_is_named_and_notes_follow_the_choice(opened: Any, models: dict[str, KnownModel]) -> None:
    assert opened.inner_text(".missing").startswith(
        "Not on this page: model nonsense, how LoRA. What follows is of resnet50"
    )
    opened.select_option("select[name=model]", LLAMA)
    assert opened.is_hidden(".missing")
    how, batch = opened.input_value("select[name=how]"), int(opened.input_value("select[name=batch]"))
    answer = answer_for(models[LLAMA], how, batch, targets(), hardware_rows())
    notes = opened.locator(".notes li").all_inner_texts()
    missing = [note for note in notes if note.startswith("No rows of ")]  # a line for each reason
    assert [note for note in notes if note not in missing] == words.lasting_notes(answer)
    assert missing and missing[0].startswith("No rows of P100 PCIe, ")


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "how", "option"), [(GPT2, MIXED, {}), (QWEN, "LoRA", {"method": "lora"})])
def test_a_kept_step_is_the_one_that_ask_traces(models: dict[str, KnownModel], name, how, option) -> None:
    from whichdevice.forecast.torch.records import Traced

    model = models[name]
    for device in ("T4", "RTX 4090", "H100 SXM", *(["TPU v5e"] if name == GPT2 else [])):
        target = find_target(device)
        kept = record_for(model, how, 8, target)
        asked = kept.asked.model_copy(
            update={"module": f"hf:{name}", "options": option, "sequence_length": model.tokens}
        )
        _, _, facts, work = Traced(asked).record(asked, target)
        assert kept.facts.memory_needed == pytest.approx(facts.memory_needed, rel=1e-4)
        of_kept, of_traced = (forecast_step(step, target.row) for step in (Work.from_dict(kept.work), work))
        assert of_kept.device_time == pytest.approx(of_traced.device_time, rel=1e-4)


@pytest.mark.slow
def test_a_kept_program_is_the_one_that_ask_compiles(
    models: dict[str, KnownModel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing that is kept from before
    name, target = "mnist_official", find_target("T4")
    kept = record_for(models[name], MIXED, 128, target)
    [asked] = compile_programs([kept.asked], waits=False)
    assert kept.facts.memory_needed == pytest.approx(asked.facts.memory_needed, rel=1e-4)
    of_kept, of_compiled = (forecast_step(Work.from_dict(record.work), target.row) for record in (kept, asked))
    assert of_kept.device_time == pytest.approx(of_compiled.device_time, rel=1e-4)


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


@pytest.mark.slow
def test_it_has_eighty_models_and_stays_small(models: dict[str, KnownModel], page_file: Path) -> None:
    choices = {name: len(model.steps) * len(model.batches) for name, model in models.items()}
    written = sum(choices[name] for name in {"resnet50", *(name for name, *_ in ASKED)})
    assert len(models) >= 80 and sum(model.library == "keras" for model in models.values()) == 7
    page = page_file.read_text(encoding="utf-8")
    shared = len(re.sub(r"[A-Za-z0-9+/=]{5000,}", "", page))  # without the packed choices
    assert shared < 2e5
    assert shared + (len(page) - shared) * sum(choices.values()) / written < 3e6, "what choices share counts for each"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "resnet5O"], "explorer: no model 'resnet5O'; nearest: "),
        (["--html", "nowhere/page.html"], "--html nowhere/page.html: no folder "),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explorer", *arguments]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(message) and complaint.count("\n") == 1
