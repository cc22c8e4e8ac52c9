"""The one line that says why a run ended, and for what memory where memory ran out."""

import re
from collections.abc import Mapping
from math import prod
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.workloads import read_address
from whichdevice.workloads.model_file import own_place

ASKED = re.compile(r"OOM|out of memory|allocat", re.IGNORECASE)
TENSOR = re.compile(r"shape\[([\d,]+)\] and type (\w+)")  # TensorFlow names no bytes
WIDTHS = {"double": 8, "int64": 8, "float": 4, "int32": 4, "half": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1}
NOISE = re.compile(r"\{\{[^}]*\}\}|\[Op:.*")  # TensorFlow's names of its own parts
PREAMBLE = ("Graph execution error:", "Detected at node", "  File ")
FREE_SHARE = 0.9  # of a GPU's memory; an idle driver holds some itself


def reason_line(error: BaseException) -> str:
    """Type and message in one line: the line that names a size, else the first that is not TensorFlow's traceback."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.startswith(PREAMBLE)]
    usual = lines[-1 if str(error).startswith("in user code:") else 0] if lines else ""  # AutoGraph names it last
    line = next((line for line in lines if ASKED.search(line)), usual)
    line = NOISE.sub("", line).strip()
    if (tensor := TENSOR.search(line)) and tensor[2] in WIDTHS:
        size = prod(int(length) for length in tensor[1].split(",")) * WIDTHS[tensor[2]]
        line += f" ({size / 1e9:,.1f} GB)"
    return f"{type(error).__name__}: {line}"


def place_in_file(error: BaseException, module: str) -> str:
    """The last line of a workload's own files that an error passed, e.g. ` (my_model.py, line 12)`; else nothing."""
    try:
        place = own_place(error, read_address(module))
    except StudyError:  # the file is gone
        return ""
    return f" ({place[0].name}, line {place[1]})" if place is not None else ""


def with_what_was_asked(reason: str | None, fields: Mapping[str, Any]) -> str:
    """The reason of an `out_of_memory` record with batch size, expected need and who else held a GPU's memory."""
    asked, machine = fields["asked"], fields.get("machine", {})
    parts = [reason or "out of memory", f"batch_size {asked['batch_size']}"]
    if asked["kind"] == "cpu" and "workload" in fields:
        parts[1] += f", expected to need {fields['workload']['estimated_memory'] / 1e9:,.1f} GB (estimate)"
    total, free = machine.get("device_memory"), machine.get("device_memory_free")
    if total and free is not None and free < FREE_SHARE * total:
        parts.append(
            f"before the run {free / 1e9:,.1f} of the GPU's {total / 1e9:,.1f} GB were free: end what holds the rest "
            "(nvidia-smi names it)"
        )
    return "; ".join(parts)
