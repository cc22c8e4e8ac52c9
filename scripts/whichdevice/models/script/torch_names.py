"""The public names that a PyTorch script for GPUs calls, replaced while it runs on a machine without one.

    names = Names(watcher.replace)
    names.replace_torch()      # the script sees one GPU, one process and nothing compiled
    ...
    names.gpus, names.mixed    # what it asked for

They are replaced in the process of the script alone, which gives them back when the script is over. Tensors that are
sent to a device of CUDA stay where they are (torch_answers.py). Names of other libraries are in torch_libraries.py.
"""

import inspect
import multiprocessing.process
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, wraps
from types import FunctionType, SimpleNamespace
from typing import Any

import torch

from whichdevice.models.script.stand_ins import Silent
from whichdevice.models.script.torch_fakes import is_fake, replace_tensors, tree_map_only

CUDA = "12.8"  # that a script sees
MEMORY = 80 * 2**30  # bytes of the GPU that a script sees
FAKE_CARD = SimpleNamespace(
    name="GPU", major=9, minor=0, total_memory=MEMORY, multi_processor_count=132, warp_size=32, is_integrated=0
)
GPU_MODULES = "torch.cuda", "torch.accelerator"
OF_GPUS = (*GPU_MODULES, "torch.cuda.memory", "torch.cuda.random", "torch.cuda.nvtx", "torch.cuda.profiler")
ANSWERS: Mapping[str, Any] = {  # of their functions; what has none here has just happened
    "is_available": True, "is_initialized": True, "is_bf16_supported": True, "is_tf32_supported": True,
    "is_current_stream_capturing": False, "current_accelerator": torch.device("cuda"),
    "get_device_name": FAKE_CARD.name, "get_device_properties": FAKE_CARD,
    "get_device_capability": (FAKE_CARD.major, FAKE_CARD.minor), "memory_summary": "",
    **dict.fromkeys(("mem_get_info", "get_memory_info"), (MEMORY, MEMORY)),
    "memory_stats": {}, "host_memory_stats": {}, "get_arch_list": [], "get_rng_state_all": [],
    **{f"{most}memory_{what}": 0 for most in ("", "max_") for what in ("allocated", "reserved", "cached")},
    **dict.fromkeys(("current_device", "current_device_index", "current_device_idx", "utilization", "temperature",
                     "power_draw", "clock_rate", "initial_seed", "get_sync_debug_mode"), 0),
}  # fmt: skip
TYPES = {  # by method of a module
    "half": torch.float16, "bfloat16": torch.bfloat16, "float": torch.float32, "double": torch.float64,
}  # fmt: skip
NAMING = (str, torch.device)
HALVES = (torch.float16, torch.bfloat16)

Moved = Callable[[torch.nn.Module, "torch.dtype | None", "torch.memory_format | None"], None]


class Moment(Silent):
    """Stands for an event or a stream of CUDA, or for what lasts a while there: it has just happened."""

    cuda_stream = 0

    def is_capturing(self) -> bool:
        """Return that no graph is recorded."""
        return False

    def elapsed_time(self, _: "Moment") -> float:
        """Return a millisecond."""
        return 1.0


class Whole(torch.nn.Module):
    """Stands for a module whose replicas exchange gradients, or that is shared out: it is the module itself."""

    def __init__(self, module: torch.nn.Module, *_: Any, **__: Any) -> None:
        super().__init__()
        self.module = module
        self.device_ids, self.output_device, self.dim = [0], 0, 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module on what its device gets, as a class of the script's own may choose."""
        given, named = self.scatter(args, kwargs, self.device_ids)
        return self.gather([self.module(*given[0], **named[0])] * len(given), self.output_device)

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> Any:
        """Return what each device gets: all, or an equal part."""
        count = len(device_ids)
        parts = tree_map_only(
            torch.Tensor, lambda part: part.chunk(count)[0] if part.ndim and count > 1 else part, (inputs, kwargs)
        )
        return (parts[0],) * count, (parts[1],) * count

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Return what the devices gave."""
        if len(outputs) == 1:
            return outputs[0]
        count = len(outputs)
        return tree_map_only(
            torch.Tensor, lambda part: torch.cat([part] * count) if part.ndim else torch.stack([part] * count),
            outputs[0],
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Exchange nothing, as always."""
        yield

    def clip_grad_norm_(self, norm: float) -> Any:
        """Clip gradients as FSDP does."""
        return torch.nn.utils.clip_grad_norm_(self.parameters(), norm)


