"""Objectives of models of Hugging Face: their shapes, their losses on real numbers, and what a trace says of them."""

import json
from dataclasses import replace

import pytest
from needs import require

require("torch")
import torch

from whichdevice.apps.questions.question import Question, with_objective
from whichdevice.base.errors import StudyError
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.torch.records import Traced
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

SMALL = {
    "model_type": "llama", "vocab_size": 64, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "torch_dtype": "bfloat16",
}  # fmt: skip
ENCODER = {
    "model_type": "bert", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture
def decoder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    return f"hf:{tmp_path}"


@pytest.fixture
def encoder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(ENCODER))
    return f"hf:{tmp_path}"


def workload(name, **options):
    return Model.read(name).workload(Options(2, given={"length": 16, **options}))


def first_loss(name, **options):
    torch.manual_seed(0)
    made = workload(name, **options)
    made.splits({})
    module = made.made_module().float()
    inputs, target = made.tried_on("cpu")
    return made.loss(target, made.forward(module, inputs, target)).item(), module


def traced(name, size=2, **options):
    asked = ProgramRequest(
        device="H100 SXM", workload="w", module=name, precision="bfloat16", batch_size=size, sequence_length=16,
        options={"length": 16, **options},
    )  # fmt: skip
    return Traced(asked), asked


def record(name, device="H100 SXM", size=8, **options):
    found, asked = traced(name, size, **options)
    return found.record(asked.model_copy(update={"device": device}), find_target(device))


@pytest.mark.parametrize("method", ["full", "lora"])
def test_an_untrained_model_prefers_no_answer(decoder, method):
    """Model and reference are the same then: the loss is that of a coin."""
    torch.manual_seed(0)
    made = workload(decoder, objective="dpo", method=method)
    made.splits({})
    module = made.made_module().float()
    if method == "full":
        module.reference.copy.load_state_dict(module.model.state_dict())
    else:
        for name, parameter in module.model.named_parameters():
            if name.endswith("up.weight"):
                torch.nn.init.zeros_(parameter)
    inputs, target = made.tried_on("cpu")
    loss = made.loss(target, made.forward(module, inputs, target))
    assert loss.item() == pytest.approx(0.6931, abs=1e-3)
    loss.backward()
    trained = [parameter.grad for parameter in module.model.parameters() if parameter.requires_grad]
    assert all(gradient is not None for gradient in trained)


def test_a_batch_of_texts_is_as_many_classes(encoder):
    loss, module = first_loss(encoder, objective="contrastive")
    assert 0 <= loss < 25
    assert not any("classifier" in name for name, _ in module.named_parameters())


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("hf:sentence-transformers/all-mpnet-base-v2", "contrastive"),
        ("hf:all-MiniLM-L6-v2", "contrastive"),
        ("BAAI/bge-base-en-v1.5", "contrastive"),
        ("hf:intfloat/multilingual-e5-large", "contrastive"),
        ("hf:BAAI/bge-reranker-large", None),
        ("hf:google-bert/bert-base-uncased", None),
    ],
)
def test_a_name_says_that_a_model_learns_embeddings(name, objective):
    asked = Question(Model.read(name))
    assert with_objective(asked).options.get("objective") == objective
    for other in (replace(asked, options={"objective": "sft"}), replace(asked, mode="predict")):
        assert with_objective(other) == other


@pytest.mark.parametrize(
    ("folder", "config", "objective"),
    [
        ("models/gte-small", ENCODER, "contrastive"),
        ("google/embeddinggemma-300m", SMALL, "contrastive"),
        ("Qwen/Qwen3-Embedding-8B", SMALL, "contrastive"),
        ("models/my-embedded-llama", SMALL, None),
        ("models/embedding-classifier", ENCODER, None),
        ("sentence-transformers/gtr-t5-base", ENCODER | {"model_type": "t5"}, None),
    ],
)
def test_only_what_can_learn_embeddings_does_so_by_its_name(tmp_path, monkeypatch, folder, config, objective):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    assert with_objective(Question(Model.read(f"hf:{folder}"))).options.get("objective") == objective


