"""Table `compiled`: one row per step that the TPU compiler was given. Its times are modelled, nobody ran them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.records.compiled import Collective, CompiledRecord, read_compiled
from whichdevice.tables.columns import Column

COLUMNS: dict[str, Column] = {
    "topology": Column("text", "TPU slice, as the config names it"),
    "workload": Column("text", "workload, as the config names it"),
    "module": Column("text", "workload file"),
    "precision": Column("text", "number format"),
    "batch_size": Column("int", "examples per step over all devices of the slice; for matmul, N"),
    "sequence_length": Column("int", "steps per sequence, where the config sets it"),
    "status": Column("text", "ok, does_not_fit, failed, or unavailable where there is no compiler"),
    "reason": Column("text", "why, for every status but ok"),
    "evidence": Column("text", "compiled: the compiler states it"),
    "devices": Column("int", "devices of the slice; cores on v2 and v3"),
    "compile_seconds": Column("float", "s, on this host"),
    "memory_needed": Column("float", "bytes on one device"),
    "memory_available": Column("float", "bytes that the compiler leaves to a program on one device"),
    "memory_missing": Column("float", "bytes by which it does not fit"),
    "largest_batch": Column("int", "largest batch found to fit, confirmed by a compile"),
    "largest_batch_reason": Column("text", "why none was found, or a much larger one may fit"),
    "all_reduces": Column("int", "all-reduces in a step; missing where no program was compiled"),
    "all_reduce_bytes": Column("float", "bytes that they reduce, on one device"),
    "program_flops": Column("float", "operations of the products in the program, all devices"),
    "flops_ratio": Column("float", "program_flops / analytic operations"),
    "time_evidence": Column("text", "modelled: never enters a verdict, a crossover, a cost or a speed-up"),
    "time_low": Column("float", "s of device time a step, low end of the modelled range"),
    "time_high": Column("float", "s, high end; missing where cycles or trip counts are: then the time is at least low"),
    "bytes_with_cycles": Column("float", "share of bytes whose instructions carry the compiler's cycles"),
    "versions": Column("text", "of the compiler and what feeds it"),
    "code_hash": Column("text", "code that the record depends on"),
    "record": Column("text", "path of the record"),
}


def compiled_rows(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """A row per compiled record that is there; one that cannot be read is a row with its reason."""
    for path in paths:
        if not path.is_file():
            continue
        try:
            yield _row(read_compiled(path), path)
        except StudyError as error:
            yield {"topology": path.parent.name, "status": "failed", "reason": str(error), "record": path.as_posix()}


def _row(record: CompiledRecord, path: Path) -> dict[str, Any]:
    asked, facts, modelled = record.asked, record.facts, record.modelled
    row: dict[str, Any] = {
        **{name: getattr(asked, name) for name in ("topology", "workload", "module", "precision")},
        "batch_size": asked.batch_size,
        "sequence_length": asked.sequence_length,
        "status": record.status,
        "reason": record.reason,
        "versions": "; ".join(f"{name} {number}" for name, number in sorted(record.versions.items())) or None,
        "code_hash": record.code_hash,
        "record": path.as_posix(),
    }
    if facts is not None:
        reduces = facts.collectives.get("all-reduce", Collective(count=0, nbytes=0.0))
        compiled = record.status == "ok"  # else there is no program to count in
        row |= {
            "evidence": facts.evidence,
            "memory_available": facts.hbm_available,
            "all_reduces": reduces.count if compiled else None,
            "all_reduce_bytes": reduces.nbytes if compiled else None,
            **{
                name: getattr(facts, name)
                for name in (
                    "devices", "compile_seconds", "memory_needed", "memory_missing", "largest_batch",
                    "largest_batch_reason", "program_flops", "flops_ratio",
                )
            },
        }  # fmt: skip
    if modelled is not None:
        row |= {
            "time_evidence": modelled.evidence,
            "time_low": modelled.low,
            "time_high": modelled.high,
            "bytes_with_cycles": modelled.bytes_with_cycles,
        }
    return row
