"""What went wrong in somebody's file, in one line."""

import re
import traceback
from pathlib import Path

NO_MEMORY = ("resource_exhausted", "out of memory", "oom", "bad_alloc", "can't allocate", "failed to allocate")
COLOURS = re.compile(r"\x1b\[\d+m")


def told(error: BaseException, path: Path) -> str:
    """An error's type and message in one line, with the last line of the file that it passed."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines() if line.strip()]
    for number, line in enumerate(lines[:-1]):
        if line.endswith("Error encountered:"):  # Keras puts the cause below its own words
            lines = lines[number + 1 :]
            break
    message = next((line for line in lines if not line.startswith(("Exception encountered", "in user code"))), "")
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame.lineno for frame in frames if Path(frame.filename).name == path.name]
    place = f" (line {places[-1]})" if places else ""
    return f"{type(error).__name__}: {message}{place}" if message else f"{type(error).__name__}{place}"


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory did not suffice, whoever raised it."""
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in NO_MEMORY)
