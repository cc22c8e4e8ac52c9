"""What the wheel takes from the rest of the repository: requirements of envs/*.in, and the workflow's own files."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

BASE = "base"
# For each extra the file whose requirements it adds to the base, and whether those of the files that it names count.
EXTRAS = {"jax": ("jax", False), "torch": ("torch", False), "study": ("cpu", True), "gpu": ("gpu", True),
          "tpu": ("jax-tpu", True)}  # fmt: skip
WORKFLOW = "whichdevice/workflow"  # folder in the wheel, as whichdevice.base.files has it
CARRIED = ("Snakefile", "rules", "profiles", "config", "docs/captions", "docs/examples", "results/reference")
PATTERNS = ("scripts/*.py", "envs/*.yaml")


def requirements(name: str, folder: Path, nested: bool = True) -> list[str]:
    """The requirements of envs/<name>.in, with those of the files that it names where `nested`."""
    found: list[str] = []
    for line in (folder / f"{name}.in").read_text(encoding="utf-8").splitlines():
        text = line.partition(" #")[0].strip()
        if text.startswith("-r ") and nested:
            found += requirements(text.removeprefix("-r ").removesuffix(".in"), folder)
        elif text and not text.startswith(("#", "-r ")):
            found.append(text)
    return found


def extras(folder: Path) -> dict[str, list[str]]:
    """What each extra adds to the base. On a TPU the package runs JAX; TensorFlow for TPUs has an environment alone."""
    base = requirements(BASE, folder)
    found = {extra: requirements(name, folder, nested) for extra, (name, nested) in EXTRAS.items()}
    return {extra: [each for each in listed if each not in base] for extra, listed in found.items()}


class Requirements(MetadataHookInterface):
    """Dependencies and extras of the package."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add what pyproject.toml calls dynamic."""
        folder = Path(self.root) / "envs"
        metadata["dependencies"] = requirements(BASE, folder)
        metadata["optional-dependencies"] = extras(folder)


class WorkflowFiles(BuildHookInterface):
    """Snakefile, rules, scripts, profiles and config inside the wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files; an editable installation uses the repository's own."""
        if version == "editable" or self.target_name != "wheel":
            return
        root = Path(self.root)
        paths = [root / name for name in CARRIED] + [path for pattern in PATTERNS for path in root.glob(pattern)]
        for path in paths:
            build_data["force_include"][str(path)] = f"{WORKFLOW}/{path.relative_to(root).as_posix()}"
