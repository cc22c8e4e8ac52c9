"""Number formats of storage and products, and whether a device has such products in hardware or they are emulated."""

from whichdevice.base.cpu import instruction_sets
from whichdevice.measure.machine.gpu import NvmlError, handle, open_nvml, visible_gpus

CPU_SETS = {"bfloat16": {"avx512_bf16", "amx_bf16", "bf16"}, "float16": {"avx512_fp16", "amx_fp16"}}
# NVIDIA, CUDA programming guide, "Arithmetic instructions" and "Tensor cores".
GPU_CAPABILITIES = {"tf32": (8, 0), "bfloat16": (8, 0), "float16": (5, 3)}
TPU_REASONS = {
    "float32": "made of six bfloat16 passes",  # JAX docs, "Matmul precision": the matrix unit multiplies bfloat16
    "tf32": "a TPU has no TF32",
    "float16": "a TPU has no float16",
}


def storage_format(precision: str) -> str:
    """How weights are kept (operands, for a single operation without mixed precision)."""
    return "float32" if precision == "tf32" or precision.startswith("mixed_") else precision


def product_format(precision: str) -> str:
    """Return what the factors of a product are rounded to: float32, tf32, bfloat16 or float16."""
    return precision.removeprefix("mixed_")


def emulated(kind: str, product: str) -> str | None:
    """Return why this host's device of a kind lacks such products in hardware; None where it has them.

    None also stands for a system that does not say (macOS, Arm's float16, a GPU without NVML).
    """
    if kind == "tpu":
        return TPU_REASONS.get(product)
    if kind == "gpu":
        return _on_gpu(product, compute_capability())
    return _on_cpu(product, instruction_sets())


def compute_capability() -> tuple[int, int] | None:
    """Return the first GPU of this process as NVML knows it, e.g. (9, 0); None where it does not say."""
    try:
        nvml = open_nvml()
    except NvmlError:
        return None
    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle(nvml, visible_gpus(nvml)[0]))
    except (nvml.NVMLError, IndexError):
        return None
    return int(major), int(minor)


def _on_cpu(product: str, sets: list[str]) -> str | None:
    if product == "tf32":
        return "a CPU has no TF32"
    needed = CPU_SETS.get(product)
    if needed is None or not sets or needed & set(sets):
        return None
    if product == "float16" and "asimd" in sets:  # Linux lists Arm's float16 under a name that we do not read
        return None
    return f"this CPU has no {product} products ({', '.join(sorted(needed))})"


def _on_gpu(product: str, capability: tuple[int, int] | None) -> str | None:
    least = GPU_CAPABILITIES.get(product)
    if least is None or capability is None or capability >= least:
        return None
    have, want = (f"{major}.{minor}" for major, minor in (capability, least))
    return f"this GPU has no {product} products (compute capability {have}, needs {want})"
