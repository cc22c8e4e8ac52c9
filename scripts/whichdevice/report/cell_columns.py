"""The columns of the table of cells, and the views that show them."""

from typing import NamedTuple


class Heading(NamedTuple):
    """A column of the table: which view shows it, and whether it holds numbers."""

    key: str
    title: str
    view: str = "always"
    numbers: bool = True
    meaning: str = ""


KEYS = [
    Heading("workload", "Workload", numbers=False),
    Heading("device", "Device", numbers=False),
    Heading("backend", "Backend", numbers=False),
    Heading("precision", "Format", numbers=False, meaning="number format"),
    Heading("batch_size", "Batch / N", meaning="examples per step over all replicas; N of matrix products"),
    Heading("loop", "Loop", "extra", False, "epoch: many steps in one program; fit: plain model.fit"),
    Heading("fraction", "Data", "extra", meaning="share of the training data"),
    Heading("sequence_length", "Length", "extra", meaning="steps per sequence"),
]
VALUES = [
    Heading("throughput", "Throughput", "absolute"),
    Heading("step_time", "Step", "absolute"),
    Heading("tflops", "TFLOP/s", "absolute"),
    Heading("mfu", "Of peak", "absolute", meaning="of the best product that a framework reached here in this format"),
    Heading("epoch_time", "Epoch, computed", "absolute", meaning="steps per epoch x step time"),
    Heading("learned_epoch_time", "Epoch, in full", "absolute", meaning="learned epochs without the first"),
    Heading("quality", "Quality", "absolute", meaning="validation, at the end of learning"),
    Heading("learned_epochs", "Epochs learned", "absolute", meaning="of the longest run; a fraction: train.seconds"),
    Heading("relative", "Times the reference", "relative", meaning="same settings, paired repeats; above 1 is faster"),
    Heading("verdict", "Verdict", "relative", False),
    Heading("per_usd", "Examples per dollar", "dollar"),
    Heading("usd", "USD per million", "dollar"),
    Heading("price", "Price", "dollar", False),
    Heading("per_joule", "Examples per joule", "joule"),
    Heading("joules", "J per million", "joule"),
    Heading("watts", "Watts", "joule"),
    Heading("meter", "Meter", "joule", False),
    Heading("start", "Process start", "cold"),
    Heading("initialise", "Device taken", "cold"),
    Heading("load", "Data", "cold"),
    Heading("build", "Model", "cold"),
    Heading("first_step", "First step", "cold", meaning="trace, compilation and one step"),
    Heading("first_epoch_time", "First epoch, computed", "cold"),
    Heading("peak_host", "Host memory", "cold", meaning="peak of the process, or of one per replica together"),
    Heading("peak_device", "Device memory", "cold"),
    Heading("between", "Between processes", "trust", meaning="standard deviation beyond the noise inside"),
    Heading("within", "Within", "trust", meaning="standard deviation of windows inside a process"),
    Heading("disturbed", "Disturbed", "trust", meaning="runs that the machine disturbed; they count"),
    Heading("trending", "With a trend", "trust", meaning="runs still getting slower or faster; they count"),
    Heading("source", "Data from", "trust", False),
]
ENDING = [
    Heading("evidence", "Evidence", numbers=False, meaning="measured, forecast, compiled or published"),
    Heading("status", "Status", numbers=False),
    Heading("again", "Again", numbers=False),
]
HEADINGS = [*KEYS, *VALUES, *ENDING]
VIEWS = {
    "absolute": "Absolute",
    "relative": "Relative to {reference}",
    "dollar": "Per dollar",
    "joule": "Per joule",
    "cold": "Cold start, memory",
    "trust": "Noise",
}
OTHER_VIEWS = list(VIEWS)[1:]  # shown when asked for
