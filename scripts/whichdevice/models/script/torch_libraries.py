"""Libraries that train with PyTorch on several GPUs, in one process on the CPU.

DeepSpeed, Apex and Horovod are what stands for them, whether they are here or not; Lightning's and Hugging Face's
trainers keep the model whole.
"""

import inspect
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial, wraps
from pathlib import Path
from typing import Any

import torch

from whichdevice.models.script.stand_ins import Silent
from whichdevice.models.script.torch_fakes import tree_map_only
from whichdevice.models.script.torch_names import HALVES, Names, Whole, answered, first

BATCHES = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"  # DeepSpeed's
ALONE_IN_LIGHTNING = {"accelerator": "cpu", "devices": 1, "num_nodes": 1, "strategy": "auto", "precision": "32-true"}


class Engine(Whole):
    """Stands for DeepSpeed's: the module, its loss's gradients, and a step of the optimiser after so many batches."""

    local_rank = global_rank = 0
    device = torch.device("cpu")

    def __init__(
        self, module: torch.nn.Module, optimizer: Any, schedule: Any, settings: Mapping[str, Any], world: int = 1
    ) -> None:
        super().__init__(module)
        self.optimizer, self.lr_scheduler = optimizer, schedule
        self.micro_steps = self.global_steps = 0
        total, micro, sums = (given if isinstance(given := settings.get(name), int) else None for name in BATCHES)
        self._sums = sums or max(1, (total or 1) // ((micro or total or 1) * world))
        micro = micro or max(1, (total or 1) // (self._sums * world))
        for name, number in zip(BATCHES, (total or micro * self._sums * world, micro, self._sums), strict=True):
            setattr(self, name, partial(answered, number))
        for name in ("fp16", "bfloat16"):
            setattr(self, f"{name}_enabled", partial(answered, name in _halves(settings)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module with 16-bit inputs in its own format: its weights make the step mixed."""
        kind = next(self.parameters()).dtype
        args, kwargs = tree_map_only(
            torch.Tensor, lambda given: given.to(kind) if given.dtype in HALVES else given, (args, kwargs)
        )
        return self.module(*args, **kwargs)

    def backward(self, loss: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        """Take gradients."""
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    def step(self, *_: Any, **__: Any) -> None:
        """Step after the last of the batches that are summed."""
        self.micro_steps += 1
        if self.is_gradient_accumulation_boundary():
            self.global_steps += 1
            self.optimizer.step()
            self.optimizer.zero_grad()

    def is_gradient_accumulation_boundary(self) -> bool:
        """Return whether the optimiser steps now."""
        return self.micro_steps % self._sums == 0


class Accelerator(Silent):
    """Stands for DeepSpeed's name of the GPU."""

    def device_name(self, *_: Any) -> str:
        """Return what tensors are sent to."""
        return "cuda"

    current_device_name = device_name


class Libraries(Names):
    """The replaced names of PyTorch and of libraries on it, and what the script asked for by them."""

    def stand_in(self, package: str) -> Mapping[str, Any]:
        """Return names of DeepSpeed, Apex and Horovod that train in one process."""
        kinds = {name: getattr(torch.optim, name) for name in ("Adam", "AdamW", "SGD")}
        packages: dict[str, dict[str, Any]] = {
            "deepspeed": {
                "initialize": self._engine, "init_distributed": _begin, "add_config_arguments": _with_deepspeed,
                "get_accelerator": partial(answered, Accelerator()),
            },
            "deepspeed.ops.adam": {name: _without(torch.optim.AdamW) for name in ("FusedAdam", "DeepSpeedCPUAdam")},
            "deepspeed.accelerator": {"get_accelerator": partial(answered, Accelerator())},
            "apex.amp": {
                "initialize": self._with_apex, "scale_loss": lambda loss, *_, **__: nullcontext(loss),
                "master_params": lambda optimizer: (
                    weight for group in optimizer.param_groups for weight in group["params"]
                ),
            },
            "apex.parallel": {"DistributedDataParallel": Whole, "convert_syncbn_model": first},
            "apex.optimizers": {f"Fused{name}": _without(kind) for name, kind in kinds.items()},
            "apex.normalization": {"FusedLayerNorm": torch.nn.LayerNorm},
            "horovod.torch": {
                **dict.fromkeys(("size", "local_size"), self._count),
                **dict.fromkeys(("rank", "local_rank"), partial(answered, 0)),
                **dict.fromkeys(("DistributedOptimizer", "allreduce", "allreduce_", "allgather", "broadcast",
                                 "broadcast_", "broadcast_object", "allgather_object"), first),
            },
        }  # fmt: skip
        return packages.get(package, {})

    def replace_library(self, package: Any) -> None:
        """Let a library that was just imported train in one process without GPUs."""
        if package.__name__ == "deepspeed":
            for name, value in self.stand_in("deepspeed").items():
                self._put(package, name, value)
        elif package.__name__ == "transformers.training_args":
            self._replace_arguments(package.TrainingArguments)
        elif hasattr(package, "SummaryWriter"):  # TensorBoard's, which would run a model in its own way
            self._put(package.SummaryWriter, "add_graph", partial(answered, None))
        else:
            self._replace_trainers(package)

    def _with_apex(self, models: Any, optimizers: Any = None, *_: Any, opt_level: str = "O1", **__: Any) -> Any:
        self.mixed = self.mixed or opt_level != "O0"
        return models if optimizers is None else (models, optimizers)

    def _engine(
        self,
        args: Any = None,
        model: Any = None,
        optimizer: Any = None,
        model_parameters: Any = None,
        training_data: Any = None,
        lr_scheduler: Any = None,
        config: Any = None,
        config_params: Any = None,
        collate_fn: Any = None,
        **_: Any,
    ) -> tuple[Any, Any, Any, Any]:
        """Return DeepSpeed's engine, optimiser, loader and schedule for these, in one process."""
        given = config or config_params or getattr(args, "deepspeed_config", None) or {}
        settings = given if isinstance(given, Mapping) else json.loads(Path(given).read_text(encoding="utf-8"))
        self.mixed = self.mixed or bool(_halves(settings))
        weights = [*(model_parameters or (weight for weight in model.parameters() if weight.requires_grad))]
        if optimizer is None:
            kind = str(settings.get("optimizer", {}).get("type", "")).upper()
            optimizer = torch.optim.SGD(weights) if "SGD" in kind else torch.optim.AdamW(weights)
        engine = Engine(model, optimizer, lr_scheduler, settings, self._count())
        self.each = True
        loader = None
        if training_data is not None:
            sampler = torch.utils.data.DistributedSampler(training_data, self._count(), 0)
            size = engine.train_micro_batch_size_per_gpu()
            loader = torch.utils.data.DataLoader(training_data, size, sampler=sampler, collate_fn=collate_fn)
        return engine, optimizer, loader, lr_scheduler

    def _replace_trainers(self, lightning: Any) -> None:
        """Let Lightning's Trainer and Fabric train in one process on the CPU in full precision."""
        for trainer in (getattr(lightning, name, None) for name in ("Trainer", "Fabric")):
            if trainer is not None:
                self._put(trainer, "__init__", self._alone(trainer.__init__))
        loggers = getattr(getattr(lightning, "pytorch", lightning), "loggers", None)
        for name in [name for name in dir(loggers) if name.endswith("Logger") and name != "Logger"]:
            self._put(loggers, name, silent_logger(loggers.Logger))  # type: ignore[union-attr]

    def _replace_arguments(self, arguments: Any) -> None:
        """Let Hugging Face's Trainer keep the model whole: neither DeepSpeed nor FSDP shares it out."""
        begin = arguments.__post_init__

        @wraps(begin)
        def alone(given: Any) -> None:
            self.each = True
            for name in ("deepspeed", "fsdp"):
                if getattr(given, name, None):
                    self.shares_out = True
                    setattr(given, name, None)
            begin(given)

        self._put(arguments, "__post_init__", alone)

    def _alone(self, init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def alone(trainer: Any, *args: Any, **given: Any) -> None:
            self.gpus = max(self.gpus, count_of(given.get("devices", 1)) * int(given.get("num_nodes", 1)))
            self.mixed = self.mixed or "16" in str(given.get("precision", ""))
            self.each = self.each or given.get("strategy") != "dp"
            self.is_alone = True
            known = {name: value for name, value in ALONE_IN_LIGHTNING.items() if name in given}
            init(trainer, *args, **{**given, **known, "accelerator": "cpu"})

        return alone


def silent_logger(logger: Any) -> type:
    """Return a kind of Lightning's logger that writes and sends nothing, and needs no package."""

    class Nothing(logger):  # type: ignore[misc]
        name = version = ""
        save_dir = root_dir = log_dir = "lightning_logs"
        experiment = Silent()

        def __init__(self, *_: Any, **__: Any) -> None:
            super().__init__()

        def log_metrics(self, *_: Any, **__: Any) -> None:
            pass

        log_hyperparams = log_metrics

        def __getattr__(self, _: str) -> Silent:
            return Silent()

    return Nothing


def count_of(devices: Any) -> int:
    """The number of devices that Lightning is asked for: 4, "4", [0, 1], or as many as there are."""
    if isinstance(devices, list | tuple):
        return len(devices)
    return int(devices) if str(devices).isdigit() else 1


def _begin(*_: Any, **__: Any) -> None:
    """Make the group of processes that a package makes."""
    torch.distributed.init_process_group("nccl")


def _without(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """An optimiser's kind that takes arguments of Apex's, too."""
    known = inspect.signature(kind.__init__).parameters
    return lambda *args, **given: kind(*args, **{name: value for name, value in given.items() if name in known})


def _with_deepspeed(parser: Any) -> Any:
    """The parser with the arguments that DeepSpeed adds."""
    group = parser.add_argument_group("DeepSpeed")
    group.add_argument("--deepspeed", default=False, action="store_true")
    group.add_argument("--deepspeed_config", default=None, type=str)
    return parser


def _halves(settings: Mapping[str, Any]) -> list[str]:
    """The 16-bit formats that DeepSpeed's settings ask for."""
    names = {"fp16": "fp16", "bf16": "bfloat16", "bfloat16": "bfloat16"}
    return [name for setting, name in names.items() if settings.get(setting, {}).get("enabled")]
