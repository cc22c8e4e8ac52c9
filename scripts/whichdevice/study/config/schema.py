"""Write the files made from the typed config: the default study with comments, and the JSON schema for editors."""

import json
import textwrap
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel

from whichdevice.study.config.model import Device, Section, StudyFile, Workload

MAX_LINE = 118
SCHEMA_LINE = "# yaml-language-server: $schema=study.schema.json"
GUIDE = """
A key left out takes its default; a wrong key or value is an error that says what would be right. To change the
study, change a line here; or copy this file and name the copy with --configfile, which replaces this one; or
set single keys for one call: snakemake --cores 1 all --config study=try 'measure={seconds: 5}'
Every key is explained in docs/reference/config.md, with examples in docs/how-to/study.md.
This file is generated from scripts/whichdevice/study/config by `make config`."""
HEADER = """\
The quick study: small workloads on any machine in about six minutes, no network needed.
Two large ones are only forecast: they keep a GPU busy, and so show where GPUs differ.
Run it: make study, or snakemake --cores 1 all
Three workloads run smaller than published, and learning has a time budget; records and report say so.
More cells and backends: config/full.yaml. The recipes as published: config/published.yaml."""
NOTES = {  # on workloads
    "memory_stream": "bandwidth; an array far larger than the last cache",
    "fashion_cnn": "published: batch 512, all images",
    "shakespeare_lstm": "published: batch 1024, sequences of 100, 100 steps an epoch",
    "weather_gru": "published: batch 256, sequences of 1344 hours, 100 steps an epoch",
    "mnist_official": "forecast alone, as are two large models",
}
ENTRIES: dict[str, type[Section]] = {"devices": Device, "workloads": Workload}


def commented() -> str:
    """The default study as commented YAML."""
    lines = [SCHEMA_LINE, *_comment(HEADER + "\n" + GUIDE)]
    for key, field in StudyFile.model_fields.items():
        lines += ["", *_comment(field.description or "")]
        lines += _entry(key, field.get_default(call_default_factory=True))
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any) -> Iterator[str]:
    if key in ENTRIES:
        yield f"{key}:"
        yield from _comment(f"keys of each, by default as shown:\n{_keys(ENTRIES[key])}", "  ")
        yield ""
        for name, section in value.items():
            yield from _comment(NOTES.get(name, ""), "  ")
            yield f"  {name}:"
            for inner in sorted(section.model_fields_set, key=list(type(section).model_fields).index):
                yield f"    {inner}: {_scalar(getattr(section, inner))}".rstrip()
    elif isinstance(value, BaseModel):
        yield f"{key}:"
        for inner, field in type(value).model_fields.items():
            yield from _comment(field.description or "", "  ")
            yield f"  {inner}: {_scalar(getattr(value, inner))}".rstrip()
    else:
        yield f"{key}: {_scalar(value)}"


def _keys(section: type[Section]) -> str:
    """One line for each key of a section: its default and what it means."""
    lines = []
    for key, field in section.model_fields.items():
        default = "" if field.is_required() else f" {_scalar(field.get_default(call_default_factory=True))}".rstrip()
        lines.append(f"  {key}:{default}  ({field.description})")
    return "\n".join(lines)


def _scalar(value: Any) -> str:
    """A value in one line of YAML; an empty text for None, which YAML reads as None."""
    if value is None:
        return ""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False).removesuffix("...\n").strip()


def _comment(text: str, indent: str = "") -> Iterator[str]:
    """Comment lines no wider than the page; further lines of a long one stand deeper than the first."""
    for line in text.splitlines():
        indentation = line[: len(line) - len(line.lstrip())]
        deeper = indentation and f"{indentation}    "
        wrapped = textwrap.wrap(line, MAX_LINE - len(indent) - 2, subsequent_indent=deeper)
        yield from (f"{indent}# {part}".rstrip() for part in wrapped or [""])


def generated_files() -> dict[str, str]:
    """Name and text of each generated file of the folder config/."""
    return {
        "config.yaml": commented(),
        "study.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def schema() -> dict[str, Any]:
    """The JSON schema of a config file, with the short forms that loading forgives."""
    document = StudyFile.model_json_schema()
    _forgive(document)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **document}


def _forgive(node: Any) -> None:
    """Allow one value for a list, and null for a section."""
    if isinstance(node, list):
        for part in node:
            _forgive(part)
    if not isinstance(node, dict):
        return
    for part in list(node.values()):
        _forgive(part)
    if node.get("type") == "array":
        array = {key: node.pop(key) for key in ("type", "items", "minItems") if key in node}
        node["anyOf"] = [array, array["items"]]
    elif node.get("type") == "object" and "properties" in node:
        node["type"] = ["object", "null"]
