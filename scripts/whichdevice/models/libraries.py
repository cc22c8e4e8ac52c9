"""Models that need no file: from keras.applications and KerasHub with random weights, and saved .keras files.

Nothing is downloaded. KerasHub keeps the sizes of its models with their weights, on a server: those in
keras_hub_models.csv are of the models' papers, and a model is refused whose number of weights is another one than
KerasHub states.
"""

import re
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from whichdevice.base.code_hash import rows_of_code
from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.models.address import Address
from whichdevice.models.declaration import Declaration
from whichdevice.models.losses import CLASSES, CLASSES_FROM_LOGITS
from whichdevice.models.model_file import Adapter, ModelFile
from whichdevice.models.shapes import Array, Tree
from whichdevice.models.workloads.base import Options

CLASSES_OF_IMAGENET = 1000
IMAGE_SIZE = 224  # that most networks of keras.applications were made for
IMAGE_SIZES = {row["model"]: int(row["image_size"]) for row in rows_of_code(__file__, "keras_image_sizes.csv")}
PRESETS = {row["preset"]: row for row in rows_of_code(__file__, "keras_hub_models.csv")}
TEXT = ("vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim")  # sizes of a backbone there
CAUSAL = ("GPT2", "OPT")  # decoders, trained on the next token; the others classify a text
MadeOf = Callable[[Options], Any]
LENGTH = 128  # tokens, where neither config nor command says
TEXT_CLASSES = 2


def saved_adapter(address: Address) -> Adapter:
    """Return the adapter of a saved model."""
    assert address.path is not None
    functions = SimpleNamespace(model=partial(_saved, address.path))
    return Adapter(address, Declaration(functions=frozenset({"model"}), by_compile=True), lambda: functions)


def library_adapter(address: Address) -> Adapter:
    """Return the adapter of a library's model; raises StudyError where there is no such model."""
    return _application(address) if address.library == "keras.applications" else _hub(address)


class LibraryModel(ModelFile):
    """A library's model, whose shapes follow from its options."""

    def _needs_own_step(self, model: Any, found: Any) -> bool:
        return False  # KerasHub compiles its tasks, with steps of the same work

    def _data(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        splits = super()._data()
        for arrays in splits:
            if "inputs/padding_mask" in arrays:
                arrays["inputs/padding_mask"] = np.ones_like(arrays["inputs/padding_mask"])
        return splits

    def _shapes_of_model(self) -> tuple[Tree, Tree]:
        return self._called("shapes")  # type: ignore[no-any-return]

    def check_options(self) -> None:
        """Raise StudyError on one that the model does not read."""
        for name in self.options.given:
            if name not in self.options.read:
                reads = ", ".join(sorted(self.options.read)) or "none"
                raise StudyError(f"{self.address.label}: options.{name} is never read; this model reads {reads}")


def _ready(address: Address, model: MadeOf, shapes: MadeOf, **stated: Any) -> Adapter:
    functions = SimpleNamespace(model=model, shapes=shapes)
    declared = Declaration(
        optimizer="adam", metric="accuracy", by_compile=True, functions=frozenset({"model"}), **stated
    )
    return Adapter(address, declared, lambda: functions)


def _application(address: Address) -> Adapter:
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

    source = f"keras.applications, {address.function}"
    return _ready(address, model, shapes, loss=CLASSES, unit="image", source=source)


def _hub(address: Address) -> Adapter:
    preset = address.function
    if find_spec("keras_hub") is None:
        raise StudyError(f"workload {address.text}: KerasHub is not installed here: pip install keras-hub")
    if preset not in PRESETS:
        raise StudyError(
            f"workload {address.text}: its sizes are not known without a download{did_you_mean(preset, PRESETS)}; for "
            "another model write a file whose model(options) makes its backbone (docs/reference/model-file.md)"
        )
    kind, sizes = PRESETS[preset]["class"], {name: int(PRESETS[preset][name]) for name in TEXT}
    causal = kind in CAUSAL

    def model(options: Options) -> Any:
        import keras_hub

        backbone = getattr(keras_hub.models, f"{kind}Backbone")(**sizes)
        made, stated = backbone.count_params(), type(backbone).presets[preset]["metadata"]["params"]
        if made != stated:
            raise StudyError(
                f"{address.text}: made with {made:,} weights, KerasHub states {stated:,}: this version builds another "
                "model"
            )
        if causal:
            return getattr(keras_hub.models, f"{kind}CausalLM")(backbone=backbone, preprocessor=None)
        classes = options.get("classes", TEXT_CLASSES)
        classifier = getattr(keras_hub.models, f"{kind}TextClassifier")
        return classifier(backbone=backbone, num_classes=classes, preprocessor=None)

    def shapes(options: Options) -> tuple[Tree, Tree]:
        length = options.sequence_length or LENGTH
        tokens = Array((length,), "int32", sizes["vocabulary_size"])
        inputs = {"token_ids": tokens, "padding_mask": Array((length,), "int32", 1)}  # 0 here; whole below
        if kind == "Bert":
            inputs["segment_ids"] = Array((length,), "int32", 2)
        return inputs, tokens if causal else Array((), "int32", options.get("classes", TEXT_CLASSES))

    return _ready(
        address, model, shapes, loss=CLASSES_FROM_LOGITS, sequence_length=LENGTH, unit="sequence",
        source=f"KerasHub, {preset}", batch_size=8 if causal else 32,
    )  # fmt: skip


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
    """Names of models that a package's file exports, read without an import; none where it is not installed."""
    spec = find_spec(package)
    places = [Path(folder, file) for folder in (spec.submodule_search_locations or [])] if spec is not None else []
    text = "".join(place.read_text(encoding="utf-8") for place in places if place.is_file())
    return sorted({name for name in re.findall(r"(\w+) as \1\b", text) if name[:1].isupper()})
