"""Write envs/{cpu,gpu,tpu}.yaml, the environments of `snakemake --sdm conda`, from the locks' pins.

Needs nothing but Python. Hashes stay in the locks; the versions are the same.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent
KINDS = ("cpu", "gpu", "tpu")
HEAD = """\
# Generated from {kind}.lock by envs/conda.py (`make lock`), for `snakemake --sdm conda`.
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python=3.11
  - pip
  - pip:
"""


def environment(kind: str) -> str:
    """The conda environment of one kind of device, as YAML."""
    return HEAD.format(kind=kind) + "".join(f'      - "{pin}"\n' for pin in pins(kind))


def pins(kind: str) -> list[str]:
    """Every requirement of a lock, with its marker and without its hashes."""
    lines = (FOLDER / f"{kind}.lock").read_text(encoding="utf-8").splitlines()
    return [line.removesuffix("\\").strip() for line in lines if line and not line.startswith((" ", "#"))]


def main() -> None:
    """Replace the three files."""
    for kind in KINDS:
        aside = FOLDER / f".{kind}.yaml.aside"
        aside.write_text(environment(kind), encoding="utf-8")
        os.replace(aside, FOLDER / f"{kind}.yaml")


if __name__ == "__main__":
    main()
