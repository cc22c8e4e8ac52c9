"""A model of the hub that the table lacks: its sizes are those of its config.json and of its files' headers."""

import json
import math
from pathlib import Path

import pytest
from beside import beside
from needs import require

require("hub client")
import httpx
import huggingface_hub
from huggingface_hub import errors

from whichdevice.__main__ import main
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.serving.server import Server
from whichdevice.models import hub
from whichdevice.models.address import known_on_hub
from whichdevice.models.hub import stored_weights
from whichdevice.models.loading import Model
from whichdevice.models.served import WEIGHT_FORMATS, served_model
from whichdevice.models.workloads.base import Options

BESIDE = beside(__file__)

HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, WORDS = 128, 256, 2, 4, 2, 640
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1, "I32": 4, "U8": 1, "I8": 1}
CONFIG = {
    "model_type": "brand_new", "architectures": ["BrandNewForCausalLM"], "vocab_size": WORDS, "hidden_size": HIDDEN,
    "intermediate_size": FFN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS, "max_position_embeddings": 4096, "torch_dtype": "bfloat16",
}  # fmt: skip
SHAPES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.v_proj": (HIDDEN // 2, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN), "mlp.gate_proj": (FFN, HIDDEN),
    "mlp.up_proj": (FFN, HIDDEN), "mlp.down_proj": (HIDDEN, FFN),
}  # fmt: skip
LINEAR = LAYERS * sum(math.prod(shape) for shape in SHAPES.values())
WEIGHTS = LINEAR + 2 * WORDS * HIDDEN


