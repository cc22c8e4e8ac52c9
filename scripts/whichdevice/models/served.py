"""A decoder as a server holds it: its weights in a format, its cache of keys and values, and what one token reads.

    served_model("meta-llama/Llama-3.1-8B").weights_bytes(WEIGHT_FORMATS["fp8"])

Sizes come from the model's configuration: `hf:` names of llm_models.csv, or a folder with a config.json.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from whichdevice.base.code_hash import rows_of_code
from whichdevice.base.errors import StudyError
from whichdevice.models.address import config_file, hub_model
from whichdevice.models.hub import stored_weights
from whichdevice.models.hugging_face import LAYERS, LENGTHS, PREFIX, Configuration, configuration

Operations = Literal["16 bits", "8-bit floats", "8-bit integers", "4-bit floats"]
PLAIN = ("gpt2", "gpt_neox", "opt", "mpt", "falcon", "phi")  # with two products in a feed-forward layer, not three
# Of so many layers one sees the whole context, the others a window of it; 0: none does.
WHOLE_EVERY = {"mistral": 0, "gemma2": 2, "gemma3_text": 6, "gpt_oss": 2, "llama4_text": 4}
STATE_EVERY = {"qwen3_next": 4, "qwen3_5_moe_text": 4, "qwen3_5_moe": 4, "qwen3_5_text": 4}  # the others keep a state
STATE_BYTES = 4  # a value of a layer that keeps a state


@dataclass(frozen=True)
class WeightFormat:
    """The format of kept weights. Bits a weight are the format's, with the scales of its groups.

    `more_bits` is for half of the value and second feed-forward matrices, which llama.cpp's mixtures keep better.
    `operations` is the format of the products: 16 bits where weights are unpacked first.
    """

    name: str
    bits: float
    attention_bits: float
    embedding_bits: float
    output_bits: float
    operations: Operations
    source: str
    more_bits: float | None = None
    gguf: bool = False


def _weight_format(row: Mapping[str, str]) -> WeightFormat:
    bits = {name: float(value) if value else None for name, value in row.items() if name.endswith("bits")}
    return WeightFormat(**{**row, **bits, "gguf": row["gguf"] == "yes"})  # type: ignore[arg-type]


WEIGHT_FORMATS = {row["name"]: _weight_format(row) for row in rows_of_code(__file__, "weight_formats.csv")}
OTHER_NAMES = {
    "bfloat16": "bf16", "fp16": "bf16", "float16": "bf16", "f16": "bf16", "16": "bf16",
    "w8a8": "int8", "int4": "awq", "w4a16": "awq", "4bit": "awq", "4": "awq", "8": "fp8", "fp4": "nvfp4",
}  # fmt: skip
# Endings of names whose weights are published in a format: the model is the one without it.
PUBLISHED = re.compile(r"-(fp8|nvfp4|awq|gptq|int8|int4|w4a16|w8a8|mxfp4|gguf)(-int4|-int8|-dynamic)?(?=-|$)", re.I)


@dataclass(frozen=True)
class ServedModel:
    """The sizes that a server's time and memory depend on.

    `attention` is the number of weights of a layer's attention, on average. A layer caches `latent` values a token, or
    keys and values of `kv_heads`. `windowed_layers` see `window` tokens, `state_layers` keep `state` values a request.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    gated: bool
    parameters: float
    tied: bool
    attention: float
    longest: int
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    dense_layers: int = 0  # of a mixture of experts, those that have none
    latent: int = 0
    window: int | None = None
    windowed_layers: int = 0
    state: int = 0
    state_layers: int = 0
    native: str = "bf16"  # the format of the published weights
    stored: float = 0.0  # bytes of the files, in that format; 0: not known

    @property
    def embedding(self) -> float:
        """Weights of the table of words."""
        return float(self.vocabulary) * self.hidden

    @property
    def matrices(self) -> int:
        """Products of a feed-forward layer."""
        return 3 if self.gated else 2

    @property
    def expert_layers(self) -> int:
        """Layers with experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def always(self) -> float:
        """Weights of feed-forward layers that every token uses: dense ones, shared experts and routers."""
        dense = (self.layers - self.expert_layers) * self.matrices * self.ffn
        shared = self.expert_layers * (self.matrices * self.shared_ffn + self.experts)
        return float(self.hidden) * (dense + shared)

    @property
    def expert(self) -> float:
        """Weights of one expert in each layer that has experts."""
        return float(self.expert_layers) * self.matrices * self.hidden * self.expert_ffn

    @property
    def computed(self) -> float:
        """Weights by the sizes, without biases and scales of norms."""
        tables = self.embedding * (1 if self.tied else 2)
        return tables + self.layers * self.attention + self.always + self.experts * self.expert

    def experts_touched(self, tokens: float) -> float:
        """Return how many experts of a layer a step of so many tokens reads, at even routing."""
        if not self.experts:
            return 0.0
        return self.experts * (1 - (1 - self.experts_per_token / self.experts) ** tokens)

    def weights_bytes(self, kept: WeightFormat) -> float:
        """Return bytes of all weights in a format."""
        if self.stored and kept.name == self.native:
            return self.stored
        return self._bytes(kept, float(self.experts)) + self._table_bytes(kept)

    def as_stored(self, kept: WeightFormat) -> WeightFormat:
        """Return a format with the bits a weight of the model's own files where they have more, as GPTQ's of 8 bits."""
        if not self.stored or kept.name != self.native:
            return kept
        also_attention = kept.attention_bits == kept.bits
        packed = self.always + self.experts * self.expert + also_attention * self.layers * self.attention
        usual = self._bytes(kept, float(self.experts)) + self._table_bytes(kept)
        bits = kept.bits + max(self.stored - usual, 0.0) * 8 / packed
        return replace(kept, bits=bits, attention_bits=bits if also_attention else kept.attention_bits)

    def read_bytes(self, kept: WeightFormat, tokens: float = 1) -> float:
        """Return bytes of the weights that one step of so many tokens reads; of the table of words it reads rows."""
        return self._bytes(self.as_stored(kept), self.experts_touched(tokens))

    def _table_bytes(self, kept: WeightFormat) -> float:
        """Bytes of the table of words; tied, it is the output's."""
        return 0.0 if self.tied else self.embedding * kept.embedding_bits / 8

    def _bytes(self, kept: WeightFormat, experts: float) -> float:
        output = self.embedding * (max(kept.output_bits, kept.embedding_bits) if self.tied else kept.output_bits)
        feed_forward = self.always + experts * self.expert
        bits = output + self.layers * self.attention * kept.attention_bits + feed_forward * kept.bits
        if kept.more_bits is not None:  # half of the matrices of values and of the second feed-forward products
            values = 0.0 if self.latent else float(self.layers) * self.hidden * self.kv_heads * self.head_dim
            bits += (values + feed_forward / self.matrices) / 2 * (kept.more_bits - kept.bits)
        return (bits + max(self.parameters - self.computed, 0.0) * 16) / 8  # biases and norms

    @property
    def token_values(self) -> int:
        """Values that a layer caches for a token."""
        return self.latent or 2 * self.kv_heads * self.head_dim

    def cache_bytes_per_token(self, bits: float = 16) -> float:
        """Return bytes that the cache grows by with each token, in layers that see the whole context."""
        return (self.layers - self.windowed_layers - self.state_layers) * self.token_values * bits / 8

    def cache_bytes(self, context: float, bits: float = 16) -> float:
        """Return bytes of the cache of one request of so many tokens."""
        limited = min(context, self.window or math.inf) * self.windowed_layers * self.token_values * bits / 8
        states = float(self.state_layers) * self.state * STATE_BYTES
        return self.cache_bytes_per_token(bits) * context + limited + states


