"""MNIST: 70,000 handwritten digits of 28×28 grey values.

Sizes and sha256 are of the CVDF mirror that TensorFlow Datasets uses; the md5 of the unpacked content holds for every
faithful copy, however it was packed.
"""

from whichdevice.models.datasets.images import image_recipe

RECIPE = image_recipe(
    "mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    sizes=(9912422, 28881, 1648877, 4542),
    sha256=(
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
    content_md5=(
        "6bbc9ace898e44ae57da46a324031adb",
        "a25bea736e30d166cdddb491f175f624",
        "2646ac647ad5339dbf082846283269ea",
        "27ae3e4e09519cfbb04c329615203637",
    ),
    description="70,000 handwritten digits, 28×28 grey values, ten classes",
    citation="LeCun, Y., Cortes, C., Burges, C. J.: MNIST handwritten digit database. 2010. "
    "http://yann.lecun.com/exdb/mnist",
    licence="CC BY-SA 3.0",
    class_names=tuple("0123456789"),
)
