"""Counts, constants and page of the forecasts: `make forecasts`, or

    python -m fit            # count steps without a digest, fit, evaluate, write the page
    python -m fit --rebuild  # count every step of XLA anew: minutes
    python -m fit --blind    # forecast the blind families too: once, when everything else is done
"""

import csv
import json
import sys
from functools import cache
from typing import Any

from fit import energy, generators, language_models, lived, memory, newer, serving, test_set, tpu
from fit.decisions import RECORD, decisions, strangers
from fit.fitting import (
    DATA,
    DIGESTS,
    PUBLISHED,
    Published,
    constants_of,
    published_rows,
    read_digests,
    write,
)
from fit.page import write_page
from fit.validation import (
    evaluations,
    fair_test,
    measured_chips,
    models_left_out,
    scorecard,
    steps_that_wait,
    widths,
)
from whichdevice.forecast.count.kept import SAME, StepCount, work_on
from whichdevice.forecast.count.process import count_step
from whichdevice.forecast.joint import SCORECARD
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import CONSTANTS
from whichdevice.forecast.work import Work
from whichdevice.study.tables.base import read_rows

MEMORY = DATA / "memory.csv"
DEVICE = "H100 SXM"  # that a count is asked for: it has every number format


def main() -> None:
    """Bring digests, constants, page and figure up to date with fit/data/published.csv."""
    digests = read_digests(DIGESTS)
    programs: dict[str, Any] = digests["programs"]
    lines = {line["program"]: line for line in read_rows(PUBLISHED) if "@" not in line["program"]}
    for key, line in lines.items():
        if (key not in programs or "--rebuild" in sys.argv) and not line["slice"]:
            print(line["id"], flush=True)
            programs[key] = work_of(request_of(line)).digest()
            write_digests(digests | {"programs": {each: programs[each] for each in sorted(programs) if each in lines}})
    write_memory("--rebuild" in sys.argv)
    language_models.write_digests()
    language_models.write_times()
    published = Published(published_rows())
    whole = published.fit()
    models = models_left_out(published, whole)
    write(constants_of(published, whole, widths(models)), CONSTANTS)
    found = evaluations(published, whole, models)
    card = scorecard(found) | {"small steps": steps_that_wait(published, whole)}
    new = strangers(published, whole)
    card["fair test"] = fair_test(published, whole, models, new, "--blind" in sys.argv)
    card["fair test"] |= measured_chips(published, models, found["a chip"])
    write(card, SCORECARD)
    tpu.main()
    serving.main()
    generators.main()
    energy.main()
    newer.write_page()
    lived.main()
    tested = test_set.as_forecasts(test_set.scored())
    decided = decisions({"models": found["models"], "model, chip and author": new}, tested)
    write(decided, RECORD)
    write_page(found, card, decided)
    memory.write_page()
    test_set.main()


def request_of(line: dict[str, str]) -> ProgramRequest:
    """The step of a row."""
    name = line["model"]
    return ProgramRequest(
        device=line["device"],
        workload=name,
        module=str(DATA.parent / name) if name.endswith(".py") else name,
        precision=line["precision"],
        batch_size=int(line["batch"]),
        mode="predict" if line.get("mode") == "predict" else "train",
        options=json.loads(line["options"]),
        sequence_length=int(line["sequence_length"]) if line["sequence_length"] else None,
    )


def count_of(asked: ProgramRequest) -> StepCount:
    """The count of a step, which serves all devices and both 16-bit formats."""
    precision = SAME.get(asked.precision, asked.precision)
    return _count(asked.model_copy(update={"device": DEVICE, "precision": precision}).model_dump_json())


@cache
def _count(asked: str) -> StepCount:
    return count_step(ProgramRequest.model_validate_json(asked))


def work_of(asked: ProgramRequest) -> Work:
    """The work of a step on its GPU."""
    count = count_of(asked)
    return work_on(count, count.sizes[0], asked, find_target(asked.device))


def write_memory(again: bool) -> None:
    """The memory needed by each program of fit/data/memory.csv, where it is missing."""
    lines = read_rows(MEMORY)
    for line in lines:
        if again or not line["needed_gb"]:
            print(line["id"], flush=True)
            line["needed_gb"] = f"{count_of(request_of(line)).sizes[0].memory / 1e9:.6g}"
    with MEMORY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def write_digests(digests: dict[str, Any]) -> None:
    """One line a program."""
    rows = (f'  "{key}": {json.dumps(each, separators=(",", ":"))}' for key, each in digests["programs"].items())
    text = f' "made_with": {json.dumps(digests["made_with"])},\n "programs": {{\n' + ",\n".join(rows)
    DIGESTS.write_text("{\n" + text + "\n }\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