def weight_format(name: str) -> WeightFormat:
    """Return the format of this name; raises StudyError."""
    plain = name.strip().lower().replace("-", "_")
    known = WEIGHT_FORMATS.get(OTHER_NAMES.get(plain, plain))
    if known is None:
        raise StudyError(f"--weights {name}: no such format; there are {', '.join(WEIGHT_FORMATS)}")
    return known


def served_model(name: str) -> ServedModel:
    """Return a decoder by its name, its folder or its config.json; raises StudyError where it has no such sizes."""
    plain = name.removeprefix(PREFIX)
    base = without_format(plain)
    known = configuration(base)
    model = replace(served(known), name=plain)
    if base == plain or (ending := PUBLISHED.search(plain)) is None:
        return model if known.parameters else _as_stored(model, known)
    kept = ending[1].lower()
    return replace(model, native="q4_k_m" if kept == "gguf" else weight_format(kept).name)


def _as_stored(model: ServedModel, known: Configuration) -> ServedModel:
    """The model with the weights of its files, where their headers are in reach.

    Raises StudyError where they hold fewer weights than its configuration: how it shares them is not known.
    """
    files = stored_weights(known.name, known.bits)
    if files is None:
        return model
    model = replace(model, tied=files.tied)
    if model.computed > MAX_COUNTED * files.count:
        raise StudyError(
            f"{PREFIX}{known.name}: its files hold {files.count / 1e9:.3g} billion weights, and its config.json makes "
            f"{model.computed / 1e9:.3g} billion: {known.kind} is a kind of model that is not known here"
        )
    native = OF_METHODS.get(known.weights) or (known.weights if known.weights in WEIGHT_FORMATS else files.format)
    return replace(model, parameters=float(files.count), native=native, stored=float(files.nbytes))


MAX_COUNTED = 1.1  # weights by a configuration, of those in the files
OF_METHODS = {"bitsandbytes": "awq"}  # 4 bits, written out in 16 before a product


