"""Machines for the tests of what goes between them: clones of the project that share nothing but a bucket."""

import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from workflow.conftest import Project, copy_project

from whichdevice.study.remote.transfer import open_place

USER, HOST, PROJECT, TOKEN = "vqzuser", "vqzhost", "vqz-project-4711", "ya29.vqztoken"
NAMED = ("unshare", "--uts", "sh", "-c", f'hostname {HOST} && exec "$@"', "sh")  # a host of that name, for root


@contextmanager
def bucket_at(emulator: str, folder: Path) -> Iterator[str]:
    """Address of a new bucket, which this process and those that it starts reach; they are of one person."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORAGE_EMULATOR_HOST", emulator)
        patch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        patch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        for name, value in {
            "HOME": str(folder / USER),
            "USER": USER,
            "LOGNAME": USER,
            "GOOGLE_CLOUD_PROJECT": PROJECT,
            "CLOUDSDK_AUTH_ACCESS_TOKEN": TOKEN,
        }.items():
            patch.setenv(name, value)
        address = f"gs://bucket-{uuid.uuid4().hex[:12]}"
        place = open_place(address)
        place.fs.mkdir(address.removeprefix("gs://"))
        yield address


def machine(folder: Path, name: str) -> Project:
    """A clone of the project, below a home folder that names its user, on a host of a known name."""
    home = folder / USER / name
    home.mkdir(parents=True)
    project = copy_project(home / "clone")
    if subprocess.run([*NAMED, "true"], capture_output=True).returncode == 0:
        project.prefix = NAMED
    return project


def told(results: Path, *words: str) -> list[str]:
    """Which files of a results folder hold one of the words, in their names or anywhere in them."""
    found = []
    for path in sorted(results.rglob("*")):
        content = path.name.encode() + (path.read_bytes() if path.is_file() else b"")
        found += [f"{path.relative_to(results)}: {word}" for word in words if word.encode() in content]
    return found
