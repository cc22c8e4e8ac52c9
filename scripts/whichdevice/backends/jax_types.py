"""Number formats of the products in a program of XLA, read from its text (HLO)."""

import re
from collections import Counter
from math import prod

from whichdevice.backends.base import emulated, product_format
from whichdevice.records.schema import Types

FORMATS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64"}
PRODUCT = re.compile(r" (?:dot|convolution|custom-call)\(([^)]*)\)(.*)")
LIBRARIES = re.compile(r'custom_call_target="[^"]*(?:cublas|cudnn|onednn|matmul)', re.IGNORECASE)
DEFINED = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = \(?(\w+)\[([\d,]*)\]")


def factor_formats(text: str) -> Counter[str]:
    """Formats of the factors that products take, by about how many multiplications each accounts for."""
    shapes = {}
    for line in text.splitlines():
        if (found := DEFINED.match(line)) is not None:
            shapes[found[1]] = (found[2], prod(int(size) for size in found[3].split(",") if size))
    formats: Counter[str] = Counter()
    for line in text.splitlines():
        result, product = DEFINED.match(line), PRODUCT.search(line)
        if result is None or product is None or ("custom-call(" in line and not LIBRARIES.search(line)):
            continue
        names = [name for name in re.findall(r"[\w.\-]+", product[1]) if name in shapes][:2]
        sizes = [shapes[name][1] for name in (result[1], *names)]
        formats[shapes[names[0]][0]] += round(prod(sizes) ** 0.5)  # exact for matrices, near enough for convolutions
    return formats


def types_of(precision: str, kind: str, storage: str, written: str, executed: str) -> Types:
    """What a compiled step really does; before there is one (empty texts), what was asked for.

    Products are named by what their factors are rounded to in the program as written. XLA may then widen them to a
    format that the device has: that is an emulation. It sums in float32 and rounds when stored.
    """
    product = product_format(precision)
    asked, done = (_most(factor_formats(text)) for text in (written, executed))
    if asked is not None and not (product == "tf32" and asked == "float32"):
        product = asked
    how = emulated(kind, product)
    if how is None and asked is not None and done is not None and done != asked:
        how = f"XLA computes them as {done} products"
    return Types(storage=storage, product=product, sum="float32", emulated=how)


def _most(formats: Counter[str]) -> str | None:
    known = Counter({FORMATS[name]: work for name, work in formats.items() if name in FORMATS})
    return known.most_common(1)[0][0] if known else None
