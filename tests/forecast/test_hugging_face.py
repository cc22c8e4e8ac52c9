"""Models of Hugging Face by name, how they are trained, and what a trace of a few of their layers says."""

import json
from dataclasses import replace

import pytest
from beside import beside
from needs import require

require("torch")
import torch

from whichdevice.apps.commands.ask import targets_of
from whichdevice.apps.questions.one_model import OneModel
from whichdevice.apps.questions.question import Question
from whichdevice.base.errors import StudyError
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.torch.records import Traced
from whichdevice.forecast.torch.trace import Step, trace_step
from whichdevice.models.hugging_face import configuration, known_models
from whichdevice.models.loading import Model
from whichdevice.models.lora import tuned
from whichdevice.models.tuning import Tuning
from whichdevice.models.workloads.base import Options

BESIDE = beside(__file__)

SMALL = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 10,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "torch_dtype": "bfloat16",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    return f"hf:{tmp_path}"


def request(name, **settings):
    known = {"device": "H100 SXM", "workload": "w", "module": name, "precision": "bfloat16", "batch_size": 1}
    return ProgramRequest.model_validate(known | settings)


def workload(name, **options):
    return Model.read(name).workload(Options(1, given=options))


@pytest.mark.long
@pytest.mark.parametrize("name", known_models())
def test_a_step_of_every_model_of_the_table_can_be_traced(name, working_folder):
    trace = Traced(request(f"hf:{name}", options={"length": 64})).trace(1)
    head = 1 if configuration(name).task != "SequenceClassification" else 2  # published without one
    assert trace.trained == pytest.approx(known_models()[name].parameters, rel=0.02 * head)
    # Weights, gradients and two moments of two bytes; an index of tokens has no gradients.
    assert trace.memory["peak"] > 7.99 * trace.trained


def parameters(module):
    return sum(each.numel() for each in module.parameters())


ONE_OF_EACH = {found.kind: name for name, found in reversed(known_models().items())}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ONE_OF_EACH.values() else pytest.mark.long) for n in known_models()]
)
def test_a_model_of_the_table_has_as_many_weights_as_published(name):
    found = configuration(name)
    with torch.device("meta"):
        module = found.model()
    if found.task == "SequenceClassification":  # published without a head
        module = module.base_model
    assert abs(parameters(module) - found.parameters) <= 0.006 * found.parameters


@pytest.mark.parametrize(
    ("name", "asked", "formats"),
    [
        ("hf:meta-llama/Llama-3.1-8B", None, {"L4": "bfloat16", "T4": "mixed_float16"}),
        # A T4's row says why it has none.
        ("hf:meta-llama/Llama-3.1-8B", "mixed_bfloat16", dict.fromkeys(("L4", "T4"), "mixed_bfloat16")),
        ("hf:openai-community/gpt2", None, {"L4": "mixed_bfloat16", "T4": "mixed_float16"}),
    ],
)
def test_a_large_decoder_is_all_in_bfloat16_as_fine_tuning_tools_hold_it(name, asked, formats, working_folder):
    for counts in ([1], [64]):
        asked_of = Question(Model.read(name), precision=asked)
        question = OneModel(asked_of, targets_of(["L4", "T4"], counts, "eager"), counts)
        assert {each.device: each.precision for each in question.requests} == formats


def test_a_trace_is_kept_for_other_batches_devices_and_numbers_of_gpus(folder, working_folder, monkeypatch):
    def work(batch, devices):
        asked = request(folder, device="L4", devices=devices, batch_size=batch)
        return Traced(asked).record(asked, find_target("L4", devices))[3]

    first = work(8, 1)
    monkeypatch.setattr("whichdevice.forecast.torch.trace.trace_step", None)
    again = work(16, 2)
    assert again.operations == first.operations


@pytest.mark.parametrize("method", ["lora", "qlora"])
@pytest.mark.parametrize("name", ["google-t5/t5-small", "openai/whisper-tiny"])
def test_models_that_are_no_decoders_take_adapters(name, method, working_folder):
    trace = Traced(request(f"hf:{name}", options={"method": method, "layers": 1})).trace(1)
    assert 0 < trace.trained < 0.1 * trace.parameters


