"""A rejected config told in one line: the place, what is wrong with it, and the nearest right key or value."""

import difflib
import reprlib
from collections.abc import Iterable, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from whichdevice.errors import StudyError

NAME_RULE = "a name has letters, digits, _ and . only, starts with a letter or digit and ends within 64 characters"
NEEDS = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "list_type": "a value or a list of values",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
}
MOST_FAULTS = 12  # in one line
SHORT = reprlib.Repr()  # of a list in lists in lists, say, only the beginning
SHORT.maxstring = SHORT.maxlong = SHORT.maxother = 2000
COMMANDS = {  # what was a key once
    "merge": "records are merged by python -m whichdevice merge SOURCE",
    "results_from": "a study is fetched by python -m whichdevice fetch ADDRESS",
}
LIMITS = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}


def config_error(error: ValidationError, model: type[BaseModel], where: str) -> StudyError:
    """Every fault of a rejected config in one line."""
    faults: dict[str, str] = {}
    for detail in error.errors(include_url=False):
        place = _place(detail["loc"], model)
        if place not in faults or isinstance(detail["input"], list):  # a list is no `auto`: what is wrong inside it?
            faults[place] = _message(detail, place, model)
    shown = [" ".join(fault.split()) for fault in faults.values()]
    more = f"; and {len(shown) - MOST_FAULTS} more" if len(shown) > MOST_FAULTS else ""
    return StudyError(f"{where}: {'; '.join(shown[:MOST_FAULTS])}{more}")


def did_you_mean(wrong: object, right: Iterable[object], prefix: str = "", kind: str = "there are") -> str:
    """`; did you mean x?` for a near miss, else the list of what there is."""
    known = [str(name) for name in right]
    near = difflib.get_close_matches(str(wrong), known, n=1, cutoff=0.6)
    return f"; did you mean {prefix}{near[0]}?" if near else f"; {kind} {', '.join(known)}"


def brief(value: object) -> str:
    """A value as a person wrote it, on one line, cut when it is long."""
    text = str(value).lower() if isinstance(value, bool) else SHORT.repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _place(loc: Sequence[int | str], model: type[BaseModel]) -> str:
    """`workloads.mnist_cnn.batch_size`: the keys that were written, without pydantic's own tags and list positions."""
    parts: list[str] = []
    inner: Any = model
    for part in loc:
        if isinstance(part, int) and hasattr(inner, "model_fields"):  # an entry of a list of sections, from 1
            parts[-1] += f"[{part + 1}]"
            continue
        if isinstance(part, int) or part == "[key]":
            break
        fields = _fields(inner)
        if not fields and get_origin(inner) is not dict:
            break
        parts.append(part)
        inner = _plain(fields[part].annotation if part in fields else None) if fields else _plain(get_args(inner)[1])
    return ".".join(parts)


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


def _message(detail: ErrorDetails, place: str, model: type[BaseModel]) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    subject = place or "the file"
    if kind == "extra_forbidden":
        return _unknown_key(detail["loc"], place, model)
    if kind == "missing":
        return f"{subject} is missing"
    if kind in ("string_pattern_mismatch", "string_too_long"):
        return f"{subject}: {brief(value)} is no name here; {NAME_RULE}"
    if kind == "too_short":
        return f"{subject} is empty; give at least one value, or leave the key out"
    if kind == "literal_error":
        allowed = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
        return f"{subject}: {brief(value)} is not known" + did_you_mean(value, allowed)
    if kind == "value_error":
        return f"{subject} {detail['msg'].removeprefix('Value error, ')}"
    for limit, words in LIMITS.items():
        if limit in context:
            return f"{subject} is {brief(value)}; it must be {words} {context[limit]:g}"
    return f"{subject} is {brief(value)}; it needs {NEEDS.get(kind, detail['msg'])}"


def _unknown_key(loc: Sequence[int | str], place: str, model: type[BaseModel]) -> str:
    parent, _, wrong = place.rpartition(".")
    inner: Any = model
    for part in loc[:-1]:
        if isinstance(part, int):
            continue
        fields = _fields(inner)
        inner = _plain(fields[str(part)].annotation) if fields else _plain(get_args(inner)[1])
    if place in COMMANDS:
        return f"{place} is not a key: {COMMANDS[place]}"
    prefix = f"{parent}." if parent else ""
    return f"{place} is not a key" + did_you_mean(wrong, _fields(inner), prefix, "keys here are")
