"""Load a checked study from YAML, read strictly so that a slip has a line number, and write it back to a file.

A rejected config is reported in one line: the place, what is wrong with it, and the nearest right key or value.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from whichdevice.base.errors import StudyError, brief, did_you_mean
from whichdevice.base.files import CONFIG, write_changed
from whichdevice.study.config.model import Call, Study

OWN_DEFAULT = Path("config/config.yaml")
SHIPPED_DEFAULT = CONFIG / OWN_DEFAULT.name
MAX_NODES = 100_000  # values with every alias written out; a study of thousands of cells needs a hundredth
LONGEST_NUMBER = 1000  # characters of anything but text; YAML's sexagesimal numbers take forever when they are long
NAME_RULE = "a name has letters, digits, _ and . only, starts with a letter or digit and ends within 64 characters"
MAX_FAULTS = 12  # in one line


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
                        None, None, f"{key.value} is here a second time", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _count(node: yaml.Node, known: dict[int, int]) -> int:
    """Values below a node, each as often as aliases repeat it; `known` holds those counted, 0 for those begun."""
    if (counted := known.get(id(node))) is not None:
        if not counted:
            raise _ExcessError(problem="an alias is inside its own anchor", problem_mark=node.start_mark)
        return counted
    known[id(node)], total = 0, 1
    if isinstance(node, yaml.ScalarNode):
        if len(node.value) > LONGEST_NUMBER and node.tag != "tag:yaml.org,2002:str":
            raise _ExcessError(problem="this is too long for a number", problem_mark=node.start_mark)
    else:
        pairs = isinstance(node, yaml.MappingNode)
        for inner in (part for pair in node.value for part in pair) if pairs else node.value:
            total += _count(inner, known)
            if total > MAX_NODES:
                problem = f"more than {MAX_NODES:,} values once its aliases are written out; a config needs far fewer"
                raise _ExcessError(problem=problem, problem_mark=node.start_mark)
    known[id(node)] = total
    return total


def default_config() -> Path:
    """The config of a call that names none: of this folder, else the one that ships with the project."""
    return OWN_DEFAULT if OWN_DEFAULT.is_file() else SHIPPED_DEFAULT


def check_yaml(path: Path) -> dict[str, Any]:
    """Read a config file (YAML, or JSON as Snakemake also takes); raises StudyError with file and line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise StudyError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        near = _nearest(path) if isinstance(error, FileNotFoundError) else ""
        raise StudyError(f"{path}: cannot be read: {error.strerror or error}{near}") from error
    values = _parse(text, path)
    if not isinstance(values, dict):
        raise StudyError(f"{path}: holds no keys; it needs lines such as `study: quick`")
    return values


def _nearest(missing: Path) -> str:
    """The configs with a similar name, in the same folder or in `config`; of none, nothing."""
    folders = dict.fromkeys([missing.parent, Path("config")])
    configs = [path.as_posix() for folder in folders for path in sorted(folder.glob("*.yaml"))]
    return did_you_mean(missing.as_posix(), configs, kind="there are") if configs else ""


def _parse(text: str, path: Path) -> Any:
    if path.suffix == ".json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StudyError(f"{path}: is not JSON: {error}") from error
    return parse_yaml(text, str(path))


def parse_yaml(text: str, where: str) -> Any:
    """Return the values of a YAML text; raises StudyError with `where` and the line, also where it holds too much."""
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
            problem = "a tab is where YAML needs spaces"
        raise StudyError(f"{where}{line}: {problem}; check indentation, colons and brackets there") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        # reader errors and impossible values such as the date 2024-13-45 or an unhashable key
        raise StudyError(f"{where}: is not YAML: {' '.join(str(error).split())}") from error


AnyStudy = TypeVar("AnyStudy", bound=Study)
# Resources that a device may not name, and what to do instead.
REFUSED_RESOURCES = {
    **{name: f"write {name.partition('_')[0]}_mb" for name in ("mem", "mem_mib", "disk", "disk_mib")},
    "slurm_extra": "add it to set-resources of profiles/slurm/config.yaml, beside --exclusive",
}


def load_study(values: dict[str, Any], where: str = "config") -> Call:
    """Check Snakemake's config, files and command line merged; missing keys take their defaults.

    Raises StudyError with one line that names `where`, the key, what is wrong and what would be right.
    """
    call = _checked(Call, values, where)
    for name in call.run_on if isinstance(call.run_on, list) else []:
        if name not in call.devices:
            raise StudyError(f"{where}: run_on: {name} is no device here{did_you_mean(name, call.devices)}")
    _check_devices(call, where)
    _check_resources(call, where)
    return call


def resolved(call: Call) -> Study:
    """The study without what holds for one call only."""
    return Study.model_validate({name: getattr(call, name) for name in Study.model_fields})


