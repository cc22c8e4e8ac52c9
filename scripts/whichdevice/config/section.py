"""What every part of the config is made of: checked values, and sections that refuse unknown keys."""

from types import NoneType
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from whichdevice.config.lenient import from_text, many, no_number, tidy, without_repeats

Value = TypeVar("Value")

# A Field stands before its BeforeValidator, which then leaves it in the JSON schema.
TOO_MANY = 2**53  # of anything; a table's column and a float still hold what is below it
PositiveInt = Annotated[int, Field(gt=0, lt=TOO_MANY), BeforeValidator(from_text)]
Count = Annotated[int, Field(ge=0, lt=TOO_MANY), BeforeValidator(from_text)]
PositiveFloat = Annotated[float, Field(gt=0), BeforeValidator(from_text)]
Fraction = Annotated[float, Field(ge=0.0001, le=1), BeforeValidator(from_text)]
Share = Annotated[float, Field(ge=0, le=1), BeforeValidator(from_text)]
Seed = Annotated[int, Field(ge=0, lt=2**31), BeforeValidator(from_text)]
Bool = Annotated[bool, BeforeValidator(from_text)]
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.]*$"
LONGEST_NAME = 64
Name = Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME), BeforeValidator(no_number)]
Values = Annotated[list[Value], Field(min_length=1), BeforeValidator(many), AfterValidator(without_repeats)]


class Section(BaseModel):
    """A part of the config: unknown keys are errors, values are checked and coerced from text alone."""

    model_config = ConfigDict(extra="forbid", validate_default=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _tidy(cls, values: Any) -> Any:
        """A key without a value is None where that means something, else as if it were not there."""
        return tidy(values, {key for key, field in cls.model_fields.items() if NoneType in get_args(field.annotation)})
