"""Sizes of a decoder as a server holds it: weights in a format, cache, and what one token reads."""

import json
from pathlib import Path

import pytest
import yaml

from whichdevice.base.errors import StudyError
from whichdevice.models.hugging_face import known_models
from whichdevice.models.served import WEIGHT_FORMATS, served, served_model, weight_format

DECODERS = [name for name, found in known_models().items() if found.task == "CausalLM"]
PUBLISHED = yaml.safe_load(Path(__file__).with_name("published_sizes.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", DECODERS)
def test_sizes_of_every_decoder_add_up_to_its_weights(name):
    model = served_model(name)
    assert model.computed == pytest.approx(model.parameters, rel=0.015)  # GPT-2 and OPT also have tables of places


@pytest.mark.parametrize("name", PUBLISHED["weights"])
def test_weights_and_active_weights_are_those_of_the_models_page(name):
    weights, active = PUBLISHED["weights"][name]
    model = served_model(name)
    assert model.parameters / 1e9 == pytest.approx(weights, rel=0.03)
    one = model.read_bytes(WEIGHT_FORMATS["bf16"]) / 2
    assert (one + model.embedding / 2) / 1e9 == pytest.approx(active, rel=0.1)


@pytest.mark.parametrize(("name", "kept", "gigabytes"), PUBLISHED["files"])
def test_a_format_takes_as_many_bytes_as_the_published_files(name, kept, gigabytes):
    assert served_model(name).weights_bytes(WEIGHT_FORMATS[kept]) / 1e9 == pytest.approx(gigabytes, rel=0.02)


def test_a_cache_grows_by_heads_layers_and_bits():
    plain = served_model("meta-llama/Llama-3.1-8B")
    assert plain.cache_bytes_per_token(16) == 2 * 32 * 8 * 128 * 2 == 2 * plain.cache_bytes_per_token(8)
    latent = served_model("deepseek-ai/DeepSeek-V3")
    assert latent.cache_bytes_per_token(16) == 61 * (512 + 64) * 2


def test_layers_with_a_window_or_a_state_keep_no_more_however_long_the_text_is():
    windows = served_model("openai/gpt-oss-20b")
    growth = windows.cache_bytes(2000) - windows.cache_bytes(1000)
    assert (windows.window, windows.windowed_layers) == (128, 12)
    assert growth == 1000 * windows.cache_bytes_per_token() == 1000 * 12 * 2 * 8 * 64 * 2
    states = served_model("Qwen/Qwen3.5-27B")
    assert states.state_layers == 48 and states.cache_bytes(0) > 1e8


def test_a_step_of_a_mixture_of_experts_reads_those_that_its_tokens_choose():
    model, kept = served_model("Qwen/Qwen3-30B-A3B"), WEIGHT_FORMATS["bf16"]
    one, many, whole = (model.read_bytes(kept, tokens) for tokens in (1, 16, 1e4))
    assert one < many < whole
    assert whole == pytest.approx(model.weights_bytes(kept) - 2 * model.embedding, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "sizes", "native"),
    [
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B", "fp8"),
        ("hf:Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B", "awq"),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", "Qwen/Qwen3-235B-A22B-Instruct-2507", "bf16"),
        ("mistralai/Mistral-Small-24B-Instruct-2501", "mistralai/Mistral-Small-24B-Base-2501", "bf16"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3", "fp8"),
    ],
)
def test_a_name_says_the_format_and_has_its_bases_sizes(name, sizes, native):
    model, base = served_model(name), served(known_models()[sizes])
    assert (model.parameters, model.layers, model.longest, model.native) == (
        base.parameters, base.layers, base.longest, native,
    )  # fmt: skip


def test_a_folders_config_says_the_format(tmp_path):
    fields = {
        "model_type": "qwen3", "vocab_size": 64, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128,
        "quantization_config": {"quant_method": "awq"},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(fields))
    model = served_model(f"hf:{tmp_path}")
    assert (model.native, model.layers, model.longest) == ("awq", 2, 128)


def test_what_is_no_decoder_or_no_format_is_refused():
    with pytest.raises(StudyError, match=r"writes no text word by word.*--mode predict"):
        served_model("google-bert/bert-base-uncased")
    with pytest.raises(StudyError, match="--weights fp3: no such format; there are bf16, fp8"):
        weight_format("fp3")
