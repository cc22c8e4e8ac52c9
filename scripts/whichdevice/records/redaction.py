"""Text from libraries and environment variables, fit for a record: a path of this machine keeps its last part."""

import re
from typing import Annotated

from pydantic import AfterValidator

PATH = re.compile(r"(?<![\w./:-])/(?:[^\s/:;,'\"()<>]+/)+([^\s/:;,'\"()<>]*)")


def without_paths(text: str) -> str:
    """`/home/NAME/env/libtpu.so` becomes `.../libtpu.so`; addresses and ratios such as `a/b` stay."""
    return PATH.sub(r".../\1", text)


Told = Annotated[str, AfterValidator(without_paths)]
