"""Programs, constants and page of the forecasts: `make forecasts`, or

    python -m fit            # compile programs without a digest, fit, evaluate, write the page
    python -m fit --rebuild  # compile every GPU program anew (an hour on two cores)
    python -m fit --blind    # forecast the blind families too: once, when everything else is done

Deep models of equal layers are compiled with one and with two layers; their work is that of one layer and so many times
the difference (Work.deepened). Not where the loss is scaled (mixed_float16): the compiler then fuses less of a deep
model's update than of a shallow one's (24 layers of BERT: 6 % more bytes), so the whole model is compiled.
"""

import csv
import json
import sys
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
from whichdevice.forecast.joint import SCORECARD
from whichdevice.forecast.time_model import CONSTANTS
from whichdevice.forecast.work import Work
from whichdevice.forecast.xla.hlo_operations import read_work
from whichdevice.forecast.xla.programs import CompiledProgram, compile_program
from whichdevice.study.tables.base import read_rows

MEMORY = DATA / "memory.csv"
DEEP = {"compiled/bert.py": 24, "compiled/gpt2.py": 12}  # layers where no option says


def main() -> None:
    """Bring digests, constants, page and figure up to date with fit/data/published.csv."""
    digests = read_digests(DIGESTS)
    programs: dict[str, Any] = digests["programs"]
    lines = {line["program"]: line for line in read_rows(PUBLISHED) if "@" not in line["program"]}
    for key, line in lines.items():
        if (key not in programs or "--rebuild" in sys.argv) and not line["slice"]:
            print(line["id"], flush=True)
            programs[key] = compiled(line).digest()
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


def compiled(line: dict[str, str]) -> Work:
    """The work of a row's program on its GPU, compiled here."""
    options = json.loads(line["options"])
    if line["model"] not in DEEP or (line["precision"] == "mixed_float16" and line["mode"] == "train"):
        return _compiled(line, options)
    layers = options.get("layers", DEEP[line["model"]])
    return _compiled(line, options | {"layers": 1}).deepened(_compiled(line, options | {"layers": 2}), layers)


def write_memory(again: bool) -> None:
    """The memory needed by each program of fit/data/memory.csv, where it is missing."""
    lines = read_rows(MEMORY)
    for line in lines:
        if again or not line["needed_gb"]:
            print(line["id"], flush=True)
            line["needed_gb"] = f"{_program(line, json.loads(line['options'])).memory.total / 1e9:.6g}"
    with MEMORY.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def _compiled(line: dict[str, str], options: dict[str, Any]) -> Work:
    return read_work(_program(line, options).text, "gpu")


def _program(line: dict[str, str], options: dict[str, Any]) -> CompiledProgram:
    name = line["model"]
    return compile_program(
        str(DATA.parent / name) if name.endswith(".py") else name,
        line["device"],
        line["precision"],
        int(line["batch"]),
        "predict" if line.get("mode") == "predict" else "train",
        options,
        int(line["sequence_length"]) if line["sequence_length"] else None,
    )


def write_digests(digests: dict[str, Any]) -> None:
    """One line a program."""
    rows = (f'  "{key}": {json.dumps(each, separators=(",", ":"))}' for key, each in digests["programs"].items())
    text = f' "made_with": {json.dumps(digests["made_with"])},\n "programs": {{\n' + ",\n".join(rows)
    DIGESTS.write_text("{\n" + text + "\n }\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
