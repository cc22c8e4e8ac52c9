"""YAML files read strictly, so that a slip of the pen has a line number."""

import json
from pathlib import Path
from typing import Any

import yaml

from whichdevice.errors import StudyError


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping; plain YAML silently keeps the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} stands here a second time", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def check_yaml(path: Path) -> dict[str, Any]:
    """Read a config file (YAML, or JSON as Snakemake also takes); raises StudyError with file and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise StudyError(f"{path}: cannot be read: {error.strerror or error}") from error
    values = _parse(text, path)
    if not isinstance(values, dict):
        raise StudyError(f"{path}: holds no keys; it needs lines such as `study: quick`")
    return values


def _parse(text: str, path: Path) -> Any:
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StudyError(f"{path}: is not JSON: {error}") from error
    try:
        return yaml.load(text, Loader=_Loader)  # nosec B506  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        problem = " ".join((error.problem or "is not YAML").split())
        unclosed = "<stream end>" in problem and error.context_mark  # where it was opened says more than the end
        mark = unclosed or error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        if "\\t" in problem:
            problem = "a tab stands where YAML wants spaces"
        raise StudyError(f"{path}{line}: {problem}; check indentation, colons and brackets there") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        # reader errors and impossible values such as the date 2024-13-45 or an unhashable key
        raise StudyError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
