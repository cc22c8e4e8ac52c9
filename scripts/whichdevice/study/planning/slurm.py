"""Nodes of a Slurm cluster, asked of `sinfo`: cores for a run, and why a run could never start."""

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

COMMAND = ("sinfo", "--noheader", "--Node", "--format=%P|%c|%m|%l|%T")  # partition, CPUs, MiB, time limit, state
SINFO_SECONDS = 20.0
GONE = ("down", "drain", "fail")  # states of nodes that take no job


@dataclass(frozen=True)
class Partition:
    """The nodes of a partition that take jobs."""

    name: str
    default: bool
    cores: list[int]  # of each node
    memory: int  # MiB of the largest node
    minutes: float  # longest time of a job


@cache
def partitions() -> tuple[Partition, ...]:
    """The cluster's partitions; empty where there is no Slurm, or it does not answer."""
    if shutil.which(COMMAND[0]) is None:
        return ()
    try:
        asked = subprocess.run(COMMAND, capture_output=True, text=True, timeout=SINFO_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_partitions(asked.stdout)


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """Read what `sinfo` prints: a line for each node of each partition, the default one marked with a star."""
    parts: dict[str, Partition] = {}
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) != 5 or not fields[1].isdigit() or fields[4].lower().startswith(GONE):
            continue
        name, cores, memory, limit = fields[0], int(fields[1]), int(fields[2].rstrip("+")), _minutes(fields[3])
        part = parts.setdefault(name, Partition(name.rstrip("*"), name.endswith("*"), [], 0, limit))
        part.cores.append(cores)
        parts[name] = Partition(part.name, part.default, part.cores, max(part.memory, memory), limit)
    return tuple(parts.values())


def node_cores(known: tuple[Partition, ...], name: str | None) -> int | None:
    """Cores that every node of a partition has; without a name, of the default partition. None if unknown."""
    chosen = _named(known, name)
    return min(chosen.cores) if chosen else None


def never_starts(known: tuple[Partition, ...], asked: Mapping[str, Any]) -> str | None:
    """Why a job with these resources would wait for ever, with what to change; None where nothing speaks against it."""
    name = asked.get("slurm_partition")
    chosen = _named(known, name)
    if not known or (chosen is None and name is None):
        return None
    if chosen is None:
        return f"partition {name} has no node that takes jobs; there are {', '.join(node.name for node in known)}"
    for key, unit, most in (
        ("cpus_per_task", "cores", max(chosen.cores)),
        ("mem_mb", "MB of memory", chosen.memory),
        ("runtime", "minutes", chosen.minutes),
    ):
        value = asked.get(key)
        if isinstance(value, int | float) and value > most:
            return f"it asks for {value:g} {unit} ({key}), and partition {chosen.name} has at most {most:g}"
    return None


def _named(known: tuple[Partition, ...], name: str | None) -> Partition | None:
    return next((part for part in known if (part.default if name is None else part.name == name)), None)


def _minutes(limit: str) -> float:
    """A time limit of Slurm, `[days-]hours:minutes:seconds`, `minutes:seconds` or `infinite`."""
    days, _, clock = limit.rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in parts) or not 1 < len(parts) < 4:
        return float("inf")
    hours, minutes, seconds = [0] * (3 - len(parts)) + [int(part) for part in parts]
    return int(days or 0) * 1440 + hours * 60 + minutes + seconds / 60