class _Kind(type):
    """The type of a class that stands for another one, whose instances count as its own."""

    kind: type

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.kind)


class OnHost(metaclass=_Kind):
    """Stands for PyTorch's generator of random numbers, of whichever device."""

    kind = torch.Generator

    def __new__(cls, *_: Any, **__: Any) -> Any:
        """Return one of the CPU."""
        return cls.kind()


class Variable(metaclass=_Kind):
    """Stands for what older scripts make of a tensor, by functions that are seen: one that begins a graph anew."""

    kind = torch.Tensor

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        """Return the tensor without its history."""
        made = torch.empty(0) if data is None else data.detach()
        return made.requires_grad_() if requires_grad else made


class Names:
    """The replaced names, and what the script asked for by them."""

    def __init__(self, replace: Callable[[Any, str, Any], None], count: Callable[[], int] = lambda: 1) -> None:
        self.gpus = 1
        self.splits = 0  # GPUs that share each batch in one process
        self.each = False  # whether each GPU has a batch, by a trainer's or an engine's own setting
        self.is_alone = False  # whether a trainer is kept from seeing several
        self.casts = True  # whether mixed precision is as the script has it
        self.shares_weights = False  # by FSDP
        self.shares_out = False  # its model, among a number of GPUs that only its command has
        self.mixed = False
        self.compiled = False
        self._put = replace  # puts a value in place of an attribute
        self._count = count  # GPUs that the script sees

    def replace_torch(self, changed: Moved) -> None:
        """Replace names of PyTorch; where there is a GPU only names of compiling and of several processes.

        `changed` changes the type of a module's tensors, or their order in memory.
        """
        if not torch.cuda.is_available():
            self._replace_gpu()
        for name in ("to", "cuda", "cpu", *TYPES):
            self._put(torch.nn.Module, name, _moving(getattr(torch.nn.Module, name), changed))
        self._put(torch.nn.Module, "to_empty", emptied)
        self._put(torch.autocast, "__init__", self._autocast(torch.autocast.__init__))
        self._put(torch.amp.GradScaler, "step", _scaled)
        self._put(torch.nn.Module, "share_memory", first)
        for name in ("clip_grad_norm_", "clip_grad_value_"):  # a GPU clips all gradients together
            clipped = _together(getattr(torch.nn.utils, name))
            for owner in (torch.nn.utils, sys.modules[torch.nn.utils.clip_grad_norm_.__module__]):
                self._put(owner, name, clipped)
        self._put(torch.nn.init, "trunc_normal_", _truncated(torch.nn.init.trunc_normal_))
        self._put(torch, "compile", self._compile)
        self._put(torch.nn.Module, "compile", lambda module, *_, **__: self._compile(module) and None)
        for name in ("spawn", "start_processes"):
            self._put(torch.multiprocessing, name, self._spawn)
        wrappers = {"DistributedDataParallel": Whole, "DataParallel": self._split()}
        for owner in (torch.nn, torch.nn.parallel, torch.nn.parallel.distributed):
            for wrapper, stand_in in wrappers.items():
                if hasattr(owner, wrapper):
                    self._put(owner, wrapper, stand_in)
        self._put(torch.nn.SyncBatchNorm, "forward", torch.nn.BatchNorm2d.forward)  # of one GPU
        for owner in (torch.autograd, torch.autograd.variable):
            self._put(owner, "Variable", Variable)
        if torch.distributed.is_available():
            self._replace_group(torch.distributed)

    def _replace_group(self, group: Any) -> None:
        """Let the script's process be the first of a group of which no other one runs: what is sent comes back."""
        for owner in (group, group.device_mesh):
            self._put(owner, "init_process_group", partial(self._join, group.init_process_group))
        for name in ("new_group", "new_subgroups", "new_subgroups_by_enumeration"):
            self._put(group, name, _of_group(getattr(group, name)))
        self._put(group, "monitored_barrier", group.barrier)
        self._put(group, "get_backend", partial(answered, "nccl"))
        self._put(group, "get_rank", partial(answered, 0))
        self._put(group, "get_world_size", lambda *_, **__: self._count())

    def _autocast(self, init: Callable[..., None]) -> Callable[..., None]:
        """Return the start of mixed precision on any device: on the CPU, in float16 where a GPU would take that."""

        @wraps(init)
        def cast(
            one: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
        ) -> None:
            kind, usual = ("cpu", torch.float16) if device_type in ("cuda", "mps") else (device_type, None)
            init(one, kind, dtype or usual, enabled and self.casts, cache_enabled)

        return cast

    def _replace_gpu(self) -> None:
        """Let all that asks of a GPU find one, of CUDA's or of any maker's."""
        functions = {
            "device_count": self._count, "get_rng_state": lambda *_: torch.get_rng_state(),
            "make_graphed_callables": first, **{name: partial(answered, answer) for name, answer in ANSWERS.items()},
        }  # fmt: skip
        for module in (sys.modules[name] for name in OF_GPUS if name in sys.modules):
            for name, value in [*vars(module).items()]:
                if name.startswith("_") or not callable(value) or not value.__module__.startswith(GPU_MODULES):
                    continue
                if name.endswith("Tensor"):
                    self._put(module, name, getattr(torch, name))
                elif not (isinstance(value, type) and issubclass(value, Exception | torch.TypedStorage)):
                    self._put(module, name, functions.get(name, Moment))
        self._put(torch.version, "cuda", CUDA)
        self._put(torch.Tensor, "record_stream", partial(answered, None))
        self._put(torch, "Generator", OnHost)
        default = torch.set_default_device
        self._put(torch, "set_default_device", lambda device: default(*on_cpu((device,), {})[0]))

    def _split(self) -> type[Whole]:
        """Return what stands for a module whose replicas share each batch out."""
        names = self

        class Split(Whole):
            def __init__(self, module: torch.nn.Module, device_ids: Any = None, *args: Any, **kwargs: Any) -> None:
                super().__init__(module, device_ids, *args, **kwargs)
                names.splits = max(names.splits, len(device_ids or [0]))
                self.device_ids = [*range(names._count())]

        return Split

    def replace_sharding(self, source: str) -> None:
        """Let modules and layers that GPUs would share out stay whole, where a script of this text does so."""
        if "parallelize_module" in source:
            import torch.distributed.tensor.parallel  # takes a while

            self._put(torch.distributed.tensor.parallel, "parallelize_module", first)
        if not ("fsdp" in source.lower() or "fully_shard" in source):
            return
        import torch.distributed.fsdp

        def note(policy: Any) -> None:
            self.shares_weights = True
            self.mixed = self.mixed or getattr(policy, "param_dtype", None) in HALVES

        def shared(module: Any, *_: Any, mp_policy: Any = None, **__: Any) -> Any:
            note(mp_policy)
            return module

        class Sharded(Whole):
            def __init__(self, module: torch.nn.Module, *args: Any, mixed_precision: Any = None, **kwargs: Any) -> None:
                super().__init__(module, *args, **kwargs)
                note(mixed_precision)

        self._put(torch.distributed.fsdp, "FullyShardedDataParallel", Sharded)
        self._put(torch.distributed.fsdp, "fully_shard", shared)

    def replace_processes(self, is_own: Callable[[str], bool], joins: bool) -> None:
        """Run in this process what the script starts one process each for, on so many GPUs; the first one trains.

        That is a function in the script's files that trains, or any of them where its processes join a group.
        """
        process = multiprocessing.process.BaseProcess
        start = process.start

        def started(one: Any) -> None:
            target, is_function = one._target, inspect.isfunction(one._target)
            if is_function and is_own(target.__code__.co_filename) and (joins or _takes_gradients(target)):
                one.run()
            else:
                start(one)

        self._put(process, "start", started)

    def leave(self) -> None:
        """Leave the group of processes that the script made."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()

    def _compile(self, model: Any = None, **_: Any) -> Any:
        self.compiled = True  # what is compiled would hide its functions
        return self._compile if model is None else model

    def _spawn(self, function: Callable[..., Any], args: Any = (), nprocs: int = 1, *_: Any, **__: Any) -> None:
        self.gpus = max(self.gpus, nprocs)
        function(0, *args)

    def _join(self, join: Callable[..., Any], *_: Any, world_size: int = -1, **__: Any) -> None:
        """Make a group of which this process alone runs."""
        self.gpus = max(self.gpus, world_size, int(os.environ.get("WORLD_SIZE", 1)))
        if not torch.distributed.is_initialized():
            join("fake", rank=0, world_size=self._count())

def _takes_gradients(function: FunctionType) -> bool:
    """Whether a function, or one that it calls by name, calls `backward`."""
    names = {*function.__code__.co_names}
    called = (function.__globals__.get(name) for name in function.__code__.co_names)
    return "backward" in names.union(*(other.__code__.co_names for other in called if inspect.isfunction(other)))


def _scaled(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
    """Step as a scaler of losses does where no gradient overflows."""
    if scaler.is_enabled():
        with suppress(RuntimeError):  # the script has unscaled them itself
            scaler.unscale_(optimizer)
    return optimizer.step(*args, **kwargs)


def _moving(move: Callable[..., Any], changed: Moved) -> Callable[..., torch.nn.Module]:
    """Return a method that moves a module, or changes its type: on the CPU the type or order in memory alone."""

    def moved(module: torch.nn.Module, *args: Any, **kwargs: Any) -> torch.nn.Module:
        given = [*args, *kwargs.values()]
        given += [part.dtype for part in given if isinstance(part, torch.Tensor)]
        dtype = next((part for part in given if isinstance(part, torch.dtype)), TYPES.get(move.__name__))
        layout = next((part for part in given if isinstance(part, torch.memory_format)), None)
        if dtype is not None or layout is not None:
            changed(module, dtype, layout)
        return module

    return moved


def _together(clip: Callable[..., Any]) -> Callable[..., Any]:
    """Clip by few kernels for all gradients, where the script does not choose."""

    @wraps(clip)
    def clipped(*args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(clip).bind(*args, **kwargs)
        if given.arguments.get("foreach") is None:
            given.arguments["foreach"] = True
        return clip(*given.args, **given.kwargs)

    return clipped


def _truncated(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Draw nothing for weights without values: it draws again until each is within its bounds."""
    return lambda tensor, *args, **kwargs: tensor if is_fake(tensor) else original(tensor, *args, **kwargs)


