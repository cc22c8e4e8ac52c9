"""Models that need no file: from keras.applications with random weights, and saved .keras files."""

import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from whichdevice.base.code_hash import rows_of_code
from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.models.address import Address
from whichdevice.models.declaration import Declaration
from whichdevice.models.losses import CLASSES
from whichdevice.models.model_file import Adapter, ModelFile
from whichdevice.models.shapes import Array, Tree
from whichdevice.models.workloads.base import Options

CLASSES_OF_IMAGENET = 1000
IMAGE_SIZE = 224  # that most networks of keras.applications were made for
IMAGE_SIZES = {row["model"]: int(row["image_size"]) for row in rows_of_code(__file__, "keras_image_sizes.csv")}


def saved_adapter(address: Address) -> Adapter:
    """Return the adapter of a saved model."""
    assert address.path is not None
    functions = SimpleNamespace(model=partial(_saved, address.path))
    return Adapter(address, Declaration(functions=frozenset({"model"}), by_compile=True), lambda: functions)


class LibraryModel(ModelFile):
    """A library's model, whose shapes follow from its options."""

    def _shapes_of_model(self) -> tuple[Tree, Tree]:
        return self._called("shapes")  # type: ignore[no-any-return]

    def check_options(self) -> None:
        """Raise StudyError on one that the model does not read."""
        for name in self.options.given:
            if name not in self.options.read:
                reads = ", ".join(sorted(self.options.read)) or "none"
                raise StudyError(f"{self.address.label}: options.{name} is never read; this model reads {reads}")


def library_adapter(address: Address) -> Adapter:
    """Return the adapter of a network of keras.applications; raises StudyError where keras has no such network."""
    known = _exported("keras", "applications/__init__.py")
    if known and address.function not in known:
        raise StudyError(f"workload {address.text}: no such model{did_you_mean(address.function, known)}")

    def shapes(options: Options) -> tuple[Array, Array]:
        size = options.get("image_size", IMAGE_SIZES.get(address.function, IMAGE_SIZE))
        return Array((size, size, 3)), Array((), "int32", options.get("classes", CLASSES_OF_IMAGENET))

    def model(options: Options) -> Any:
        import keras

        image, target = shapes(options)
        return getattr(keras.applications, address.function)(
            weights=None, input_shape=image.shape, classes=target.below, classifier_activation="softmax"
        )

    functions = SimpleNamespace(model=model, shapes=shapes)
    declared = Declaration(
        loss=CLASSES, optimizer="adam", metric="accuracy", by_compile=True, functions=frozenset({"model"}),
        unit="image", source=f"keras.applications, {address.function}",
    )  # fmt: skip
    return Adapter(address, declared, lambda: functions)


def _saved(path: Path, options: Options) -> Any:
    """A saved model as it was compiled, or by the options `loss` and `optimizer`."""
    import keras

    try:
        model = keras.saving.load_model(path, compile=True, safe_mode=True)
    except (TypeError, ValueError) as error:
        if (missing := re.search(r"Could not locate (?:class|function) '(\w+)'", str(error))) is not None:
            raise StudyError(
                f"{path.name}: holds {missing[1]}, which is not Keras' own; name a function that loads it: "
                "package.module:function"
            ) from error
        raise
    loss, optimizer = options.get("loss", None), options.get("optimizer", None)
    if loss is not None:
        model.compile(optimizer=optimizer or "adam", loss=loss)
    if not model.compiled:
        raise StudyError(f"{path.name}: was saved without a loss; give one: options: {{loss: mse, optimizer: adam}}")
    return model


def _exported(package: str, file: str) -> list[str]:
    """Return names of models that a package's file exports, read without an import; [] where it is not installed."""
    spec = find_spec(package)
    places = [Path(folder, file) for folder in (spec.submodule_search_locations or [])] if spec is not None else []
    text = "".join(place.read_text(encoding="utf-8") for place in places if place.is_file())
    return sorted({name for name in re.findall(r"(\w+) as \1\b", text) if name[:1].isupper()})
