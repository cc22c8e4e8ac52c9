"""How long steps take as people run them: Python between kernels, loaders that decode images.

    habits = read_habits()
    habits.times(0.1, 800, images=128)      # of a clean step of 0.1 s and 800 kernels, for 128 images of files

A clean step runs with its data on the device and nothing between its kernels. How much longer a lived one takes depends
on how long its kernels are on the mean, and on how many images a second it needs that are decoded from files. Constants
and interval are fitted to what people report of whole trainings (fit/lived.py), less the evaluations whose sizes are
known; sources were left out for the interval.
"""

import ast
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from whichdevice.base.code_hash import parsed
from whichdevice.base.errors import StudyError

KERNEL = 2e-4  # seconds of a kernel on the mean
FEW_IMAGES = 100.0  # a second on each device, from where on decoding them begins to tell
HABITS = Path(__file__).with_name("lived.json")


@dataclass(frozen=True)
class Habits:
    """How lived steps differ from clean ones."""

    factor: float  # of the time, of a step whose kernels take KERNEL on the mean and that needs no images of files
    kernel: float  # power of the mean time of a kernel over KERNEL
    images: float  # power of 1 and the images a second over FEW_IMAGES, that are decoded from files
    log_sd: float  # of the logarithm of a lived step's time, as 80 % of reports that were left out have it
    reports: int
    sources: int

    def times(self, step_time: float, kernels: float, images: float = 0.0) -> float:
        """Return how many times the clean step a lived one takes, 1 at least; `images` that a device's step decodes."""
        constants = (math.log(self.factor), self.kernel, self.images)
        values = zip(constants, shows(step_time, kernels, images), strict=True)
        return max(1.0, math.exp(sum(constant * value for constant, value in values)))

    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, digest: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**digest)


@cache
def read_habits() -> Habits:
    """The fitted habits; raises StudyError where the file cannot be read."""
    try:
        return Habits.from_dict(json.loads(HABITS.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise StudyError(f"{HABITS.name}: cannot be read: {error}; `python -m fit.lived` writes it") from None


def shows(step_time: float, kernels: float, images: float) -> tuple[float, float, float]:
    """Return what the constants are multiplied with: 1, the log of a kernel's mean time, and of the images a second."""
    kernel = math.log(step_time / kernels / KERNEL) if kernels else 0.0
    return 1.0, kernel, math.log1p(images / step_time / FEW_IMAGES)


READERS = {  # what opens image files, and data sets that consist of them
    "imread", "imdecode", "read_image", "decode_image", "decode_jpeg", "decode_png", "load_img", "pil_loader",
    "image_dataset_from_directory", "flow_from_directory", "flow_from_dataframe", "AutoImageProcessor",
    "WebDataset", "ImageFolder", "ImageNet", "Imagenette", "CocoDetection", "CocoCaptions",
    "VOCDetection", "VOCSegmentation", "Cityscapes", "CelebA", "Places365", "INaturalist", "Food101", "Flowers102",
    "OxfordIIITPet", "StanfordCars", "FGVCAircraft", "DTD", "SUN397", "Country211", "Caltech101", "Caltech256", "LSUN",
}  # fmt: skip


def decodes_images(files: Iterable[Path]) -> bool:
    """Return whether a script's files open images: a loader decodes those as the training goes on."""
    return any(_opens_images(path) for path in files if path.suffix == ".py")


def _opens_images(path: Path) -> bool:
    try:
        tree = parsed(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="open", value=ast.Name(id="Image") | ast.Attribute(attr="Image")):
                return True
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.alias(name=name) if name in READERS:
                return True
    return False
