"""Models of Hugging Face by the name of their configuration, with random weights: no weights are downloaded.

    hf:meta-llama/Llama-3.1-8B     sizes in scripts/whichdevice/models/llm_models.csv
    hf:path/to/folder              which has a config.json
    hf:ORG/NAME                    of the hub, by its config.json: where huggingface_hub is installed

A decoder learns the next word, an encoder to classify a text, a ViT and its like an image, T5 and Whisper to write one;
or the model learns what the option `objective` names (models/objectives/). Options: `length` (words of a sequence), and
the options of the objective and of models/tuning.py. A mixture of experts is routed evenly, as on random words.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from whichdevice.base.errors import StudyError, hint
from whichdevice.base.files import csv_rows
from whichdevice.models.address import HUB_NAME, HUB_TABLE, Address, config_file, hub_model, near_hub_name
from whichdevice.models.declaration import Declaration
from whichdevice.models.framework import TORCH
from whichdevice.models.hub import hub_config
from whichdevice.models.model_file import Adapter
from whichdevice.models.objectives import DEFAULT, Objective, find_objective
from whichdevice.models.shapes import Array, Tree
from whichdevice.models.torch_model import TorchFile
from whichdevice.models.tuning import Tuning
from whichdevice.models.workloads.base import Options

PREFIX = "hf:"
LARGE_DECODER = 1e9  # weights of a decoder from which on torchtune, LitGPT and Transformers 5 hold them all in bfloat16
LENGTH, SHORT = 2048, 512  # words, where nobody says: of a decoder that takes as many, and of the others
TUNING = (
    "method", "lora_rank", "lora_layers", "lora_dropout",
    "gradient_checkpointing", "gradient_accumulation", "optimizer", "float8",
)  # fmt: skip
CLASSIFIERS = (
    "bert", "distilbert", "roberta", "xlm-roberta", "deberta-v2", "electra", "albert", "camembert", "modernbert",
    "mpnet",
)  # fmt: skip
IMAGES = ("vit", "deit", "beit", "dinov2", "swin", "swinv2", "convnext", "convnextv2", "resnet")  # that it classifies
SIDE = 224  # pixels of an image, where nobody says
LAYERS = (
    "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "encoder_layers", "decoder_layers",
)  # fmt: skip
LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_target_positions")
# Fields by which layers are not equal, but for these values; a dense first layer is the same in a model of few.
UNEQUAL: Mapping[str, tuple[Any, ...]] = {
    "first_k_dense_replace": (0, 1), "mlp_only_layers": ([],), "moe_layer_freq": (1,), "decoder_sparse_step": (1,),
    "hybrid_override_pattern": (),
}  # fmt: skip
OF_LLAMA = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "max_position_embeddings", "tie_word_embeddings",
)  # fmt: skip
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


@dataclass(frozen=True)
class Configuration:
    """The type and the fields of a model, as its config.json has them."""

    name: str
    kind: str
    fields: Mapping[str, Any]
    parameters: int | None = None  # as published; None: it is not in the table
    dtype: str | None = None  # of its weights, as its config.json says
    weights: str = ""  # the format that they are published in, where that is no plain one
    bits: int = 4  # of a weight in such a format

    @property
    def layers(self) -> int | None:
        """The number of equal layers; None where layers differ, or the configuration has no number."""
        counts = {int(self.fields[name]) for name in LAYERS if self.fields.get(name)}
        unequal = any(name in self.fields and self.fields[name] not in known for name, known in UNEQUAL.items())
        return counts.pop() if len(counts) == 1 and not unequal else None

    def number(self, *names: str) -> int:
        """The first of these fields that it has, else 0."""
        return next((int(self.fields[name]) for name in names if self.fields.get(name)), 0)

    @property
    def in_bfloat16(self) -> bool:
        """Return whether people train it all in bfloat16: a large decoder, or one that is published so."""
        return self.task == "CausalLM" and (self.dtype == "bfloat16" or (self.parameters or 0) >= LARGE_DECODER)

    @property
    def is_like_llama(self) -> bool:
        """Return whether it is a decoder with the sizes of a Llama, without experts or latent attention."""
        needed = all(map(self.number, OF_LLAMA[:5]))
        return self.task == "CausalLM" and needed and not self.number(*EXPERTS, "kv_lora_rank")

    @property
    def stand_in(self) -> str:
        """Return what is made in place of a type that transformers lacks; empty where it has it."""
        from transformers import CONFIG_MAPPING

        known = self.kind in CONFIG_MAPPING
        return "" if known else f"its step is a Llama's of its sizes; transformers has no {self.kind}"

    @property
    def longest(self) -> int:
        """The number of words that it takes."""
        known = self.number(*LENGTHS) or SHORT
        return min(known, SHORT) if self.kind in CLASSIFIERS else known

    @property
    def classes(self) -> int:
        """The number of classes that it tells apart."""
        return self.number("num_labels") or len(self.fields.get("id2label", ())) or 2

    @property
    def vocabulary(self) -> int:
        """The number of words that it knows."""
        return int(self.fields.get("vocab_size", 2))

    def model(self, layers: int | None = None) -> Any:
        """The module, made by transformers, perhaps of fewer layers. Raises StudyError where transformers lacks it."""
        if find_spec("transformers") is None:
            raise StudyError(f"{PREFIX}{self.name}: transformers is not installed here: pip install transformers")
        import transformers

        _register_causal(transformers)
        _register_even()
        fields = dict(self.fields)
        if layers is not None:
            fields |= {name: layers for name in LAYERS if fields.get(name)}
            fields |= {name: fields[name][:layers] for name in ("layer_types",) if fields.get(name)}
        try:
            config = transformers.AutoConfig.for_model(self.kind, **fields)
        except (ValueError, KeyError, TypeError) as error:
            if not self.is_like_llama:
                raise StudyError(f"{PREFIX}{self.name}: this transformers has no model type {self.kind!r}") from error
            config = transformers.LlamaConfig(**{name: fields[name] for name in OF_LLAMA if fields.get(name)})
        config.use_cache = False
        return self._made(transformers, config)

    def _made(self, transformers: Any, config: Any) -> Any:
        """Make it with fused attention where the model has it, and the mask left to its kernel as on real tensors."""
        maker = getattr(transformers, f"AutoModelFor{self.task}")
        try:
            made = maker.from_config(config, attn_implementation="sdpa")
            if not hasattr(config, "index_topk"):  # an index of the tokens that are looked at reads the mask itself
                made.set_attn_implementation("causal")
            if self.number(*EXPERTS):
                made.set_experts_implementation("even")
            return made
        except ValueError:
            return maker.from_config(config, attn_implementation="eager")

    @property
    def task(self) -> str:
        """Return what it is trained for, as transformers names its classes."""
        if self.kind == "whisper":
            return "SpeechSeq2Seq"
        if self.kind in CLASSIFIERS:
            return "SequenceClassification"
        if self.kind in IMAGES:
            return "ImageClassification"
        return "Seq2SeqLM" if self.fields.get("is_encoder_decoder") or self.kind in ("t5", "mt5") else "CausalLM"


def _register_causal(transformers: Any) -> None:
    """An attention of transformers that leaves the mask to PyTorch's kernel, as it does on real tensors."""
    attention = transformers.AttentionInterface()
    transformers.AttentionInterface.register("causal", attention["sdpa"])
    transformers.AttentionMaskInterface.register("causal", lambda *_, **__: None)


