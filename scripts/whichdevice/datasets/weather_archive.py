"""Reads the published weather-denmark.tar.gz: one CSV of observations. The pickle beside it is never opened."""

import tarfile
from pathlib import Path
from typing import IO, Any

import numpy as np

from whichdevice.datasets.archives import DAMAGE, LIMIT, unpacked
from whichdevice.datasets.resample import Observations
from whichdevice.errors import StudyError

CITIES = ("Aalborg", "Aarhus", "Esbjerg", "Odense", "Roskilde")
CSV = "weather-denmark.csv"
SIGNAL_COLUMNS = ["Temp", "Pressure", "WindSpeed", "WindDir"]  # in the order of resample.SIGNALS
COLUMNS = ["City", "DateTime", *SIGNAL_COLUMNS]
# Headers of a tar that are read into memory at once: long names and further attributes.
EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
MOST_HEADER_BYTES = 2**20


class Member(tarfile.TarInfo):
    """For `tarfile.open(..., tarinfo=Member)`: raises tarfile.ReadError where a header would fill the memory."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "Member":
        """A member of the 512 bytes of its header."""
        member = super().frombuf(buf, encoding, errors)
        if member.type in EXTENDED and not 0 <= member.size <= MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header says that it has {member.size:,} bytes")
        return member


def read_archive(path: Path, limit: int = LIMIT) -> dict[str, Observations]:
    """Observations of each city, in the order of CITIES.

    Nothing is unpacked to disk. Raises StudyError when the archive is cut, corrupted, unsafe (a member that would
    leave its folder), larger than `limit` bytes, or holds another table.
    """
    for _ in unpacked(path, limit):  # to the end first: a tar reader would not notice a cut after the CSV
        pass
    try:
        with tarfile.open(path, "r:gz", tarinfo=Member) as archive:
            for member in archive:
                tarfile.data_filter(member, ".")  # raises on absolute names, "..", links out of the folder, devices
                if Path(member.name).name == CSV and (file := archive.extractfile(member)):
                    return _read_csv(file, path)
    except tarfile.FilterError as error:
        raise StudyError(f"{path} is unsafe: {error}; it is not the published archive") from error
    except (tarfile.TarError, *DAMAGE) as error:
        raise StudyError(f"{path} is cut or corrupted ({error}): get it again") from error
    raise StudyError(f"{path} holds no {CSV}: it is not the published archive")


def _read_csv(file: IO[bytes], path: Path) -> dict[str, Observations]:
    import pandas as pd

    try:
        types: Any = {"City": "category"} | dict.fromkeys(SIGNAL_COLUMNS, "float64")
        table = pd.read_csv(file, usecols=COLUMNS, dtype=types)
        table["DateTime"] = pd.to_datetime(table["DateTime"], format="%Y-%m-%d %H:%M:%S", utc=True)
    except ValueError as error:  # pandas' parser errors and wrong encodings are ValueErrors
        raise StudyError(f"{path}: {CSV} is not the published table: {str(error).splitlines()[0]}") from error
    times = table["DateTime"].to_numpy("datetime64[s]").astype(np.int64)
    values = table[SIGNAL_COLUMNS].to_numpy()
    city = table["City"].to_numpy(str)
    return {name: Observations(times[city == name], values[city == name]) for name in CITIES}