def test_texts_of_a_batch_are_in_one_pass_and_the_answer_says_what_an_example_is(encoder):
    contrastive, classes = (record(encoder, objective=name)[2] for name in ("contrastive", "sft"))
    assert (contrastive.pass_batch, classes.pass_batch) == (8, 4)
    assert any("the batch's other texts are negatives" in note for note in contrastive.notes)


def test_a_type_that_transformers_lacks_is_a_llama_of_its_sizes_where_it_has_such(tmp_path):
    new, latent = SMALL | {"model_type": "brand_new"}, SMALL | {"model_type": "other", "kv_lora_rank": 8}
    facts = {}
    for name, config in (("llama", SMALL), ("new", new), ("latent", latent)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        if name != "latent":
            facts[name] = record(f"hf:{tmp_path / name}")[2]
    assert facts["new"].memory_parts == facts["llama"].memory_parts
    assert facts["new"].notes == [
        "its step is a Llama's of its sizes; transformers has no brand_new",
        *facts["llama"].notes,
    ]
    with pytest.raises(StudyError, match="this transformers has no model type 'other'"):
        record(f"hf:{tmp_path / 'latent'}")


@pytest.mark.parametrize("objective", ["orpo", "grpo"])
def test_a_loss_is_a_number(decoder, objective):
    loss, _ = first_loss(decoder, objective=objective)
    assert abs(loss) < 20


def test_passes_of_an_objective_by_its_products(decoder):
    """A pair is two texts; a training step is three forward passes' products, a reference one more."""
    work = {name: traced(decoder, objective=name)[0].trace(2).work.operations for name in ("sft", "orpo", "dpo")}
    assert work["orpo"] == pytest.approx(2 * work["sft"], rel=0.01)
    assert work["dpo"] == pytest.approx(2 * work["sft"] * 4 / 3, rel=0.01)


def test_a_reference_takes_memory_where_there_are_no_adapters(decoder):
    full, lora, orpo = (
        traced(decoder, objective=name, method=method)[0].trace(2).memory
        for name, method in (("dpo", "full"), ("dpo", "lora"), ("orpo", "full"))
    )
    assert full["weights"] == pytest.approx(2 * orpo["weights"], rel=0.01)
    assert full["gradients"] == pytest.approx(orpo["gradients"], rel=0.01)
    assert lora["weights"] < 1.5 * orpo["weights"]


def test_adapters_are_what_to_change_where_a_pair_does_not_fit(decoder):
    plan = traced(decoder, objective="dpo")[0].plan
    lora, whole = plan.trace(1, ("LoRA",)), plan.trace(1)
    assert lora.trained < 0.5 * whole.trained and lora.memory["weights"] < 0.8 * whole.memory["weights"]


def test_units_are_those_of_the_objective(decoder):
    units = {name: record(decoder, objective=name)[2].unit for name in ("sft", "dpo", "grpo")}
    assert units == {"sft": "sequence", "dpo": "pair", "grpo": "completion"}


def test_writing_the_answers_is_not_counted_and_said(decoder):
    assert "the training step alone: writing the answers is not counted" in record(decoder, objective="grpo")[2].notes


def test_a_penalty_needs_the_reference(decoder):
    plain, held = (traced(decoder, objective="grpo", beta=beta)[0].trace(2).memory["weights"] for beta in (0, 0.04))
    assert held == pytest.approx(2 * plain, rel=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"objective": "ppo"}, "objective 'ppo': there are sft, contrastive, dpo, grpo, orpo"),
        ({"objective": "grpo", "beta": -1}, "beta is -1; it must be a number of at least 0"),
    ],
)
def test_a_wrong_objective_is_one_line(decoder, options, message):
    with pytest.raises(StudyError, match=message):
        record(decoder, **options)


def test_pairs_of_answers_need_a_decoder(encoder):
    with pytest.raises(StudyError, match="objective dpo needs a decoder"):
        workload(encoder, objective="dpo")


def test_an_option_of_another_objective_is_refused(decoder):
    with pytest.raises(StudyError, match="no option generations"):
        record(decoder, objective="dpo", generations=4)
