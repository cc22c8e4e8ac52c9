"""The records behind docs/results, in one Parquet file, and the tables that are made from them again.

python docs/records.py pack results/NAME    put a study's config and records into the file, in place of its older ones
python docs/records.py tables               write docs/results/tables/<study>/*.csv from the file
"""

import argparse
import tempfile
from functools import reduce
from operator import getitem
from pathlib import Path

import pandas as pd
import yaml
from pydantic import ValidationError

from whichdevice.base.sheets.hardware import HARDWARE
from whichdevice.decide.words import study_head, study_rows
from whichdevice.study.config.model import Study
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.make import write_tables

FOLDER = Path(__file__).resolve().parent / "results"
FILE = FOLDER / "records.parquet"


def main() -> None:
    """Pack a study, or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("pack").add_argument("results", type=Path, help="results/<study>")
    commands.add_parser("tables")
    arguments = parser.parse_args()
    if arguments.command == "pack":
        pack(arguments.results)
    else:
        tables()


def pack(results: Path, file: Path = FILE) -> None:
    """Put config, records and compiled records of a study into the file; other studies in it stay."""
    found = [results / "config.yaml", *sorted(results.glob("runs/**/record.json"))]
    found += sorted(results.glob("compiled/**/*.json"))
    rows = [row for row in _rows(file) if row["study"] != results.name]
    rows += [
        {"study": results.name, "path": path.relative_to(results).as_posix(), "text": path.read_text(encoding="utf-8")}
        for path in found
    ]
    pd.DataFrame(rows).to_parquet(file, compression="zstd", index=False)


def tables(file: Path = FILE, out: Path = FOLDER / "tables") -> None:
    """Write published figures and answers of each study in the file."""
    rows = _rows(file)
    for study in sorted({row["study"] for row in rows}):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for row in rows:
                if row["study"] == study:
                    path = root / row["path"]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    text = of_today(row["text"]) if row["path"] == "config.yaml" else row["text"]
                    path.write_text(text, encoding="utf-8")
            write_tables(
                root / "config.yaml",
                sorted(root.glob("runs/**/record.json")),
                HARDWARE.with_name("published.csv"),
                root / "tables",
                sorted(root.glob("compiled/**/*.json")),
            )
            (out / study).mkdir(parents=True, exist_ok=True)
            (out / study / "published.csv").write_bytes((root / "tables" / "published.csv").read_bytes())
            answers = StudyResults(root / "config.yaml", root / "tables").answers
            rows_of = pd.DataFrame(study_rows(answers), columns=study_head())
            rows_of.to_csv(out / study / "answers.csv", index=False)


def of_today(text: str) -> str:
    """Return a kept config without the keys that are no more."""
    config = yaml.safe_load(text)
    try:
        Study.model_validate(config)
    except ValidationError as error:
        for fault in error.errors():
            if fault["type"] == "extra_forbidden":
                *path, key = fault["loc"]
                reduce(getitem, path, config).pop(key)
    return yaml.safe_dump(config, sort_keys=False)


def _rows(file: Path) -> list[dict[str, str]]:
    if not file.is_file():
        return []
    frame = pd.read_parquet(file)
    return [{name: str(row[name]) for name in ("study", "path", "text")} for row in frame.to_dict("records")]


if __name__ == "__main__":
    main()