def write_model(folder: Path, linear, config=(), shards: int = 1, tied: bool = False) -> None:
    """A model's folder: `linear` gives the tensors of a linear layer from its name and shape. No weights are in it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | dict(config)))
    tensors = {"model.embed_tokens.weight": ("BF16", (WORDS, HIDDEN))}
    if not tied:
        tensors["lm_head.weight"] = ("BF16", (WORDS, HIDDEN))
    for layer in range(LAYERS):
        for name, shape in SHAPES.items():
            tensors |= {f"model.layers.{layer}.{name}.{key}": tensor for key, tensor in linear(shape).items()}
    names = [f"model-{shard}.safetensors" for shard in range(shards)] if shards > 1 else ["model.safetensors"]
    parts = {file: list(tensors)[place::shards] for place, file in enumerate(names)}
    for file, keys in parts.items():
        header, end = {}, 0
        for key in keys:
            dtype, shape = tensors[key]
            begin, end = end, end + math.prod(shape) * BYTES[dtype]
            header[key] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        text = json.dumps(header).encode()
        (folder / file).write_bytes(len(text).to_bytes(8, "little") + text)
    if shards > 1:
        index = {"metadata": {}, "weight_map": {key: file for file, keys in parts.items() for key in keys}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def bf16(shape):
    return {"weight": ("BF16", shape)}


def f32(shape):
    return {"weight": ("F32", shape)}


def fp8(shape):
    return {"weight": ("F8_E4M3", shape), "weight_scale_inv": ("F32", (shape[0] // 64, shape[1] // 64))}


def four_bits(shape):
    rows, columns = shape
    return {
        "qweight": ("I32", (columns // 8, rows)), "qzeros": ("I32", (columns // 128, rows // 8)),
        "scales": ("F16", (columns // 128, rows)), "g_idx": ("I32", (columns,)),
    }  # fmt: skip


def eight_bits(shape):
    return {"qweight": ("I32", (shape[1] // 4, shape[0])), "scales": ("F16", (shape[1] // 128, shape[0]))}


def nvfp4(shape):
    return {
        "weight": ("U8", (shape[0], shape[1] // 2)), "weight_scale": ("F8_E4M3", (shape[0], shape[1] // 16)),
        "weight_scale_2": ("F32", ()),
    }  # fmt: skip


@pytest.fixture
def hub_folder(tmp_path, monkeypatch):
    """A hub whose models are folders: ORG/NAME."""

    def path(name, file):
        if "slow" in name:
            raise httpx.ReadTimeout("it took too long")
        if "lost" in name:
            raise errors.LocalEntryNotFoundError("no connection")
        if not (tmp_path / name).is_dir():
            answer = httpx.Response(404, request=httpx.Request("GET", "https://hub"))
            raise (
                errors.GatedRepoError("login", response=answer)
                if "gated" in name
                else (errors.RepositoryNotFoundError("none", response=answer))
            )
        if not (tmp_path / name / file).is_file():
            raise errors.EntryNotFoundError(file)
        return str(tmp_path / name / file)

    def headers(name):
        if "late" in name:
            raise httpx.ReadTimeout("it took too long")
        return huggingface_hub.get_local_safetensors_metadata(tmp_path / name)

    monkeypatch.setattr(hub, "in_reach", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", path)
    monkeypatch.setattr(huggingface_hub, "get_safetensors_metadata", headers)
    return tmp_path


@pytest.mark.parametrize(
    ("linear", "config", "native", "bits"),
    [
        (bf16, {}, "bf16", 16),
        (fp8, {"quantization_config": {"quant_method": "fp8"}}, "fp8", 8),
        (fp8, {"quantization_config": {"quant_method": "compressed-tensors"}}, "fp8", 8),
        (four_bits, {"quantization_config": {"quant_method": "awq", "bits": 4}}, "awq", 4),
        (four_bits, {"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq", 4),
        (eight_bits, {"quantization_config": {"quant_method": "gptq", "bits": 8}}, "gptq", 8),
        (nvfp4, {"quantization_config": {"quant_method": "modelopt"}}, "nvfp4", 4),
    ],
)
@pytest.mark.parametrize("shards", [1, 3])
def test_headers_say_how_many_weights_there_are_and_in_which_bytes(hub_folder, linear, config, native, bits, shards):
    write_model(hub_folder / "somebody" / "new-model", linear, config, shards)
    model = served_model("hf:somebody/new-model")
    assert (model.parameters, model.native, model.layers, model.longest) == (WEIGHTS, native, LAYERS, 4096)
    stored = model.weights_bytes(WEIGHT_FORMATS[native])
    tables = 2 * 2 * WORDS * HIDDEN
    assert stored - tables == pytest.approx(LINEAR * bits / 8, rel=0.15)  # scales and zeros take some
    assert model.weights_bytes(WEIGHT_FORMATS["int8"]) == pytest.approx(tables + LINEAR, rel=0.01)


def test_weights_of_32_bits_are_held_in_16(hub_folder):
    write_model(hub_folder / "somebody" / "wide", f32)
    model = served_model("somebody/wide")
    assert (model.native, model.weights_bytes(WEIGHT_FORMATS["bf16"])) == ("bf16", 2 * WEIGHTS)


def test_a_step_reads_as_many_bits_a_weight_as_the_files_have(hub_folder):
    """A format's usual bits are four; a server of these files reads eight."""
    config = {"quantization_config": {"quant_method": "gptq", "bits": 8}}
    write_model(hub_folder / "somebody" / "eight", eight_bits, config)
    model, kept = served_model("somebody/eight"), WEIGHT_FORMATS["gptq"]
    assert model.read_bytes(kept) == pytest.approx(model.weights_bytes(kept) - 2 * WORDS * HIDDEN)
    server = Server(model, hardware_rows()["L40S"], 1, kept)
    seconds = server.work(1, 0)["weights"] * server.peaks["bandwidth"]
    assert seconds == pytest.approx(model.read_bytes(kept))


def test_a_table_of_words_that_is_the_outputs_too_is_counted_once(hub_folder):
    write_model(hub_folder / "somebody" / "tied", bf16, tied=True)
    model = served_model("somebody/tied")
    assert model.tied and model.parameters == model.computed == LINEAR + WORDS * HIDDEN


def test_more_weights_than_the_words_part_has_are_in_memory(hub_folder):
    """A model of images and words has a part that config.json's sizes of words do not make."""

    def seeing(shape):
        return bf16(shape) | {"vision": ("BF16", (100, 100))}

    write_model(hub_folder / "somebody" / "sees", seeing)
    model, more = served_model("somebody/sees"), LAYERS * len(SHAPES) * 100 * 100
    assert model.parameters == WEIGHTS + more
    assert model.weights_bytes(WEIGHT_FORMATS["int8"]) == pytest.approx(LINEAR + 2 * (2 * WORDS * HIDDEN + more))


