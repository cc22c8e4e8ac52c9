"""Layers of LoRA and of 4-bit weights, and optimisers of a byte a weight: what models/tuning.py says, in PyTorch.

They have the sizes and kernels of peft's and bitsandbytes'. They are for traces: nobody trains with them.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from whichdevice.base.errors import StudyError
from whichdevice.models.tuning import Tuning

QUERIES_AND_VALUES = re.compile(r"(^|\.)(q_proj|v_proj|q_lin|v_lin|query|value|query_proj|value_proj|q|v)$")
OF_DIFFUSERS = re.compile(r"\.(to_q|to_k|to_v|to_out\.0)$")  # as diffusers' scripts choose
ALL_OF_ATTENTION = re.compile(r"(^|\.)(qkv_proj|query_key_value|Wqkv|c_attn|in_proj)$")
REPEATED = re.compile(r"\.\d+\.")  # in the name of a layer of one of many blocks: no head
HEADS = ("lm_head", "embed_out", "output_layer", "score", "classifier", "proj_out")
KEPT_OF_T5 = "wo"  # transformers does not quantise it: T5 asks for the number format of its weights
BLOCK = 64  # weights of a 4-bit layer that share a scale; 256 scales of one byte share another of four


def tuned(module: nn.Module, tuning: Tuning, label: str) -> nn.Module:
    """Return a module with frozen parts, adapters and checkpointing; raises StudyError where it has no such layers."""
    if tuning.method != "full":
        adapt(module, tuning, label)
    if tuning.gradient_checkpointing:
        enable = getattr(module, "gradient_checkpointing_enable", None)
        if enable is None:
            raise StudyError(
                f"{label}: GRADIENT_CHECKPOINTING needs a model of Hugging Face; in your own call "
                "torch.utils.checkpoint.checkpoint"
            )
        enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return module


def optimizer_for(module: nn.Module, tuning: Tuning) -> torch.optim.Optimizer:
    """Return the optimiser over what is trained."""
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if tuning.optimizer == "SGD":
        return torch.optim.SGD(trained, 1e-3)
    return FusedAdam(trained, torch.uint8 if tuning.optimizer == "AdamW8bit" else None)


def adapt(module: nn.Module, tuning: Tuning, label: str) -> None:
    """Freeze the module, give its linear layers adapters, and hold their weights in 4 bits with `qlora`."""
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    layers = list(linear_layers(module))
    wanted = {name for name, _ in layers}
    if tuning.lora_layers == "attention":
        wanted = {name for name in wanted if QUERIES_AND_VALUES.search(name) or OF_DIFFUSERS.search(name)}
        wanted = wanted or {name for name, _ in layers if ALL_OF_ATTENTION.search(name)}
    if not wanted:
        raise StudyError(f"{label}: no linear layers that LoRA could take")
    for name, layer in layers:
        owner, _, last = name.rpartition(".")
        held: nn.Module = Linear4bit(layer) if tuning.method == "qlora" and last != KEPT_OF_T5 else layer
        if name in wanted:
            held = Adapted(held, *sizes_of(layer), tuning, layer.weight.dtype)
        setattr(module.get_submodule(owner), last, held)
    if tuning.method == "qlora":
        for name, experts in fused_experts(module):
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, Experts4bit(experts))
    if tuning.gradient_checkpointing and hasattr(module, "enable_input_require_grads"):
        module.enable_input_require_grads()


def linear_layers(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Linear layers by name, without those that score words or classes."""
    for name, layer in module.named_modules():
        linear = isinstance(layer, nn.Linear) or type(layer).__name__ == "Conv1D"  # GPT-2's, of transformers
        if linear and (name.rpartition(".")[2] not in HEADS or REPEATED.search(name)):
            yield name, layer


def fused_experts(module: nn.Module) -> list[tuple[str, nn.Module]]:
    """Return modules by name that hold all experts of a layer in one tensor, as transformers 5 does."""
    return [
        (name, part)
        for name, part in module.named_modules()
        if all(isinstance(getattr(part, weights, None), nn.Parameter) for weights in ("gate_up_proj", "down_proj"))
        and part.gate_up_proj.ndim == 3  # type: ignore[union-attr, operator]
    ]


def sizes_of(layer: nn.Module) -> tuple[int, int]:
    """Inputs and outputs of a linear layer."""
    rows, columns = layer.weight.shape
    return (columns, rows) if isinstance(layer, nn.Linear) else (rows, columns)


class Adapted(nn.Module):
    """A frozen linear layer and LoRA's two thin ones (Hu et al., 2021)."""

    def __init__(self, base: nn.Module, inputs: int, outputs: int, tuning: Tuning, dtype: torch.dtype) -> None:
        super().__init__()
        self.active = True
        self.base, self.dropout, rank = base, nn.Dropout(tuning.lora_dropout), tuning.lora_rank
        self.down = nn.Linear(inputs, rank, bias=False, dtype=dtype)
        self.up = nn.Linear(rank, outputs, bias=False, dtype=dtype)

    @property
    def weight(self) -> Tensor:
        """The frozen layer's, whose number format some models ask for."""
        return self.base.weight

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        if not self.active:
            return self.base(x)
        return torch.add(self.base(x), self.up(self.down(self.dropout(x))), alpha=2.0)