EXPERTS = SMALL | {
    "model_type": "mixtral", "num_hidden_layers": 2, "num_local_experts": 8, "num_experts_per_tok": 2,
    "sliding_window": None,
}  # fmt: skip


def test_experts_are_in_4_bits_and_no_written_out_ones_wait_for_the_backward_pass(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(EXPERTS))

    def traced(method):
        options = {"method": method, "lora_rank": 2, "lora_layers": "attention"}
        return Traced(request(f"hf:{tmp_path}", batch_size=2, sequence_length=64, options=options)).trace(2)

    four, sixteen = traced("qlora"), traced("lora")
    experts = 2 * 8 * 3 * 128 * 256
    assert sixteen.memory["weights"] - four.memory["weights"] > 0.7 * 2 * experts  # the rest are scales
    assert four.memory["activations"] < 1.5 * sixteen.memory["activations"]
    assert four.work.operations == pytest.approx(sixteen.work.operations, rel=0.1)


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_experts_are_traced_in_every_number_format(precision, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(EXPERTS))

    def operations(precision):
        asked = request(f"hf:{tmp_path}", device="T4", precision=precision, batch_size=2, sequence_length=64)
        return Traced(asked).trace(2).work.operations

    assert operations(precision) == pytest.approx(operations("bfloat16"), rel=0.05)


def test_a_step_of_experts_in_4_bits_runs(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(EXPERTS))
    made = workload(f"hf:{tmp_path}", method="qlora", length=16)
    made.splits({})
    module = made.made_module().float()
    inputs, target = made.tried_on("cpu")
    loss = made.loss(target, made.forward(module, inputs, target))
    loss.backward()
    assert loss.item() > 0 and any(one.grad is not None for one in module.parameters())


def test_names_of_models():
    assert configuration("llama-3.1-8b").name == "meta-llama/Llama-3.1-8B"
    assert Model.read("hf:meta-llama/Llama-3.1-8B").name == "Llama-3.1-8B"
    with pytest.raises(
        StudyError, match=r"is not known here.*; did you mean hf:meta-llama/Llama-3.1-8B\?.*config.json"
    ):
        _ = Model.read("hf:meta-llama/Llama-3.1-8").kind


@pytest.mark.parametrize("options, message", BESIDE["a wrong option is one line"])
def test_a_wrong_option_is_one_line(folder, options, message):
    with pytest.raises(StudyError, match=message):
        workload(folder, **options).made_module()


