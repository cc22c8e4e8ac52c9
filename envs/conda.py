"""Write envs/{cpu,gpu,torch,jax-tpu,tpu}.yaml, the environments of `snakemake --sdm conda`, from the locks' pins.

Needs nothing but Python. Hashes stay in the locks; the versions are the same.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = ("cpu", "gpu", "torch", "jax-tpu", "tpu")
HEAD = """\
# Generated from {name}.lock by envs/conda.py (`make lock`), for `snakemake --sdm conda`.
channels:
  - conda-forge
  - nodefaults
dependencies:
  - python=3.11
  - pip
  - pip:
"""


def environment(name: str) -> str:
    """A conda environment with the pins of the lock of that name, as YAML."""
    return HEAD.format(name=name) + "".join(f'      - "{pin}"\n' for pin in pins(name))


def pins(name: str) -> list[str]:
    """Every requirement of a lock, with its marker and without its hashes."""
    lines = (FOLDER / f"{name}.lock").read_text(encoding="utf-8").splitlines()
    return [line.removesuffix("\\").strip() for line in lines if line and not line.startswith((" ", "#"))]


def main() -> None:
    """Replace the files."""
    for name in NAMES:
        aside = FOLDER / f".{name}.yaml.aside"
        aside.write_text(environment(name), encoding="utf-8")
        os.replace(aside, FOLDER / f"{name}.yaml")


if __name__ == "__main__":
    main()