@contextmanager
def without_adapters(module: nn.Module) -> Iterator[None]:
    """Let a module's frozen layers work alone."""
    adapted = [layer for layer in module.modules() if isinstance(layer, Adapted)]
    for layer in adapted:
        layer.active = False
    try:
        yield
    finally:
        for layer in adapted:
            layer.active = True


class Linear4bit(nn.Module):
    """A frozen linear layer with 4-bit NormalFloat weights, doubly quantised (Dettmers et al., 2023).

    It multiplies in its input's number format, for which a kernel writes the weights out, forward and backward: so does
    MatMul4Bit of bitsandbytes (bitsandbytes/autograd/_functions.py, backends/cuda/ops.py; read at commit 95f9af30), but
    for forward products of at most 1,536 rows, which may unpack as they multiply. Both copies die with their product.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        inputs, outputs = sizes_of(layer)
        self.outputs = outputs
        self.register_buffer("packed", torch.zeros(inputs * outputs // 2, dtype=torch.uint8))
        scales = -(-inputs * outputs // BLOCK)
        self.register_buffer("scales", torch.zeros(scales, dtype=torch.uint8))
        self.register_buffer("scales_of_scales", torch.zeros(-(-scales // 256)))
        self.bias = layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """[..., inputs] to [..., outputs]."""
        product = _FourBits.apply(x, self.packed, self.outputs)
        return product if self.bias is None else product + self.bias


class Experts4bit(nn.Module):
    """Frozen experts of a layer in 4 bits, one after the other, each with an even share of the words.

    So bitsandbytes holds them: its kernels write out one expert at a time.
    """

    def __init__(self, experts: Any) -> None:
        super().__init__()
        self.count, self.activation = len(experts.gate_up_proj), getattr(experts, "act_fn", nn.functional.silu)
        for name in ("gate_up_proj", "down_proj"):
            size = getattr(experts, name)[0].numel()
            self.register_buffer(name, torch.zeros(self.count, size // 2, dtype=torch.uint8))
            self.register_buffer(f"scales_of_{name}", torch.zeros(self.count, -(-size // BLOCK), dtype=torch.uint8))

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """[words, hidden] to [words, hidden], of each word its experts' sum."""
        words, width = hidden_states.shape
        places = torch.arange(-(-top_k_index.numel() // self.count), device=hidden_states.device) % words
        total = torch.zeros_like(hidden_states)
        inner = 2 * self.gate_up_proj.shape[1] // width  # of gate and other half together
        for expert in range(self.count):
            both = _FourBits.apply(hidden_states[places], self.gate_up_proj[expert], inner)
            gate, other = both.chunk(2, dim=-1)
            product = _FourBits.apply(self.activation(gate) * other, self.down_proj[expert], width)
            total = total.index_add(0, places, product * top_k_weights[places, :1].to(product.dtype))
        return total


class _FourBits(torch.autograd.Function):
    """x · Wᵀ with W written out from 4 bits for the product alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Tensor, outputs: int) -> Tensor:
        """Keep the packed weights alone, as bitsandbytes does since 0.44: before, the input too."""
        ctx.save_for_backward(packed)
        ctx.outputs = outputs
        return x @ _written_out(packed, outputs, x.dtype).T

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        """The gradient of x alone."""
        return gradient @ _written_out(ctx.saved_tensors[0], ctx.outputs, gradient.dtype), None, None


def _written_out(packed: Tensor, outputs: int, dtype: torch.dtype) -> Tensor:
    pairs = packed.view(outputs, -1, 1)
    return pairs.expand(-1, -1, 2).to(dtype).view(outputs, -1)


class FusedAdam(torch.optim.Optimizer):
    """The sizes and kernels of AdamW whose update is fused, as trainers use it: no copies for a while.

    With `state` uint8 the moments take one byte a weight each, in blocks with a scale.
    """

    def __init__(self, parameters: list[nn.Parameter], state: torch.dtype | None = None) -> None:
        super().__init__(parameters, {})
        self.of_state = state

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Read gradients, weights and moments, write weights and moments, each once."""
        for group in self.param_groups:
            held = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in held:
                if not self.state[parameter]:
                    moments = (torch.zeros_like(parameter, dtype=self.of_state or parameter.dtype) for _ in range(2))
                    self.state[parameter] = dict(zip(("first", "second"), moments, strict=True))
            for parameter in held:
                parameter.add_(parameter.grad)
                for moment in self.state[parameter].values():
                    moment.add_(1)