def test_a_folder_without_a_type_is_one_line(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(StudyError, match="names no model_type"):
        _ = Model.read(f"hf:{tmp_path}").kind


def test_lora_trains_two_thin_layers_beside_each_frozen_one(folder):
    full, lora, thin = (
        workload(folder, **options).made_module()
        for options in (
            {},
            {"method": "lora", "lora_rank": 4},
            {"method": "lora", "lora_rank": 4, "lora_layers": "attention"},
        )
    )
    trained = [sum(each.numel() for each in module.parameters() if each.requires_grad) for module in (full, lora, thin)]
    attention, rest = 4 * (128 + 128 + 128 + 64), 4 * (128 + 64 + 128 + 128 + 3 * (128 + 256))
    assert trained == [parameters(full), 10 * (attention + rest), 10 * attention]


def step(name, precision="bfloat16", **options):
    made = workload(name, **options)

    def build(*layers):
        return workload(name, **options, **({"layers": layers[0]} if layers else {})).made_module()

    def batch(n):
        words = torch.zeros(n, 64, dtype=torch.long)
        return {"input_ids": words, "labels": words}

    return Step(
        build,
        batch,
        lambda module, given: module(**given).loss,
        made.traced_optimizer,
        precision,
        made.configuration.layers,
    )


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (64, {}), (4096, {}), (64, {"gradient_checkpointing": True}),
        (64, {"method": "qlora", "gradient_checkpointing": True}),
    ],
    ids=str,
)  # fmt: skip
def test_a_few_layers_stand_for_many_equal_ones(tmp_path, words, options):
    """A trace of 2 and 4 layers extended to 10 is the trace of 10; with many words the peak is late."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL | {"vocab_size": words}))
    short = step(f"hf:{tmp_path}", **options)
    found, whole = trace_step(short, 2), trace_step(replace(short, layers=None), 2)
    assert found.work.operations == pytest.approx(whole.work.operations)
    assert found.work.kernels == pytest.approx(whole.work.kernels, rel=0.01)  # of an optimiser's lists some are short
    parts = [name for name in whole.memory if name not in ("early", "late")]
    assert [found.memory[name] for name in parts] == pytest.approx([whole.memory[name] for name in parts], rel=0.05)


def test_memory_by_how_a_model_is_trained(folder):
    full, eight, lora, qlora, light = (
        trace_step(step(folder, **options), 2).memory
        for options in (
            {}, {"optimizer": "AdamW8bit"}, {"method": "lora"}, {"method": "qlora"}, {"gradient_checkpointing": True},
        )
    )  # fmt: skip
    assert full["optimizer"] == pytest.approx(2 * full["weights"], rel=0.05)
    assert eight["optimizer"] == pytest.approx(full["optimizer"] / 2, rel=0.3)  # small tensors are rounded up
    assert lora["gradients"] < full["gradients"] and qlora["weights"] < 0.7 * lora["weights"]
    assert light["activations"] < 0.5 * full["activations"]


def test_checkpointing_needs_a_model_that_has_it():
    with pytest.raises(StudyError, match="GRADIENT_CHECKPOINTING needs a model of Hugging Face"):
        tuned(torch.nn.Linear(2, 2), Tuning(gradient_checkpointing=True), "mine.py")


FILE = BESIDE["file"]


def test_constants_of_a_file_say_how_it_is_trained(tmp_path):
    path = tmp_path / "tuned.py"
    path.write_text(FILE.format(constants="METHOD = 'lora'\nLORA_RANK = 4\nGRADIENT_ACCUMULATION = 2"))
    made = workload(str(path))
    trained = sum(each.numel() for each in made.made_module().parameters() if each.requires_grad)
    assert trained == 2 * 4 * (4 * (128 + 128) + 3 * (128 + 256))
    assert made.number_format("mixed_bfloat16") == "bfloat16" and made.tuning.gradient_accumulation == 2
    own = [OneModel(Question(Model.read(str(path))), [find_target(each) for each in ("A100 SXM 80GB", "T4")])]
    path.with_name("own.py").write_text(FILE.format(constants="PRECISION = 'bfloat16'"))
    own.append(OneModel(Question(Model.read(str(path.with_name("own.py")))), [find_target("A100 SXM 80GB")]))
    formats = [[each.precision for each in question.requests] for question in own]
    assert formats == [["bfloat16", "mixed_float16"], ["bfloat16"]]
    path.write_text(FILE.format(constants="METHOD = 'dora'"))
    with pytest.raises(StudyError, match=r"tuned\.py: method is 'dora'; it must be one of full, lora, qlora"):
        workload(str(path)).made_module()


@pytest.mark.slow
def test_the_longest_sequence_fits_and_one_longer_by_a_fifth_does_not(tmp_path, working_folder):
    fields = SMALL | {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 2}
    fields |= {"max_position_embeddings": 2**20, "vocab_size": 32_768}
    (tmp_path / "config.json").write_text(json.dumps(fields))

    def facts(length=None, **asked):
        options = {} if length is None else {"length": length}
        of_words = request(f"hf:{tmp_path}", device="T4", options=options, **asked)
        return Traced(of_words).record(of_words, find_target("T4"))[2]

    longest = facts(longest_sequence=True).longest_sequence
    assert longest > 2_000 and longest % 64 == 0
    within, beyond = facts(longest), facts(longest * 6 // 5)
    assert within.memory_missing is None and not within.memory_tight
    assert beyond.memory_missing is not None or beyond.memory_tight


@pytest.mark.slow
def test_a_model_that_takes_few_words_takes_no_more_where_memory_is_left(folder, working_folder):
    asked = request(folder, batch_size=4, longest_sequence=True)
    facts = Traced(asked).record(asked, find_target("H100 SXM"))[2]
    assert facts.longest_sequence == SMALL["max_position_embeddings"]
