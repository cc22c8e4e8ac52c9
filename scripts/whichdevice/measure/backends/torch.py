"""PyTorch with Keras on CPU and NVIDIA GPUs: steps over data on the device, compiled by PyTorch where there is CUDA."""

import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.base.processes import quick_imports
from whichdevice.measure.backends.base import Backend, Forward, OperationLoop, TrainingLoop, backend, huge_pages
from whichdevice.measure.backends.number_formats import emulated, product_format
from whichdevice.measure.machine.gpu import cuda_variables
from whichdevice.measure.record import Request, Types
from whichdevice.models.workloads.base import OperationWorkload, Split, TrainingWorkload

if TYPE_CHECKING:
    from whichdevice.measure.backends.torch_replicas import Team

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
    """PyTorch with Keras; several replicas are processes, of which this one is rank 0."""

    name = "torch"
    package = "torch"
    precisions = ("float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16")
    activation_copies = 1.8  # convolutions 1.6, a decoder less than one

    @staticmethod
    def environment(request: Request, threads: int) -> dict[str, str]:
        """Keras on the device that is asked for, as many GPUs as replicas; `fit` runs with the system's allocator."""
        on_gpu = request.kind == "gpu"
        variables = {
            "KERAS_BACKEND": "torch",
            "KERAS_TORCH_DEVICE": "cuda" if on_gpu else "cpu",  # Keras would take what it sees
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # counting GPUs then makes no context, which could not be forked
            "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",  # without a look-up of the host's name
        }
        if not on_gpu and request.loop == "epoch":
            variables |= KEEP_MEMORY | huge_pages(request)
        return variables | (cuda_variables(request.replicas) if on_gpu else {"CUDA_VISIBLE_DEVICES": "-1"})

    def __init__(self, request: Request, threads: int) -> None:
        super().__init__(request, threads)
        self._team: Team | None = None
        self._steps = "not run yet"
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
        torch.backends.cudnn.benchmark = self.request.loop == "epoch"
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # sums stay float32
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

    def initialise(self) -> None:
        """Take the devices: the CUDA context is made here, or ranks are started and connected."""
        from whichdevice.measure.backends.torch_devices import require_devices, take_device

        require_devices(self.request)
        if self.request.replicas == 1:
            take_device(self.request, 0, self.threads)
        else:
            from whichdevice.measure.backends.torch_replicas import Team

            self._team = Team(self.request, self.threads)

    def _report_steps(self, steps: str) -> None:
        self._steps = steps

    def operation_loop(self, workload: OperationWorkload, random: np.random.Generator) -> OperationLoop:
        """Operands in the precision asked for, on every replica."""
        import keras

        from whichdevice.measure.backends.torch_operation import TorchOperation

        self._operates = True
        dtype = keras.config.dtype_policy().compute_dtype
        device = "cuda" if self.request.kind == "gpu" else "cpu"
        if self._team is None:
            return TorchOperation(workload, random, dtype, device, self._report_steps)
        from whichdevice.measure.backends.torch_replicas import ReplicatedOperation

        build = partial(TorchOperation, workload, random, dtype, device, self._report_steps)
        return ReplicatedOperation(self._team, self._team.together("operation", build, workload, random, dtype)[0])

    def training_loop(self, workload: TrainingWorkload, model: Any, train: Split, validation: Split) -> TrainingLoop:
        """`epoch`: data on the device, gathered by each step; `fit`: gathered on the host and moved by Keras."""
        from whichdevice.measure.backends.keras_on_torch import build_loop

        build = partial(build_loop, self.request, workload, model, train, validation, self._report_steps)
        if self._team is None:
            return build()
        from whichdevice.measure.backends.torch_replicas import ReplicatedTraining

        nothing = Split({}, validation.examples)  # rank 0 alone evaluates
        loop = self._team.together("training", build, workload, model, train, nothing)[0]
        return ReplicatedTraining(self._team, loop, model, self.request.replicas)

    def forward_pass(self, model: Any) -> Forward:
        """`epoch`: without gradients, compiled on a GPU as in training; `fit`: Keras' own."""
        from whichdevice.measure.backends.keras_on_torch import torch_forward

        if self._team is not None:
            raise StudyError(f"{self.request.device}: mode predict of PyTorch runs on one replica, not on several")
        if self.request.loop == "fit":
            self._report_steps("torch.compile" if model.jit_compile else "eager")
            return model.predict_on_batch
        on_gpu = self.request.kind == "gpu"
        return torch_forward(model, "cuda" if on_gpu else "cpu", on_gpu, self._report_steps)

    def gap_share(self, run: Callable[[], object]) -> float | None:
        """Return the share where Python launches operations one by one and each ends before the next: eager, on a CPU.

        An upper bound: the profiler's own work falls mostly into the gaps.
        """
        if self.request.kind != "cpu" or self._steps != "eager":
            return None
        with self._torch.profiler.profile(activities=[self._torch.profiler.ProfilerActivity.CPU]) as profile:
            began = time.perf_counter()
            run()
            seconds = time.perf_counter() - began
        spans = [(event.time_range.start / 1e6, event.time_range.end / 1e6) for event in profile.events() or ()]
        return max(0.0, 1 - _covered(spans) / seconds)

    def flags(self) -> Mapping[str, str]:
        """How steps run, compiler, threads and precision, as PyTorch is really set."""
        backends, ranks = self._torch.backends, {"cpu": "gloo", "gpu": "nccl"}
        return {
            "steps": self._steps,
            "jit_compile": str(self._steps == "torch.compile").lower(),
            "threads": str(self._torch.get_num_threads()),
            "float32_matmul_precision": self._torch.get_float32_matmul_precision(),
            "cudnn_tf32": str(backends.cudnn.allow_tf32).lower(),
            "cudnn_benchmark": str(backends.cudnn.benchmark).lower(),
            "onednn": str(backends.mkldnn.is_available()).lower(),
            **({"ranks": ranks[self.request.kind]} if self._team else {}),
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
        return self._torch.cuda.get_device_name(0), self.request.replicas

    def peak_device_memory(self) -> int | None:
        """Most that rank 0's arrays took at once; what PyTorch's allocator reserved is more."""
        return int(self._torch.cuda.max_memory_allocated()) if self.request.kind == "gpu" else None

    def peak_host_memory(self) -> int:
        """Return the bytes of all ranks, added up: pages that they share count in each."""
        if self._team is None:
            return super().peak_host_memory()
        return sum(self._team.together("peak_host_memory", super().peak_host_memory))

    def is_out_of_memory(self, error: BaseException) -> bool:
        """MemoryError, CUDA's or PyTorch's allocator, here or on another rank."""
        from whichdevice.measure.backends.torch_devices import is_out_of_memory

        return is_out_of_memory(error)


def _covered(spans: list[tuple[float, float]]) -> float:
    """Length covered by at least one of the spans (start, end), whatever their nesting."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