def without_format(name: str) -> str:
    """Return the name of the model whose weights are published in a format, often by somebody else; else the name."""
    if not PUBLISHED.search(name) or hub_model(name) or config_file(name):
        return name
    base = PUBLISHED.sub("", name)
    known = next((text for text in (base, base.rpartition("/")[2]) if hub_model(text)), None)
    return known or (base if name.lower().endswith("gguf") else name)  # whose own config.json says the format


def served(config: Configuration) -> ServedModel:
    """Return the sizes of a configuration; raises StudyError where it is no decoder."""
    number, fields = config.number, config.fields
    layers, hidden = number(*LAYERS), number("hidden_size", "n_embd", "d_model")
    heads = number("num_attention_heads", "n_head", "n_heads")
    if config.task != "CausalLM" or not (layers and hidden and heads and config.number("vocab_size")):
        raise StudyError(f"{PREFIX}{config.name}: writes no text word by word; use --mode predict")
    one_head = bool(fields.get("multi_query")) and not fields.get("new_decoder_architecture")
    kv_heads = 1 if one_head else number("num_key_value_heads", "num_kv_heads") or heads
    head_dim = number("head_dim") or hidden // heads
    ffn = number("intermediate_size", "ffn_dim", "n_inner") or (number("expansion_ratio") or 4) * hidden
    experts = number("n_routed_experts", "num_local_experts", "num_experts")
    expert_ffn = number("moe_intermediate_size", "intermediate_size") if experts else 0
    shared = number("shared_expert_intermediate_size") or number("n_shared_experts") * expert_ffn
    dense = number("first_k_dense_replace") if experts else 0
    if config.kind == "llama4_text":
        shared, ffn = expert_ffn, number("intermediate_size_mlp")
        dense = layers - layers // (number("interleave_moe_layer_step") or 1)
    window, windowed = _window(config, layers)
    state_every = STATE_EVERY.get(config.kind, 0)
    states = layers - layers // state_every if state_every else 0
    gates = 3 if states else 2  # with states the output has a gate
    attention = _latent_attention(config, hidden, heads) or hidden * head_dim * (gates * heads + 2.0 * kv_heads)
    if states:
        attention = (states * _linear_attention(config, hidden) + (layers - states) * attention) / layers
    small = ServedModel(
        config.name, layers, hidden, heads, kv_heads, head_dim, ffn, config.vocabulary, config.kind not in PLAIN,
        0.0, bool(fields.get("tie_word_embeddings", config.kind in TIED)), attention,
        number(*LENGTHS) or 2048,
        experts, number("num_experts_per_tok"), expert_ffn, shared, dense,
        number("kv_lora_rank") and number("kv_lora_rank") + number("qk_rope_head_dim"), window, windowed,
        number("linear_num_value_heads") * number("linear_key_head_dim") * number("linear_value_head_dim"), states,
        config.weights if config.weights in WEIGHT_FORMATS else "bf16",
    )  # fmt: skip
    return replace(small, parameters=float(config.parameters or small.computed))


TIED = ("gemma", "gemma2", "gemma3_text", "gpt2", "opt", "mpt", "falcon")  # by transformers' default


def _window(config: Configuration, layers: int) -> tuple[int | None, int]:
    """The window and how many layers have it."""
    window = config.number("sliding_window", "attention_chunk_size")
    types = config.fields.get("layer_types")
    if not window or config.fields.get("use_sliding_window") is False:
        return None, 0
    if types:
        limited = sum("full" not in kind and "linear" not in kind for kind in types)
    elif config.kind in WHOLE_EVERY or config.number("sliding_window_pattern"):
        every = config.number("sliding_window_pattern") or WHOLE_EVERY[config.kind]
        limited = layers - (layers // every if every else 0)
    else:
        return None, 0
    return (window, limited) if limited else (None, 0)


def _latent_attention(config: Configuration, hidden: int, heads: int) -> float:
    """Weights of a layer's latent attention; 0 of a model that has none."""
    number = config.number
    latent, rope, value = number("kv_lora_rank"), number("qk_rope_head_dim"), number("v_head_dim")
    if not latent:
        return 0.0
    low, plain = number("q_lora_rank"), number("qk_nope_head_dim")
    query = heads * (rope + plain)
    queries = low * (hidden + query) if low else hidden * query
    index = number("index_n_heads") * number("index_head_dim")  # of sparse attention: which tokens to look at
    indexer = low * index + hidden * (number("index_head_dim") + number("index_n_heads"))
    return queries + hidden * (latent + rope) + heads * latent * (plain + value) + heads * value * hidden + indexer


def _linear_attention(config: Configuration, hidden: int) -> float:
    """Weights of a layer that keeps a state."""
    keys, heads = config.number("linear_num_key_heads"), config.number("linear_num_value_heads")
    keys, values = keys * config.number("linear_key_head_dim"), heads * config.number("linear_value_head_dim")
    return hidden * (2 * keys + 3 * values + 2 * heads)
