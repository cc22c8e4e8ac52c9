"""Write the files made from the typed config: commented studies and the JSON schema that editors read.

Two studies ship beside the quick default: a full one, and the publications' own recipes.
"""

import json
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import BaseModel

from whichdevice.study.config.model import Device, Measure, Section, Study, StudyFile, Train, Workload

MAX_LINE = 118
SCHEMA_LINE = "# yaml-language-server: $schema=study.schema.json"
GUIDE = """
A key left out takes its default; a wrong key or value is an error that says what would be right. To change the
study, change a line here; or copy this file and name the copy with --configfile, which replaces this one; or
set single keys for one call: snakemake --cores 1 all --config study=try 'measure={seconds: 5}'
Every key is explained in docs/reference/config.md, with examples in docs/how-to/study.md.
This file is generated from scripts/whichdevice/study/config by `make config`."""
QUICK_HEADER = """\
The quick study: small workloads on any machine in about six minutes, no network needed.
Two large ones are only forecast: they keep a GPU busy, and so show where GPUs differ.
Run it: make study, or snakemake --cores 1 all
Three workloads run smaller than published, and learning has a time budget; records and report say so.
More cells and backends: config/full.yaml. The recipes as published: config/published.yaml."""
QUICK_NOTES = {
    "workloads.memory_stream": "bandwidth; an array far larger than the last cache",
    "workloads.fashion_cnn": "published: batch 512, all images",
    "workloads.shakespeare_lstm": "published: batch 1024, sequences of 100, 100 steps an epoch",
    "workloads.weather_gru": "published: batch 256, sequences of 1344 hours, 100 steps an epoch",
    "workloads.mnist_official": "forecast alone, as are two large models",
}
ENTRIES: dict[str, type[Section]] = {"devices": Device, "workloads": Workload}
FULL_HEADER = """\
The full study: what the quick one leaves out for time, about a quarter of an hour on two cores.
More batch sizes, bfloat16, shares of the data and two backends; two whole epochs of learning.
Run it: snakemake --cores 1 all --configfile config/full.yaml"""
FULL_NOTES = {
    "workloads.memory_stream": "bandwidth; an array far larger than the last cache",
    "workloads.mnist_official": "also training time against data-set size",
    "workloads.mnist_cnn_backends": "two backends",
    "workloads.fashion_cnn": "a tenth of the data",
    "workloads.shakespeare_lstm": "published: batch 1024, sequences of 100, 100 steps an epoch",
    "workloads.weather_gru": "published: batch 256, sequences of 1344 hours, 100 steps an epoch",
}
PUBLISHED_HEADER = """\
The published study: each publication's recipe, exactly as it was published.
It takes hours on a GPU or TPU and days on a CPU; a run that cannot fit this host's memory is refused and recorded.
See first what it will take:  python -m whichdevice plan --configfile config/published.yaml
Then run it:                  snakemake --cores 1 all --configfile config/published.yaml"""
PUBLISHED_NOTES = {
    "data.source": "auto, so that the study needs no network; results then say `standin`. "
    "Only tfds or files give accuracies to compare with the published ones.",
    "train.epochs": "empty: each workload's own",
    "workloads.matmul": "neomatrix369, 2018; batch_size is N, and a product counts 2·N³ operations",
    "workloads.memory_stream": "no publication's: the bandwidth that rooflines need; batch_size is MiB an array",
    "workloads.mnist_official": "RSE blog, 2020: 58 steps an epoch",
    "workloads.mnist_cnn": 'Kizrak, 2019, and the notebook "Why TPUs?", 2018',
    "workloads.mnist_cnn_backends": "no publication's: two backends",
    "workloads.fashion_cnn_2018": "tensorflow/tpu notebook, 2018",
    "workloads.fashion_cnn_lee": "Lee, 2018: the origin of the published 102, 196 and 11164 s",
    "workloads.shakespeare_lstm": "tensorflow/tpu notebook, 2018, without validation; here 90 % of the text trains",
    "workloads.weather_gru_tpu": "neomatrix369, 2018: no validation data, so its callbacks never act",
    "workloads.weather_gru_tutorial": "Hvass-Labs tutorial 23: with validation data, callbacks act",
    "workloads.mnist_cnn_predict": "no publication's: latency and throughput of predictions",
}


