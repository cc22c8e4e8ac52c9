"""Steps of XLA, counted: the work of published rows, of whole systems, and of libtpu's programs.

A program is a workload of the package or a file of fit/compiled/. One count serves all devices.
"""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fit.fitting import DATA, DIGESTS, PUBLISHED, read_digests
from whichdevice.forecast.count.kept import SAME, StepCount, work_on
from whichdevice.forecast.count.process import count_step
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.study.tables.base import read_rows

MEMORY = DATA / "memory.csv"
DEVICE = "H100 SXM"  # that a count is asked for: it has every number format


def request(
    name: str,
    precision: str,
    batch: int,
    mode: str = "train",
    options: Mapping[str, Any] | None = None,
    length: int | None = None,
    device: str = DEVICE,
) -> ProgramRequest:
    """The step of a program, on one device."""
    module = next((str(root / name) for root in (DATA.parent, DATA.parents[1]) if (root / name).is_file()), name)
    return ProgramRequest(
        device=device, workload=name, module=module, precision=precision, batch_size=batch,
        mode="predict" if mode == "predict" else "train", options=dict(options or {}), sequence_length=length,
    )  # fmt: skip


def request_of(line: Mapping[str, str]) -> ProgramRequest:
    """The step of a row of published.csv or memory.csv."""
    length = int(line["sequence_length"]) if line["sequence_length"] else None
    options, batch = json.loads(line["options"]), int(line["batch"])
    return request(line["model"], line["precision"], batch, line.get("mode", ""), options, length, line["device"])


def count_of(asked: ProgramRequest) -> StepCount:
    """The count of a step, which serves all devices and both 16-bit formats."""
    precision = SAME.get(asked.precision, asked.precision)
    return count_step(asked.model_copy(update={"device": DEVICE, "precision": precision}))


def count_published(again: bool) -> None:
    """Count the steps of published.csv without a digest, or all `again`, and write one line a program."""
    digests = read_digests()
    programs: dict[str, Any] = digests["programs"]
    lines = {line["program"]: line for line in read_rows(PUBLISHED) if "@" not in line["program"]}
    for key, line in lines.items():
        if (key not in programs or again) and not line["slice"]:
            print(line["id"], flush=True)
            asked = request_of(line)
            count = count_of(asked)
            programs[key] = work_on(count, count.sizes[0], asked, find_target(asked.device)).digest()
            known = {each: programs[each] for each in sorted(programs) if each in lines}
            rows = (f'  "{key}": {json.dumps(each, separators=(",", ":"))}' for key, each in known.items())
            text = f' "made_with": {json.dumps(digests["made_with"])},\n "programs": {{\n' + ",\n".join(rows)
            DIGESTS.write_text("{\n" + text + "\n }\n}\n", encoding="utf-8")


def count_memory(again: bool) -> None:
    """Put the memory that each program of memory.csv needs where it is missing, or all `again`."""
    lines = read_rows(MEMORY)
    for line in lines:
        if again or not line["needed_gb"]:
            print(line["id"], flush=True)
            line["needed_gb"] = f"{count_of(request_of(line)).sizes[0].memory / 1e9:.6g}"
    write_rows(MEMORY, lines)


def write_rows(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
