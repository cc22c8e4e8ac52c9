"""Finds datasets by file name: a module of this folder that defines `RECIPE` is a dataset."""

import importlib
import pkgutil
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from whichdevice.datasets.base import Recipe
from whichdevice.errors import StudyError


@cache
def _recipes() -> dict[str, Recipe]:
    modules = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]) if not module.ispkg]
    found = {}
    for name in modules:
        recipe = getattr(importlib.import_module(f"whichdevice.datasets.{name}"), "RECIPE", None)
        if isinstance(recipe, Recipe):
            found[name] = recipe
    return found


def dataset_names() -> list[str]:
    """All datasets, sorted."""
    return sorted(_recipes())


def get_dataset(name: str) -> Recipe:
    """The dataset of that name; raises StudyError that names the nearest one."""
    try:
        return _recipes()[name]
    except KeyError:
        near = get_close_matches(name, dataset_names(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"datasets are {', '.join(dataset_names())}"
        raise StudyError(f"unknown dataset {name!r}: {hint}") from None
