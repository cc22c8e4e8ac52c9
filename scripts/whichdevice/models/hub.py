"""A model of Hugging Face's hub that the table lacks: its config.json, and the headers of its weights' files.

    hub_config("Qwen/Qwen3-0.6B-Base")     the path of its config.json
    stored_weights("path/to/folder")       how many weights its files hold, in which bytes

No weights are downloaded. huggingface_hub, which reads both, is an extra; it keeps config.json in its own cache.
"""

import re
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from whichdevice.base.errors import StudyError
from whichdevice.models.address import config_file

SECONDS = 5.0  # to wait for the hub
CONFIG, FILES = "config.json", ("model.safetensors", "model.safetensors.index.json")
WITHOUT = f"where it has no {CONFIG}, as of diffusers or timm, name the script that trains it, or a file with a model()"
# What is in a file of weights in few bits besides them: scales, zeros and the order of groups.
NO_WEIGHTS = re.compile(r"scale|zero|g_idx|absmax|quant_|weight_shape")
OUTPUT = re.compile(r"(^|\.)(lm_head|embed_out|output_layer|output)\.(q?weight|weight_packed)$")
# By the type of most weights; others are held in 16 bits.
HEADER_FORMATS = {"F8_E4M3": "fp8", "F8_E5M2": "fp8", "I8": "int8", "I32": "gptq", "U8": "nvfp4"}


@dataclass(frozen=True)
class StoredWeights:
    """Weights as their files hold them."""

    count: int
    nbytes: int  # as a server holds them: weights of 32 bits in 16
    dtype: str  # of most weights, as safetensors names it
    tied: bool  # whether the table of words is the output's, too

    @property
    def format(self) -> str:
        """Return the format of served weights that has this type."""
        return HEADER_FORMATS.get(self.dtype, "bf16")


def hub_config(name: str, hint: str = ".") -> Path:
    """Return the config.json of ORG/NAME; raises StudyError that says why there is none, and what to do.

    `hint` names a model that is known here and has nearly this name.
    """
    label = f"hf:{name}"
    save = f"Save its {CONFIG} from huggingface.co/{name} and name the folder: hf:path/to/folder; {WITHOUT}"
    if find_spec("huggingface_hub") is None:
        raise StudyError(
            f"{label}: is not known here{hint} With its client the hub is asked: pip install huggingface_hub. {save}"
        )
    import huggingface_hub
    from huggingface_hub import errors

    known = huggingface_hub.try_to_load_from_cache(name, CONFIG)
    if isinstance(known, str):
        return Path(known)
    if not in_reach():
        raise StudyError(f"{label}: is not known here, and the hub is not in reach{hint} {save}")
    try:
        return Path(huggingface_hub.hf_hub_download(name, CONFIG))
    except errors.GatedRepoError:
        raise StudyError(f"{label}: accept its terms on huggingface.co/{name}, then log in: hf auth login") from None
    except errors.RepositoryNotFoundError:
        raise StudyError(f"{label}: the hub has no such model{hint} If it is private, log in: hf auth login") from None
    except Exception as error:  # of its client, whose HTTP library raises other errors
        if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
            raise StudyError(f"{label}: is no model of transformers on the hub{hint} {WITHOUT.capitalize()}") from None
        raise StudyError(f"{label}: the hub did not answer ({type(error).__name__}){hint} {save}") from None


@cache
def in_reach() -> bool:
    """Return whether the hub answers; its client itself tries again and again where there is no network."""
    from huggingface_hub import constants

    host = urlsplit(constants.ENDPOINT)
    if constants.HF_HUB_OFFLINE:
        return False
    try:
        socket.create_connection((host.hostname or "", host.port or 443), SECONDS).close()
    except OSError:
        return False
    return True


def stored_weights(name: str, bits: int = 4) -> StoredWeights | None:
    """Return what the headers of a folder's, the client's or the hub's files say; None where there are none.

    Whole numbers of 32 bits hold several weights of so many `bits`.
    """
    if find_spec("huggingface_hub") is None:
        return None
    import huggingface_hub

    path = config_file(name)
    kept = [] if path else [huggingface_hub.try_to_load_from_cache(name, file) for file in FILES]
    folders = [Path(file).parent for file in (path, *kept) if isinstance(file, str | Path)]
    headers = None
    with suppress(Exception):  # of its client: there are no such files, or the hub does not answer
        if folders:
            headers = huggingface_hub.get_local_safetensors_metadata(folders[0])
        elif path is None and in_reach():
            headers = huggingface_hub.get_safetensors_metadata(name)
    return None if headers is None else _counted(headers, bits)


def _counted(headers: Any, bits: int) -> StoredWeights:
    packed = {"I32": 32 // bits, "U8": 2}  # weights of a value
    tensors = {key: one for file in headers.files_metadata.values() for key, one in file.tensors.items()}
    nbytes = sum(one.data_offsets[1] - one.data_offsets[0] for one in tensors.values())
    weights: Counter[str] = Counter()
    for name, one in tensors.items():
        if not NO_WEIGHTS.search(name):
            weights[one.dtype] += one.parameter_count * packed.get(one.dtype, 1)
    nbytes -= 2 * weights["F32"]
    dtype = max(weights, key=lambda name: weights[name], default="BF16")
    return StoredWeights(sum(weights.values()), nbytes, dtype, not any(map(OUTPUT.search, tensors)))
