"""Parts of records, whose unknown fields are errors, types that are checked, and reading a file as a record."""

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from whichdevice.base.errors import StudyError

Evidence = Literal["measured", "forecast", "published"]
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # what a table's column can hold
PATH = re.compile(r"(?<![\w./:-])/(?:[^\s/:;,'\"()<>]+/)+([^\s/:;,'\"()<>]*)")
GENERATED_UNIT = "token"  # unit of mode generate
WHOLE_COUNT = "every product of the traced step"  # in `flops_counted`; anything else is unknown or a lower bound
AnyRecord = TypeVar("AnyRecord", bound=BaseModel)


def no_newer_than(newest: int) -> AfterValidator:
    """Refuse a later schema version with a clear message, whatever else the record holds."""

    def known(version: int) -> int:
        if version > newest:
            raise ValueError(f"is {version}, written by a newer version of the project; update this one to read it")
        return version

    return AfterValidator(known)


class Part(BaseModel):
    """A part of a record; unknown fields are errors, so that a newer record is never half understood."""

    model_config = ConfigDict(extra="forbid")
    former: ClassVar[frozenset[str]] = frozenset()  # fields of earlier records, which are dropped

    @model_validator(mode="before")
    @classmethod
    def _without_former_fields(cls, given: Any) -> Any:
        return {name: given[name] for name in given if name not in cls.former} if isinstance(given, dict) else given


def without_paths(text: str) -> str:
    """`/home/NAME/env/libtpu.so` becomes `.../libtpu.so`; addresses and ratios such as `a/b` stay."""
    return PATH.sub(r".../\1", text)


Redacted = Annotated[str, AfterValidator(without_paths)]


def read_as(model: type[AnyRecord], path: Path, schema: str) -> AnyRecord:
    """Read a record of any kind; raises StudyError that names the file and the schema."""
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StudyError(f"cannot read record {path}: {error.strerror or error}") from error
    except ValidationError as error:
        place, reason = first_fault(error)
        hint = "" if place == "schema_version" else "; delete it to make it anew"
        raise StudyError(f"record {path} is not readable as {schema}: {place}: {reason}{hint}") from error


def first_fault(error: ValidationError) -> tuple[str, str]:
    """Return the place of the first fault in a record, and what it is."""
    first = error.errors(include_url=False)[0]
    place = " ".join(".".join(str(part) for part in first["loc"]).split())[:100]
    return place or "the file", first["msg"].removeprefix("Value error, ")
