"""The models of this folder, by the kind of model that each stands for: what is tried, and the table of the docs."""

from typing import NamedTuple

KERAS = ("tensorflow", "jax", "torch")


class Case(NamedTuple):
    """A model, the kind it stands for, and where it runs."""

    module: str
    kind: str
    backends: tuple[str, ...] = KERAS
    quick: bool = True  # whether it is tried in the quick tests


CASES = [
    Case("tabular.py", "a table of numbers, regression"),
    Case("classifier.py", "images to classes: convolutions, batch norm, dropout, a regulariser", quick=False),
    Case("one_hot.py", "one-hot targets", quick=False),
    Case("unet.py", "U-Net: a class for each pixel", quick=False),
    Case("autoencoder.py", "autoencoder: targets are the inputs", quick=False),
    Case("audio.py", "one-dimensional convolutions, several labels", quick=False),
    Case("video.py", "frames: `TimeDistributed` and a recurrent layer", quick=False),
    Case("lstm.py", "recurrent network, open sequence length", quick=False),
    Case("encoder.py", "transformer encoder with a layer of its own", quick=False),
    Case("causal.py", "decoder: the next token", quick=False),
    Case("two_towers.py", "recommender: two towers, inputs in a dict", quick=False),
    Case("wide_and_deep.py", "numbers and categories, inputs in a dict", quick=False),
    Case("siamese.py", "two inputs in a tuple, shared weights"),
    Case("text.py", "tokens and mask in a dict, own data"),
    Case("heads.py", "several outputs in a dict: losses, weights and metrics by output"),
    Case("detector.py", "several outputs in a list, sample weights", quick=False),
    Case("own_loss.py", "own loss, own metric, a learning-rate schedule"),
    Case("compiled.py", "comes compiled: its loss, optimiser and metrics"),
    Case("subclassed.py", "a subclass of `keras.Model` with a `call`", quick=False),
    Case("vae.py", "own `compute_loss`, no targets: variational autoencoder"),
    Case("distilled.py", "own `compute_loss`: a student of a frozen teacher", quick=False),
    Case("gan.py", "own `train_step`, two optimisers: GAN", ("tensorflow",), quick=False),
    Case("own_step_jax.py", "own `train_step` written for JAX", ("jax",)),
    Case("short_layers.py", "a layer with a number format of its own (marked)"),
    Case("tf_dataset.py", "data as a `tf.data.Dataset`", ("tensorflow",)),
    Case("py_dataset.py", "data as a `keras.utils.PyDataset`"),
    Case("loader.py", "data as a PyTorch `DataLoader`", ("torch",)),
    Case("generator.py", "data as a generator without an end", quick=False),
    Case("neighbour.py", "a file that imports modules beside it", quick=False),
    Case("nets.residual:build_residual", "a function of a package with relative imports"),
    Case("nets.compiled:small_net", "a function of a package that gives a compiled model", quick=False),
    Case("saved.keras", "a saved `.keras` file"),
    Case("keras.applications:MobileNetV3Small", "a network of `keras.applications`", quick=False),
]


def table() -> str:
    """The table of the docs."""
    lines = ["| kind of model | example | frameworks |", "|---|---|---|"]
    names = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
    for case in CASES:
        runs = ", ".join(names[backend] for backend in case.backends)
        lines.append(f"| {case.kind} | `{case.module}` | {runs} |")
    return "\n".join(lines)