def test_fewer_weights_than_config_json_makes_are_refused(hub_folder):
    write_model(hub_folder / "somebody" / "shares", bf16, {"num_hidden_layers": 12})
    with pytest.raises(StudyError, match=r"its files hold 0.*brand_new is a kind of model that is not known here"):
        served_model("somebody/shares")


def test_a_folders_files_are_read_too_and_config_json_alone_is_enough(tmp_path):
    write_model(tmp_path / "mine", fp8)
    assert stored_weights(str(tmp_path / "mine")).count == WEIGHTS
    assert served_model(f"hf:{tmp_path / 'mine'}").native == "fp8"
    (tmp_path / "mine" / "model.safetensors").unlink()
    alone = served_model(f"hf:{tmp_path / 'mine'}")
    assert (alone.parameters, alone.native, alone.stored) == (alone.computed, "bf16", 0)


def test_a_name_with_a_format_that_nobody_knows_is_the_hubs_own(hub_folder):
    write_model(hub_folder / "somebody" / "model-FP8", fp8)
    write_model(hub_folder / "somebody" / "other", bf16)
    assert served_model("somebody/model-FP8").stored
    gguf = served_model("somebody/other-GGUF")
    assert (gguf.native, gguf.parameters) == ("q4_k_m", WEIGHTS)


def test_the_answer_says_what_the_files_hold(hub_folder, capsys):
    write_model(hub_folder / "somebody" / "new-model", fp8, {"quantization_config": {"quant_method": "fp8"}})
    command = ["serve", "hf:somebody/new-model", "--devices", "L40S"]
    assert main(command) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "By the headers of its files it has 0.000459 billion weights, 0.000623 GB in fp8." in said
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"]["weights"] == WEIGHTS


@pytest.mark.parametrize(("name", "message"), BESIDE["what the hub lacks is one line with the fix"])
def test_what_the_hub_lacks_is_one_line_with_the_fix(hub_folder, name, message):
    (hub_folder / "somebody" / "empty").mkdir(parents=True)
    with pytest.raises(StudyError, match=message) as raised:
        served_model(name)
    assert "\n" not in str(raised.value)


def test_headers_that_the_hub_is_too_slow_for_are_left_out(hub_folder):
    write_model(hub_folder / "somebody" / "late-model", fp8)
    model = served_model("somebody/late-model")
    assert (model.parameters, model.stored) == (model.computed, 0)


def test_a_hub_out_of_reach_is_one_line_with_the_fix():
    with pytest.raises(StudyError, match=r"the hub is not in reach\. Save its config\.json .* hf:path/to/folder; "):
        served_model("somebody/new-model")
    with pytest.raises(StudyError, match=r"hf:new-model: its sizes are not in llm_models.csv\. Name it ORG/NAME"):
        served_model("hf:new-model")


@pytest.mark.parametrize(("name", "like"), BESIDE["a sister has the sizes of a known name"])
def test_a_sister_has_the_sizes_of_a_known_name(name, like):
    assert known_on_hub(name) == like


@pytest.mark.needs("torch")
def test_an_image_classifier_reads_images_and_its_step_is_one_pass():
    model = Model.read("hf:google/vit-base-patch16-224")
    assert model.recipe.batch_size == 64 and not model.has_sequences and model.declared.unit == "image"
    assert model.declared.input["pixel_values"].shape == (3, 224, 224) and model.declared.target["labels"].below == 1000
    assert model.workload(Options(64)).tuning.gradient_accumulation == 1


@pytest.mark.needs("torch")
def test_an_example_of_speech_says_how_long_it_is():
    assert "30 s of speech" in Model.read("hf:openai/whisper-tiny").workload(Options(1)).notes[0]


@pytest.mark.needs("torch")
def test_copies_of_a_decoder_grow_with_its_words_and_with_weights_of_4_bits():
    """Llama 3.1 8B: logits of 128,256 words; beside 4 bits its two tables of words, and inputs of 32 layers."""
    decoder = Model.read("hf:meta-llama/Llama-3.1-8B").workload(Options(1, sequence_length=1000))
    plain, four = decoder.copies(2), decoder.copies(2, four_bits=True)
    assert plain == {"logits": 4.0 * 2000 * 128256, "single": 0.0, "inputs": 2.0 * 2000 * 4096 * 32}
    assert four["single"] == plain["inputs"] + 4.0 * 2 * 128256 * 4096