def _register_even() -> None:
    """Experts that share the words evenly: PyTorch knows the shapes of its grouped product in bfloat16 alone."""
    import torch
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    def even(part: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
        weights = part.gate_up_proj if part.has_gate else part.up_proj
        if weights.dtype == torch.bfloat16:
            return ALL_EXPERTS_FUNCTIONS["grouped_mm"](part, hidden_states, top_k_index, top_k_weights)

        def product(inputs: Any, weights: Any) -> Any:
            return torch.bmm(inputs.to(weights.dtype), weights if part.is_transposed else weights.mT)

        words, width = hidden_states.shape
        share = -(-top_k_index.numel() // len(weights))
        places = torch.arange(share * len(weights), device=hidden_states.device) % words
        inner = product(hidden_states[places].view(len(weights), share, width), weights)
        gate, *other = inner.chunk(2, dim=-1) if part.has_gate else (inner,)
        inner = math.prod(other, start=getattr(part, "act_fn", torch.nn.functional.silu)(gate))
        outputs = product(inner, part.down_proj).flatten(0, 1) * top_k_weights[places, :1]
        return torch.zeros_like(hidden_states).index_add(0, places, outputs.to(hidden_states.dtype))

    ALL_EXPERTS_FUNCTIONS.register("even", even)


@cache
def known_models() -> Mapping[str, Configuration]:
    """The committed sizes by name."""
    models = {}
    for line in csv_rows(HUB_TABLE):
        pairs = (pair.partition("=") for pair in line["fields"].split())
        fields = {key: json.loads(value) for key, _, value in pairs}
        weights = int(line["parameters"])
        models[line["model"]] = Configuration(line["model"], line["type"], fields, weights, None, line["weights"])
    return models


def configuration(name: str) -> Configuration:
    """Return it for a folder with a config.json or a name in the table; raises StudyError that says what is needed."""
    path = config_file(name)
    if path is not None:
        return _read(name, path)
    if (model := hub_model(name)) is not None:
        return known_models()[model]
    near = hint(near_hub_name(name)) or "."
    if HUB_NAME.fullmatch(name):
        return _read(name, hub_config(name, near))
    raise StudyError(
        f"{PREFIX}{name}: its sizes are not in {HUB_TABLE.name}{near} Name it ORG/NAME as on the hub, or a folder with "
        f"its config.json: {PREFIX}path/to/folder"
    )


def _read(name: str, path: Path) -> Configuration:
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StudyError(f"{path}: cannot be read: {error}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("model_type"), str):
        raise StudyError(f"{path}: names no model_type; it must be the config.json of a model of Hugging Face")
    quantized, text = fields.get("quantization_config"), fields.get("text_config")
    quantized = quantized if isinstance(quantized, dict) else {}
    if isinstance(text, dict) and isinstance(text.get("model_type"), str):
        fields = text  # of a model of images and words, the part of words
    unwanted = ("model_type", "torch_dtype", "dtype", "quantization_config", "auto_map")
    dtype = fields.get("dtype") or fields.get("torch_dtype")
    plain = {name: value for name, value in fields.items() if name not in unwanted}
    kept, bits = str(quantized.get("quant_method", "")), quantized.get("bits", 4)
    return Configuration(name, fields["model_type"], plain, dtype=dtype, weights=kept, bits=bits if bits == 8 else 4)


def hub_adapter(address: Address) -> Adapter:
    """Return the adapter of an `hf:` address; raises StudyError where its sizes are not known."""
    known = configuration(address.function)
    classes = {"SequenceClassification": 2, "ImageClassification": known.classes}.get(known.task)
    target = Array((), "int32", classes) if classes else Array((None,), "int32", known.vocabulary)
    unit = "image" if known.kind in IMAGES else "sequence"
    declared = Declaration(
        input=_inputs(known),
        target={"labels": target},
        optimizer="AdamW",
        batch_size=64 if unit == "image" else 8,
        sequence_length=min(known.longest, LENGTH) if unit == "sequence" else None,
        unit=unit,
        source=f"{PREFIX}{known.name}, {HUB_TABLE.name if known.parameters else 'config.json'}",
        functions=frozenset({"model"}),
        framework=TORCH,
        tuning={"precision": "bfloat16"} if known.in_bfloat16 else {},
    )
    functions = SimpleNamespace(model=lambda options: known.model(options.get("layers", None)), configuration=known)
    return Adapter(address, declared, lambda: functions)


class NamedModel(TorchFile):
    """A model by its name alone, whose options say how it is trained."""

    @property
    def usual(self) -> dict[str, Any]:
        """The tuning where the options do not say."""
        return {}

    @property
    def option_names(self) -> tuple[str, ...]:
        """The options that it has."""
        return TUNING

    def _stated(self) -> dict[str, Any]:
        values = {name: self.options.get(name, None) for name in TUNING}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def tunable(self) -> bool:
        """Return whether its options leave open how it is trained."""
        return "gradient_checkpointing" not in self._stated()

    @property
    def tuning(self) -> Tuning:
        """The tuning that its options say."""
        return Tuning.of(self.usual | self._stated(), self.address.text)

    @property
    def compiled(self) -> bool:
        """Return whether it is compiled: products in 8 bits are, else their casts take what they save."""
        return self.tuning.float8

    def traced_optimizer(self, module: Any) -> Any:
        """The optimiser with a fused update, as trainers use it."""
        from whichdevice.models.lora import optimizer_for

        return optimizer_for(module, self.tuning)

    def check_options(self) -> None:
        """Raise StudyError on an option that it has not."""
        for name in self.options.given:
            if name not in self.option_names:
                raise StudyError(f"{self.address.text}: no option {name}; there are {', '.join(self.option_names)}")


class HubModel(NamedModel):
    """A model of Hugging Face as a workload."""

    def __init__(self, adapter: Adapter, options: Options) -> None:
        super().__init__(adapter, options)
        self.configuration: Configuration = adapter.load().configuration
        self.layers = self.configuration.layers
        self.declared = replace(self.declared, optimizer=self._stated().get("optimizer", self.declared.optimizer))
        self.objective = self._objective()
        if self.objective is not None:
            self._shapes = inputs, targets = self.objective.shapes(self.configuration.vocabulary)
            self.unit = self.objective.unit
            self.declared = replace(self.declared, input=inputs, target=targets, unit=self.unit)

    def _objective(self) -> Objective | None:
        """Return what it is trained for, if not its own loss; raises StudyError where a model has no such objective."""
        name = self.options.get("objective", None) or DEFAULT
        if (kind := find_objective(name)) is None:
            return None
        if self.configuration.task not in kind.tasks:
            known = {"CausalLM": "a decoder", "SequenceClassification": "an encoder"}
            needed = " or ".join(known[task] for task in kind.tasks)
            raise StudyError(f"{self.address.text}: objective {name} needs {needed}")
        return kind({option: self.options.get(option, None) for option in kind.options}, self.address.text)

    @property
    def usual(self) -> dict[str, Any]:
        """One pass a step, of images and of an objective that needs the whole batch."""
        whole = self.unit == "image" or (self.objective is not None and self.objective.in_one_pass)
        return {"gradient_accumulation": 1} if whole else {}

    @property
    def option_names(self) -> tuple[str, ...]:
        """The options that it has, its objective's among them."""
        return (*TUNING, "length", "layers", "objective", *(self.objective.options if self.objective else ()))

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """Return what it is trained for where its name chose that, what an example is, and what stands for its type."""
        note = "" if self.objective is None else self.objective.note
        speech = "an example is 30 s of speech: Whisper fills up shorter ones" * (self.configuration.kind == "whisper")
        return [*filter(None, [note, speech, self.configuration.stand_in])]

    def cache_bytes(self) -> float | None:
        """Bytes of keys and values of all layers, of a decoder with equal ones."""
        known = self.configuration
        heads = known.number("num_key_value_heads", "num_attention_heads", "n_head", "n_heads")
        whole = known.number("num_attention_heads", "n_head", "n_heads")
        width = known.number("hidden_size", "n_embd", "d_model")
        layers = known.layers if known.task == "CausalLM" and not known.number(*EXPERTS) else None
        if layers is None or not (heads and whole and width):
            return None
        return 2.0 * 2 * layers * heads * (known.number("head_dim") or width // whole)

    def copies(self, size: int, four_bits: bool = False) -> dict[str, float]:
        """Return bytes of `size` sequences that versions of its libraries hold besides, or leave to the host.

        `logits`: transformers holds a second copy in float32. `single`: peft's preparation for weights of 4 bits holds
        the others in float32 beside 16 bits, and with them the `inputs` of layers, which JAX may leave to the host.
        """
        known, words = self.configuration, size * (self.length or 0)
        if known.task != "CausalLM":
            return {}
        width, matrices = known.number("hidden_size", "n_embd", "d_model"), 2 - known.number("tie_word_embeddings")
        inputs = 2.0 * words * width * (known.layers or 1)
        single = inputs + 4.0 * width * matrices * known.vocabulary
        single *= four_bits or self.tuning.method == "qlora"
        return {"logits": 4.0 * words * known.vocabulary, "single": single, "inputs": inputs}

    def made_module(self, *layers: int) -> Any:
        """The model, perhaps of fewer layers."""
        if not layers:
            model = super().made_module()
            if self.objective is None:
                return model
            return self.objective.module(model, self._built if self.tuning.method == "full" else None)
        given = {**self.options.given, "layers": layers[0]}
        return HubModel(self.adapter, replace(self.options, given=given)).made_module()

    @property
    def length(self) -> int | None:
        """The option `length`, else what the study says."""
        return int(self.options.get("length", None) or super().length or LENGTH)


def _inputs(known: Configuration) -> Tree:
    if known.kind == "whisper":
        return {"input_features": Array((int(known.fields.get("num_mel_bins", 80)), 3000))}
    if known.kind in IMAGES:
        side = known.number("image_size") or SIDE
        return {"pixel_values": Array((known.number("num_channels") or 3, side, side))}
    return {"input_ids": Array((None,), "int32", known.vocabulary)}
