"""YAML files read strictly, so that a slip of the pen has a line number."""

import json
from pathlib import Path
from typing import Any

import yaml

from whichdevice.errors import StudyError

MOST_NODES = 100_000  # values with every alias written out; a study of thousands of cells needs a hundredth
LONGEST_NUMBER = 1000  # characters of anything but text; YAML's sexagesimal numbers take forever when they are long


class _ExcessError(yaml.MarkedYAMLError):
    """YAML that is well written and holds too much."""


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping, which plain YAML silently takes, and aliases that explode."""

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _count(node, {})
        return node

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


def _count(node: yaml.Node, known: dict[int, int]) -> int:
    """Values below a node, each as often as aliases repeat it; `known` holds those counted, 0 for those begun."""
    if (counted := known.get(id(node))) is not None:
        if not counted:
            raise _ExcessError(problem="an alias stands inside its own anchor", problem_mark=node.start_mark)
        return counted
    known[id(node)], total = 0, 1
    if isinstance(node, yaml.ScalarNode):
        if len(node.value) > LONGEST_NUMBER and node.tag != "tag:yaml.org,2002:str":
            raise _ExcessError(problem="this is too long for a number", problem_mark=node.start_mark)
    else:
        pairs = isinstance(node, yaml.MappingNode)
        for inner in (part for pair in node.value for part in pair) if pairs else node.value:
            total += _count(inner, known)
            if total > MOST_NODES:
                problem = f"more than {MOST_NODES:,} values once its aliases are written out; a config needs far fewer"
                raise _ExcessError(problem=problem, problem_mark=node.start_mark)
    known[id(node)] = total
    return total


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
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """What a YAML text holds; raises StudyError with `where` and the line, also where it would hold far too much."""
    try:
        return yaml.load(text, Loader=_Loader)  # nosec B506  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        problem = " ".join((error.problem or "is not YAML").split())
        unclosed = "<stream end>" in problem and error.context_mark  # where it was opened says more than the end
        mark = unclosed or error.problem_mark
        line = f", line {mark.line + 1}" if mark and "\n" in text else ""
        if isinstance(error, _ExcessError):
            raise StudyError(f"{where}{line}: {problem}") from error
        if "\\t" in problem:
            problem = "a tab stands where YAML wants spaces"
        raise StudyError(f"{where}{line}: {problem}; check indentation, colons and brackets there") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        # reader errors and impossible values such as the date 2024-13-45 or an unhashable key
        raise StudyError(f"{where}: is not YAML: {' '.join(str(error).split())}") from error
