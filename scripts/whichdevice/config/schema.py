"""The files made from the typed config: three commented studies and the JSON schema that editors read."""

import json
from typing import Any

from whichdevice.config import studies
from whichdevice.config.commented import commented
from whichdevice.config.model import Study, StudyFile


def generated_files() -> dict[str, str]:
    """Name and text of each generated file of the folder config/."""
    return {
        "config.yaml": commented(Study()),
        "full.yaml": commented(studies.full(), studies.FULL_HEADER, studies.FULL_NOTES),
        "published.yaml": commented(studies.published(), studies.PUBLISHED_HEADER, studies.PUBLISHED_NOTES),
        "study.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
    }


def schema() -> dict[str, Any]:
    """The JSON schema of a config file, with the short forms that loading forgives."""
    whole = StudyFile.model_json_schema()
    _forgive(whole)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _forgive(node: Any) -> None:
    """Wherever a list may stand, one value may; wherever a section may stand, nothing may."""
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
