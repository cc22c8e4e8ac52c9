"""What a run took, and what the machine did meanwhile: memory, energy, clocks, noise."""

from pydantic import Field

from whichdevice.records.part import Integer, Part


class Memory(Part):
    """Peak memory of the measured process and of the device, in bytes; PyTorch's several processes are added up."""

    peak_host: Integer | None = None
    peak_device: Integer | None = None


class MeteredPart(Part):
    """Energy of one part of a run, and the time between the meter's readings around it."""

    joules: float
    seconds: float


class Energy(Part):
    """Joules of a whole run, process start to end, and by which meter; without a meter, the reason."""

    joules: float | None = None
    meter: str | None = None
    reason: str | None = None
    update: float | None = None  # seconds between two new values of the meter
    parts: dict[str, MeteredPart] = Field(default_factory=dict)  # `steady`, and `epoch 1` ... with validation
    beside: dict[str, "Energy"] = Field(default_factory=dict)  # `host`: its processors; `memory`: the host's


class Clocks(Part):
    """Clocks in Hz and throttling, sampled each second of a run; empty where the machine does not say."""

    samples: Integer = 0
    cpu_low: float | None = None
    cpu_high: float | None = None
    cpu_throttles: Integer = 0  # for heat, as the kernel counts them
    gpu_low: float | None = None  # of the first GPU's multiprocessors, idle phases of the run included
    gpu_high: float | None = None
    gpu_busy_before: float | None = None  # share of time, on the busiest of the run's GPUs, before its process took it
    gpu_throttling: list[str] | None = None  # of any of its GPUs beyond the ordinary power limit; None: not watched


class Noise(Part):
    """A fixed kernel before and after the run, and what else the machine did meanwhile."""

    calibration_kernel: str = "a product shared by all cores"  # what was timed, in records that do not say it
    calibration_before: float | None = None  # seconds of fixed work on all cores, fastest
    calibration_after: float | None = None
    calibration_change: float | None = None  # after / before, on all cores
    bursts_before: list[list[float]] = Field(default_factory=list)  # fastest of each burst: all cores, one core
    bursts_after: list[list[float]] = Field(default_factory=list)
    load_before: float | None = None  # one-minute load average
    others: float | None = None  # share of the usable cores kept busy by other processes
    steal: float | None = None  # share of processor time stolen by the hypervisor during the run
    load_after: float | None = None
    others_timed: float | None = None  # over the timed windows alone
    steal_timed: float | None = None
    throttled: float | None = None  # share of our processors' time in which a container's limit held the run up
    throttled_timed: float | None = None
    clocks: Clocks | None = None
    severity: float | None = None  # the largest of what was watched, against its bound; above 1: disturbed
    not_repeated: str | None = None  # why a disturbed run was not repeated
    disturbed: bool = False
    reasons: list[str] = Field(default_factory=list)