def emptied(module: torch.nn.Module, *_: Any, **__: Any) -> torch.nn.Module:
    """Give weights of the device `meta` a place on the CPU, where they have values at all."""
    replace_tensors(module, lambda tensor: torch.empty_like(tensor, device="cpu") if tensor.is_meta else tensor)
    return module


def on_cpu(
    args: tuple[Any, ...], kwargs: Mapping[str, Any], device: Any = "cpu"
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with this device in place of CUDA devices, and of one by number."""
    if type(kwargs.get("device")) is not int and not any(map(is_cuda, args)) and not any(map(is_cuda, kwargs.values())):
        return args, kwargs  # type: ignore[return-value]
    named = {name: device if is_cuda(value) else value for name, value in kwargs.items()}
    if type(named.get("device")) is int:
        named["device"] = device
    return tuple(device if is_cuda(value) else value for value in args), named


def answered(answer: Any, *_: Any, **__: Any) -> Any:
    return answer


def first(given: Any, *_: Any, **__: Any) -> Any:
    return given


def _of_group(make: Callable[..., Any]) -> Callable[..., Any]:
    """Make a group like the one of all processes, whatever the script names for its exchange."""
    return lambda *args, **named: make(*args, **{name: value for name, value in named.items() if name != "backend"})


def is_cuda(value: Any) -> bool:
    """Whether it names a device of CUDA."""
    return isinstance(value, NAMING) and str(value).startswith("cuda")