def commented(study: Study, header: str = QUICK_HEADER, notes: Mapping[str, str] = QUICK_NOTES) -> str:
    """The study as commented YAML; `notes` explains single keys, by their dotted place, beyond the descriptions."""
    lines = [SCHEMA_LINE, *_comment(header + "\n" + GUIDE)]
    for key, field in StudyFile.model_fields.items():
        lines += ["", *_comment(field.description or "")]
        lines += _entry(key, getattr(study, key, field.get_default(call_default_factory=True)), notes)
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, notes: Mapping[str, str]) -> Iterator[str]:
    if key in ENTRIES:
        yield f"{key}:"
        yield from _comment(f"keys of each, by default as shown:\n{_keys(ENTRIES[key])}", "  ")
        yield ""
        for name, section in value.items():
            yield from _comment(notes.get(f"{key}.{name}", ""), "  ")
            yield f"  {name}:"
            for inner in sorted(section.model_fields_set, key=list(type(section).model_fields).index):
                yield f"    {inner}: {_scalar(getattr(section, inner))}".rstrip()
    elif isinstance(value, BaseModel):
        yield f"{key}:"
        for inner, field in type(value).model_fields.items():
            yield from _comment(field.description or "", "  ")
            yield from _comment(notes.get(f"{key}.{inner}", ""), "  ")
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


def full() -> Study:
    """Return the full study: all workloads in more cells, and learning by whole epochs."""
    return Study(
        study="full",
        train=Train(seconds=None),
        workloads={
            "matmul": Workload(batch_size=[512, 2048], precision=["float32", "bfloat16"]),
            "memory_stream": Workload(batch_size=[512]),
            "mnist_official": Workload(batch_size=[1024], fraction=[0.1, 0.25, 0.5]),
            "mnist_cnn": Workload(batch_size=[256, 512, 1024], export=True),
            "mnist_cnn_backends": Workload(
                module="mnist_cnn",
                batch_size=[256],
                backend=["tensorflow", "jax"],
                fraction=[0.1],
                epochs=0,
            ),
            "fashion_cnn": Workload(batch_size=[512], fraction=[0.1]),
            "shakespeare_lstm": Workload(batch_size=[32], sequence_length=[50], steps_per_epoch=20, validation=False),
            "weather_gru": Workload(batch_size=[8], sequence_length=[168], steps_per_epoch=20),
        },
    )


def published() -> Study:
    """Every published recipe as one study."""
    return Study(
        study="published",
        measure=Measure(seconds=10, repeats=10, timeout=172800),
        train=Train(epochs=None, seconds=None, repeats=3),
        workloads={
            "matmul": Workload(batch_size=[1024, 2048, 4096, 8192, 16384], precision=["float32", "bfloat16"]),
            "memory_stream": Workload(batch_size=[512, 2048], precision=["float32", "bfloat16"]),
            "mnist_official": Workload(batch_size=[1024], epochs=10),
            "mnist_cnn": Workload(batch_size=[256, 512, 1024], epochs=10, export=True),
            "mnist_cnn_backends": Workload(
                module="mnist_cnn",
                batch_size=[1024],
                backend=["tensorflow", "jax"],
                precision=["float32", "mixed_bfloat16"],
                epochs=0,
            ),
            "fashion_cnn_2018": Workload(module="fashion_cnn", batch_size=[1024], epochs=10, steps_per_epoch=100),
            "fashion_cnn_lee": Workload(module="fashion_cnn", batch_size=[512], epochs=20),
            "shakespeare_lstm": Workload(
                batch_size=[1024], sequence_length=[100], epochs=10, steps_per_epoch=100, validation=False
            ),
            "weather_gru_tpu": Workload(
                module="weather_gru",
                batch_size=[256],
                sequence_length=[1344],
                epochs=10,
                steps_per_epoch=10,
                validation=False,
            ),
            "weather_gru_tutorial": Workload(
                module="weather_gru", batch_size=[256], sequence_length=[1344], epochs=20, steps_per_epoch=100
            ),
            "mnist_cnn_predict": Workload(module="mnist_cnn", mode="predict", batch_size=[1, 8, 64, 1024]),
        },
    )


def generated_files() -> dict[str, str]:
    """Name and text of each generated file of the folder config/."""
    return {
        "config.yaml": commented(Study()),
        "full.yaml": commented(full(), FULL_HEADER, FULL_NOTES),
        "published.yaml": commented(published(), PUBLISHED_HEADER, PUBLISHED_NOTES),
        "study.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def schema() -> dict[str, Any]:
    """The JSON schema of a config file, with the short forms that loading forgives."""
    whole = StudyFile.model_json_schema()
    _forgive(whole)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


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
