"""The records behind docs/results, in one Parquet file, and the tables that are made from them again.

python docs/records.py pack results/NAME    put a study's config and records into the file, in place of its older ones
python docs/records.py tables               write docs/results/tables/ from the file, and count the published steps
"""

import argparse
import tempfile
from collections.abc import Iterator
from functools import reduce
from operator import getitem
from pathlib import Path

import pandas as pd
import yaml
from pydantic import ValidationError

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.decide.words import study_head, study_rows
from whichdevice.forecast.answer import forecast_of
from whichdevice.forecast.counting import count_steps
from whichdevice.forecast.products import write_compiled
from whichdevice.study.claims import PUBLISHED, claim_requests, read_published
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Study
from whichdevice.study.figures import figure_facts, style
from whichdevice.study.figures.claims import panels_of, then_and_now
from whichdevice.study.programs import program_requests
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.base import write_table
from whichdevice.study.tables.make import write_tables
from whichdevice.study.tables.published import published_table

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
        claims(tables())


def pack(results: Path, file: Path = FILE) -> None:
    """Put config and records of a study into the file; other studies in it stay. Its forecasts are counted anew."""
    found = [results / "config.yaml", *sorted(results.glob("runs/**/record.json"))]
    rows = [row for row in _rows(file) if row["study"] != results.name]
    rows += [
        {"study": results.name, "path": path.relative_to(results).as_posix(), "text": path.read_text(encoding="utf-8")}
        for path in found
    ]
    pd.DataFrame(rows).to_parquet(file, compression="zstd", index=False)


def tables(file: Path = FILE, out: Path = FOLDER / "tables") -> pd.DataFrame:
    """Write the answers of each study in the file; return what they measured."""
    rows, measured = _rows(file), []
    for study in sorted({row["study"] for row in rows}):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for row in rows:
                if row["study"] == study:
                    path = root / row["path"]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    text = of_today(row["text"]) if row["path"] == "config.yaml" else row["text"]
                    path.write_text(text, encoding="utf-8")
            config, kept = root / "config.yaml", sorted(root.glob("runs/**/record.json"))
            write_tables(config, kept, PUBLISHED, root / "tables", list(_counted(config)))
            (out / study).mkdir(parents=True, exist_ok=True)
            results = StudyResults(config, root / "tables")
            rows_of = pd.DataFrame(study_rows(results.answers), columns=study_head())
            rows_of.to_csv(out / study / "answers.csv", index=False)
            measured.append(results.summary)
    return pd.concat(measured, ignore_index=True)


def _counted(config: Path) -> Iterator[Path]:
    """Count what a study forecasts, and yield the path of each record, beside its config."""
    for record in count_steps(program_requests(read_study(config))):
        path = config.parent / "compiled" / record.asked.path / "counted.json"
        write_compiled(record, path)
        yield path


def claims(measured: pd.DataFrame, out: Path = FOLDER / "tables") -> None:
    """Write the sources' figures beside today's forecasts of the same work, and what was measured of it."""
    forecasts = [forecast_of(record) for record in count_steps(claim_requests())]
    rows = published_table(read_published(PUBLISHED), measured, forecasts, hardware_rows())
    write_table(rows, out / "published.csv")
    picture(rows)


def picture(rows: pd.DataFrame, path: Path = FOLDER.parent / "images" / "then-and-now.svg") -> None:
    """Draw the sources' experiments, then and now, as a study's report does."""
    with style.applied():
        drawn = then_and_now(panels_of(rows))
        style.entitle(drawn, figure_facts("claims").title)
        style.save(drawn, path)


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
