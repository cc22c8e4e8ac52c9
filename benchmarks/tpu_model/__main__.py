"""Adds published TPU times to the forecasts' validation: `python -m benchmarks.tpu_model`, then `make forecasts`.

Compiles the program of each row of config/tpu_published.csv that config/forecast_published.csv lacks, one process after
another, into results/tpu_model/ (minutes each), and adds the row and the work of its program.
"""

import csv

from benchmarks.forecasts.__main__ import write_digests
from benchmarks.tpu_model.compilation import compiled
from benchmarks.tpu_model.published import PUBLISHED as TPU_ROWS
from benchmarks.tpu_model.published import published_rows

from whichdevice.forecast.targets import find_target
from whichdevice.forecast.validation import DIGESTS, PUBLISHED, read_digests
from whichdevice.forecast.xla.hlo_operations import read_work


def main() -> None:
    """Add every row whose program compiles; print why another does not."""
    with TPU_ROWS.open(encoding="utf-8", newline="") as file:
        facts = {line["id"]: line for line in csv.DictReader(file)}
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        columns, known = reader.fieldnames or [], {line["id"] for line in reader}
    for row in published_rows():
        if row.id in known:
            continue
        outcome, text = compiled(row)
        print(f"{row.id}: {outcome.error or 'compiled'}", flush=True)
        if outcome.error:
            continue
        digests = read_digests(DIGESTS)
        digests["programs"][row.key] = read_work(text, "tpu").divided(outcome.steps).digest()
        write_digests(digests)
        line, slice_name = facts[row.id], row.topology.replace(":", "-")
        added = {
            "id": row.id,
            "source_group": line["source"].split(",")[0].split(" (")[0],
            "class": "S",
            "model": row.program,
            "options": "{}",
            "mode": "operation" if line["optimizer"] == "none" else "train",
            "device": find_target(slice_name).device,
            "slice": slice_name,
            "precision": line["precision"],
            "batch": line["global_batch"],
            "sequence_length": line["sequence_length"],
            "step_ms": line["step_ms"],
            "program": row.key,
            "source": f"{line['source']}; {line['url']}",
            "notes": f"{line['derivation']}; {line['notes']}",
        }
        with PUBLISHED.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, columns, lineterminator="\n").writerow(added)


if __name__ == "__main__":
    main()
