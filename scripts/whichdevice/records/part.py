"""What every part of a record is made of."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Status = Literal["ok", "out_of_memory", "timed_out", "failed", "refused"]
Evidence = Literal["measured", "forecast", "compiled", "published"]
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]  # what a table's column can hold


def no_newer_than(own: int) -> AfterValidator:
    """For a schema version: a later one is told as such, whatever else its record holds."""

    def known(version: int) -> int:
        if version > own:
            raise ValueError(f"is {version}, written by a newer version of the project; update this one to read it")
        return version

    return AfterValidator(known)


class Part(BaseModel):
    """A part of a record; unknown fields are errors, so that a newer record is never half understood."""

    model_config = ConfigDict(extra="forbid")