def write_study(study: Study, path: Path) -> None:
    """Write the resolved study atomically; a file that already says the same stays untouched."""
    text = yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)
    write_changed(text, path)


def read_study(path: Path) -> Study:
    """Read a resolved study; raises StudyError that names the file."""
    return _checked(Study, check_yaml(path), str(path))


def parse_study(text: str, where: str) -> Study:
    """Read a resolved study from its text; raises StudyError with `where`. Nothing that it names is looked at."""
    return _checked(Study, parse_yaml(text, where), where)


def _checked(model: type[AnyStudy], values: dict[str, Any], where: str) -> AnyStudy:
    if not isinstance(values, dict):
        raise StudyError(f"{where}: holds {brief(values)}; it needs keys with values")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise config_error(error, model, where) from error


def _check_resources(call: Call, where: str) -> None:
    for name, device in call.devices.items():
        for resource, value in device.resources.items():
            place = f"{where}: devices.{name}.resources: {resource}"
            if resource in REFUSED_RESOURCES:
                raise StudyError(f"{place} is not for a device: {REFUSED_RESOURCES[resource]}")
            if resource in ("mem_mb", "disk_mb") and not isinstance(value, int):
                raise StudyError(f"{place} is {value!r}; it needs a number of megabytes")


def _check_devices(call: Call, where: str) -> None:
    for name, workload in call.workloads.items():
        for device in workload.device or []:
            if device not in call.devices:
                hint = did_you_mean(device, call.devices)
                raise StudyError(f"{where}: workloads.{name}.device: {device} is no device here{hint}")


def config_error(error: ValidationError, model: type[BaseModel], where: str) -> StudyError:
    """Every fault of a rejected config in one line."""
    faults: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        place, keys = _place(detail["loc"], model)
        if place not in faults or isinstance(detail["input"], list):  # a list is no `auto`: what is wrong inside it?
            faults[place] = _message(detail, place, keys)
    shown = [" ".join(fault.split()) for fault in faults.values()]
    more_faults = f"; and {len(shown) - MAX_FAULTS} more" if len(shown) > MAX_FAULTS else ""
    return StudyError(f"{where}: {'; '.join(shown[:MAX_FAULTS])}{more_faults}")


def _place(loc: Sequence[int | str], model: type[BaseModel]) -> tuple[str, list[str]]:
    """`workloads.mnist_cnn.batch_size`, without pydantic's tags and list positions, and the keys of that section."""
    parts, keys = list[str](), list[str]()
    inner: Any = model
    for part in loc:
        if isinstance(part, int) and hasattr(inner, "model_fields"):  # an entry of a list of sections, from 1
            parts[-1] += f"[{part + 1}]"
            continue
        fields = _fields(inner)
        if isinstance(part, int) or part == "[key]" or not (fields or get_origin(inner) is dict):
            break
        parts.append(part)
        keys = list(fields)
        inner = _plain(fields[part].annotation if part in fields else None) if fields else _plain(get_args(inner)[1])
    return ".".join(parts), keys


def _fields(section: Any) -> dict[str, Any]:
    """The fields of a section by the keys that a person writes; empty for anything else."""
    return {field.alias or name: field for name, field in getattr(section, "model_fields", {}).items()}


def _plain(annotation: Any) -> Any:
    """The section or mapping behind an annotation, if there is one."""
    if get_origin(annotation) in (Union, UnionType):
        return next((part for part in map(_plain, get_args(annotation)) if part), None)
    if get_origin(annotation) is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return annotation
    if hasattr(annotation, "__metadata__") or get_origin(annotation) is list:
        return _plain(get_args(annotation)[0])
    return None


def _message(detail: ErrorDetails, place: str, keys: list[str]) -> str:
    """Pydantic's message after the place and the value, but where it would not say what to write."""
    kind, value, subject = detail["type"], detail["input"], place or "the file"
    if kind == "extra_forbidden":
        section, dot, wrong = place.rpartition(".")
        return f"{place} is not a key" + did_you_mean(wrong, keys, section + dot, "keys here are")
    if kind == "missing":
        return f"{subject} is missing"
    if kind in ("string_pattern_mismatch", "string_too_long"):
        return f"{subject}: {brief(value)} is no name here; {NAME_RULE}"
    if kind == "too_short":
        return f"{subject} is empty; give at least one value, or leave the key out"
    if kind == "value_error":
        return f"{subject} {detail['msg'].removeprefix('Value error, ')}"
    needed = detail["msg"].partition(", ")[0] if "_parsing" in kind else detail["msg"]
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        needed = "it needs keys with values"
    return f"{subject} is {brief(value)}; {needed.replace('Input should be', 'it must be')}"
