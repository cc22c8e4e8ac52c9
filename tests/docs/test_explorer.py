"""The explorer in a real browser: its answers are those of Python, for the same traced steps on a typical host."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from needs import BROWSER, require
from playwright.sync_api import sync_playwright

from whichdevice.answer import Wants, words
from whichdevice.config.hardware import hardware_rows
from whichdevice.forecast.targets import all_targets, find_target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Work
from whichdevice.forecast.xla.compile import compile_programs

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
def explorer(project_root: Path) -> Iterator[ModuleType]:
    sys.path.insert(0, str(project_root / "docs"))
    import explorer

    yield explorer
    sys.path.remove(str(project_root / "docs"))


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory, explorer: ModuleType) -> Path:
    file = tmp_path_factory.mktemp("explorer") / "explorer.html"
    explorer.write_page(file, [name for name, *_ in ASKED])
    return file


@pytest.fixture
def opened(page_file: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The page at an address and width; a complaint of the browser fails the test."""
    require("browser")
    width, address = getattr(request, "param", (1280, ""))
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page, complaints = browser.new_page(viewport={"width": width, "height": 900}), []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{page_file.as_uri()}#{address}")
        yield page
        browser.close()
    assert not complaints


@pytest.mark.slow
def test_these_answers_are_those_of_python(opened: Any, explorer: ModuleType) -> None:
    chance, steps, targets, sheet = random.Random(3), explorer.read_steps(), all_targets(1, "eager"), hardware_rows()
    for name, how, batch in ASKED:
        wants = Wants(
            examples=round(10 ** chance.uniform(4, 8)), by=chance.choice(["cost", "time"]),
            deadline=chance.choice([6, 24, 240]) * 3600.0, budget=chance.choice([None, 20.0]),
        )  # fmt: skip
        own = explorer.decided(name, steps[name], how, batch, targets, sheet, wants)
        asked = {"units": wants.examples, "words": own.amount.words, "by": wants.by, "deadline": wants.deadline,
                 "budget": wants.budget, "onlyFree": False, "spot": False, "hourUsd": 0}  # fmt: skip
        found = opened.evaluate(
            """([name, how, batch, asked]) => {
                const data = explorer.dataOf(name, how, batch), found = whichdevice.decide(data, asked);
                const pick = found.pick, lines = whichdevice.lines(data, asked, found);
                return { pick: pick && [pick.row.device, pick.seconds, pick.usd, pick.sure], lines,
                         out: found.options.map((each) => [each.row.device, each.ruled_out, each.row.fits]) };
            }""",
            [name, how, batch, asked],
        )  # fmt: skip
        rows = {option.device: option for option in own.options}
        assert {device: why for device, why, _ in found["out"]} == {each: rows[each].ruled_out for each in rows}, name
        if own.pick is not None:
            device, *numbers = found["pick"]
            assert device == own.pick.device, (name, how)
            assert numbers == pytest.approx([own.pick.seconds, own.pick.usd, own.pick.sure], rel=2e-3, abs=0.01)
            assert found["lines"][0] == own.words[0], (name, how)


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
@pytest.mark.parametrize("opened", [(1280, "model=nonsense&how=LoRA")], indirect=True)
def test_what_is_not_there_is_named_and_notes_follow_the_choice(opened: Any, explorer: ModuleType) -> None:
    assert opened.inner_text(".missing").startswith(
        "Not on this page: model nonsense, how LoRA. What follows is of resnet50"
    )
    opened.select_option("select[name=model]", LLAMA)
    assert opened.is_hidden(".missing")
    how, batch = opened.input_value("select[name=how]"), int(opened.input_value("select[name=batch]"))
    own = explorer.decided(LLAMA, explorer.read_steps()[LLAMA], how, batch, all_targets(1, "eager"), hardware_rows())
    assert opened.locator(".notes li").all_inner_texts() == words.lasting_notes(own)


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.parametrize(("name", "how", "option"), [(GPT2, MIXED, {}), (QWEN, "LoRA", {"method": "lora"})])
def test_a_committed_step_is_the_one_that_ask_traces(explorer: ModuleType, name, how, option) -> None:
    from whichdevice.forecast.torch.records import Traced

    model = explorer.read_steps()[name]
    for device in ("T4", "RTX 4090", "H100 SXM"):
        target = find_target(device)
        mine = explorer.record(name, model, how, 8, target)
        asked = mine.asked.model_copy(
            update={"module": f"hf:{name}", "options": option, "sequence_length": model["tokens"]}
        )
        _, _, facts, work = Traced(asked).record(asked, target)
        assert mine.facts.memory_needed == pytest.approx(facts.memory_needed, rel=1e-4)
        own, traced = (forecast_step(each, target.row) for each in (Work.from_dict(mine.work), work))
        assert own.device_time == pytest.approx(traced.device_time, rel=1e-4)


@pytest.mark.slow
def test_a_committed_program_is_the_one_that_ask_compiles(
    explorer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing that is kept from before
    name, target = "mnist_official", find_target("T4")
    mine = explorer.record(name, explorer.read_steps()[name], MIXED, 128, target)
    [asked] = compile_programs([mine.asked], waits=False)
    assert mine.facts.memory_needed == pytest.approx(asked.facts.memory_needed, rel=1e-4)
    own, compiled = (forecast_step(Work.from_dict(each.work), target.row) for each in (mine, asked))
    assert own.device_time == pytest.approx(compiled.device_time, rel=1e-4)


def test_it_has_eighty_models_and_stays_small(explorer: ModuleType, page_file: Path) -> None:
    steps = explorer.read_steps()
    choices = {name: len(model["steps"]) * len(explorer.batches(name, model)) for name, model in steps.items()}
    tested = {name: choices[name] for name, *_ in ASKED}
    assert len(steps) >= 80 and set(explorer.KERAS) <= set(steps)
    text = page_file.read_text(encoding="utf-8")
    own = text.rpartition('"models":')[2].partition("</script>")[0]
    assert len(text) + len(own) * (sum(choices.values()) / sum(tested.values()) - 1) < 2e6
