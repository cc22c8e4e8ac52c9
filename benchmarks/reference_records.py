"""Put the records of a study's device among those that ship with the project, under a name of its own.

python benchmarks/reference_records.py results/quick cpu epyc_2_cores
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
from whichdevice.study.records.store import on_device, parse_keys, read_record

REFERENCE = Path(__file__).parents[1] / "results" / "reference"


def main() -> None:
    """Write each record that counts and is ok, without artefacts, attempts and what is at its default."""
    study, device, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    for run, key in parse_keys((study / "keys.json").read_bytes()).items():
        path = study / "runs" / run / key / "record.json"
        if not run.startswith(f"{device}/") or not path.is_file():
            continue
        record = read_record(path)
        if record.status != "ok":
            continue
        kept = on_device(record, name).model_copy(update={"artefacts": {}, "attempts": [], "study": "reference"})
        target = REFERENCE / "runs" / kept.run / "record.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(kept.model_dump_json(exclude_defaults=True) + "\n", encoding="utf-8")
        print(target, f"{target.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
