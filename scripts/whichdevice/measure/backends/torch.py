"""PyTorch with Keras on one CPU or NVIDIA GPU: operation by operation, over data on the device."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.processes import quick_imports
from whichdevice.measure.backends.base import (
    Backend,
    Forward,
    OperationLoop,
    TrainingLoop,
    backend,
    built_optimizer,
    huge_pages,
)
from whichdevice.measure.backends.number_formats import emulated, product_format
from whichdevice.measure.machine.gpu import cuda_variables
from whichdevice.measure.record import Request, Types
from whichdevice.models.workloads.base import OperationWorkload, Split, TrainingWorkload

# glibc otherwise gives large arrays back to the system after each step and takes them anew, page by page.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**60)}
SHOWN = (
    *KEEP_MEMORY,
    "GLIBC_TUNABLES",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "OMP_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
)


@backend("torch")
class Torch(Backend):
    """PyTorch with Keras, on one device."""

    name = "torch"
    package = "torch"
    precisions = ("float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16")

    @staticmethod
    def environment(request: Request, threads: int) -> dict[str, str]:
        """Keras on the device that is asked for; memory on the host is kept between steps."""
        on_gpu = request.kind == "gpu"
        variables = {
            "KERAS_BACKEND": "torch",
            "KERAS_TORCH_DEVICE": "cuda" if on_gpu else "cpu",  # Keras would take what it sees
        }
        if on_gpu:
            return variables | cuda_variables(request.replicas)
        return variables | KEEP_MEMORY | huge_pages(request) | {"CUDA_VISIBLE_DEVICES": "-1"}

    def __init__(self, request: Request, threads: int) -> None:
        super().__init__(request, threads)
        self._steps = "eager"  # or how an operation runs
        self._operates = False  # until a loop is built

    def start(self) -> None:
        """Import PyTorch and Keras; set precision and seed."""
        with quick_imports("jax", "tensorflow"):
            import keras
            import torch

            keras.utils.set_random_seed(self.request.seed)  # looks for TensorFlow, and remembers that there is none
        self._torch = torch
        self._set_precision()
        keras.config.set_dtype_policy("float32" if self.request.precision == "tf32" else self.request.precision)

    def _set_precision(self) -> None:
        """Set what PyTorch makes of float32 products, and whether it looks for the best convolutions."""
        torch = self._torch
        tf32 = self.request.precision == "tf32" and self.request.kind == "gpu"
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = tf32
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # sums stay float32
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

    def initialise(self) -> None:
        """Take the device: the CUDA context is made here. Raises StudyError where several are asked for."""
        from whichdevice.measure.backends.torch_devices import require_device, take_device

        if self.request.replicas > 1:
            raise StudyError(f"{self.request.device}: PyTorch runs on one replica, not on {self.request.replicas}")
        require_device(self.request)
        take_device(self.request, self.threads)

    def _report_steps(self, steps: str) -> None:
        self._steps = steps

    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Operands in the precision asked for, on every replica."""
        import keras

        from whichdevice.measure.backends.torch_operation import TorchOperation

        self._operates = True
        dtype = keras.config.dtype_policy().compute_dtype
        device = "cuda" if self.request.kind == "gpu" else "cpu"
        return TorchOperation(workload, random, dtype, device, self._report_steps)

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """Data on the device, gathered by each step."""
        from whichdevice.measure.backends.keras_on_torch import TorchTraining

        model.optimizer = built_optimizer(self.request, workload, model)
        return TorchTraining(workload, model, train, validation, "cuda" if self.request.kind == "gpu" else "cpu")

    def forward_pass(self, model: Any) -> Forward:
        """Return the forward pass without gradients."""
        from whichdevice.measure.backends.keras_on_torch import keras_forward

        return keras_forward(model, "cuda" if self.request.kind == "gpu" else "cpu")

    def flags(self) -> Mapping[str, str]:
        """How steps run, compiler, threads and precision, as PyTorch is really set."""
        backends = self._torch.backends
        return {
            "steps": self._steps,
            "jit_compile": "false",
            "threads": str(self._torch.get_num_threads()),
            "float32_matmul_precision": self._torch.get_float32_matmul_precision(),
            "cudnn_tf32": str(backends.cudnn.allow_tf32).lower(),
            "cudnn_benchmark": str(backends.cudnn.benchmark).lower(),
            "onednn": str(backends.mkldnn.is_available()).lower(),
            **{name: os.environ[name] for name in SHOWN if name in os.environ},
        }

    def types(self) -> Types:
        """Return the formats of Keras' policy and PyTorch's switches; sums are float32 and rounded when stored."""
        import keras

        policy = keras.config.dtype_policy()
        tf32 = policy.compute_dtype == "float32" and self._torch.get_float32_matmul_precision() != "highest"
        unavailable = emulated(self.request.kind, product_format(self.request.precision))
        product = "tf32" if tf32 else policy.compute_dtype
        storage = policy.compute_dtype if self._operates else policy.variable_dtype
        return Types(storage=storage, product=product, sum="float32", emulated=unavailable)

    def device(self) -> tuple[str | None, int]:
        """GPUs by CUDA's name; a CPU has the host's."""
        if self.request.kind == "cpu":
            return None, 1
        return self._torch.cuda.get_device_name(0), 1

    def peak_device_memory(self) -> int | None:
        """Most that arrays took at once; what PyTorch's allocator reserved is more."""
        return int(self._torch.cuda.max_memory_allocated()) if self.request.kind == "gpu" else None

    def is_out_of_memory(self, error: BaseException) -> bool:
        """MemoryError, CUDA's or PyTorch's allocator."""
        from whichdevice.measure.backends.torch_devices import is_out_of_memory

        return is_out_of_memory(error)
