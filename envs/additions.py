"""Cut the lock of an extra down to what it adds to every ordinary environment: `python additions.py envs/slurm.lock`.

What cpu, gpu and torch all pin stays theirs; the rest is installed beside it without asking for dependencies.
"""

import os
import re
import sys
from pathlib import Path

ORDINARY = ("cpu", "gpu", "torch")


def blocks(lock: str) -> dict[str, str]:
    """The requirements of a lock with their hashes, by package and version."""
    found = re.split(r"\n(?! )", lock.strip())
    return {block.split()[0]: f"{block}\n" for block in found}


def additions(lock: str, ordinary: list[str]) -> str:
    """The requirements that not every ordinary lock holds."""
    held = set.intersection(*(set(blocks(text)) for text in ordinary))
    return "".join(block for pin, block in blocks(lock).items() if pin not in held)


def main() -> None:
    """Replace the named locks."""
    for name in sys.argv[1:]:
        path = Path(name)
        ordinary = [(path.parent / f"{kind}.lock").read_text(encoding="utf-8") for kind in ORDINARY]
        aside = path.with_suffix(".aside")
        aside.write_text(additions(path.read_text(encoding="utf-8"), ordinary), encoding="utf-8")
        os.replace(aside, path)


if __name__ == "__main__":
    main()
