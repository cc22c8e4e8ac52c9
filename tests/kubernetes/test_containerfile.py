"""The image's recipe, and the profile: no container engine is where the tests run, so what they name is checked."""

import re
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
APART = ROOT / ".venv/apart/kubernetes"
RECIPE = (ROOT / "envs/Containerfile").read_text(encoding="utf-8")
KINDS = ("cpu", "gpu", "torch", "tpu")


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its words, continued lines joined, comments left out."""
    text = re.sub(r"\\\n", " ", "\n".join(line for line in RECIPE.splitlines() if not line.startswith("#")))
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in text.splitlines() if line.strip()]


def locked(name: str) -> set[str]:
    """The packages of a lock."""
    lines = (ROOT / "envs" / f"{name}.lock").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(line.partition("==")[0]) for line in lines if line and line[0].isalnum()}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_it_copies_is_there(kind: str) -> None:
    for word, rest in instructions():
        if word == "COPY":
            *sources, _ = rest.replace("${KIND}", kind).split()
            assert all((ROOT / source).exists() for source in sources), rest


@pytest.mark.needs("kubernetes")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_named_in_it_has_a_lock_and_the_bucket_s_plugin_with_all_that_it_needs(kind: str) -> None:
    held = locked(kind) | locked("kubernetes")
    assert "snakemake-storage-plugin-gcs" in held
    for distribution in distributions(path=[str(APART)]):
        assert needs(distribution) <= held, distribution.name


def needs(distribution: Distribution) -> set[str]:
    """What a package cannot do without."""
    found = [Requirement(text) for text in distribution.requires or []]
    needed = [entry for entry in found if entry.marker is None or entry.marker.evaluate({"extra": ""})]
    return {canonicalize_name(entry.name) for entry in needed}


def test_packages_are_installed_with_their_hashes_alone() -> None:
    installs = [step for word, rest in instructions() if word == "RUN" for step in rest.split("&&") if "pip " in step]
    assert len(installs) == 2
    assert all("--require-hashes" in step and "-r /opt/locks/" in step for step in installs)


def test_it_ends_as_a_user_without_rights_whose_folder_the_pods_work_in() -> None:
    words = [word for word, _ in instructions()]
    users = [rest for word, rest in instructions() if word == "USER"]
    assert users == ["10001"] and words.index("USER") > max(i for i, word in enumerate(words) if word == "RUN")
    assert "chown whichdevice /workdir" in RECIPE


@pytest.mark.needs("kubernetes")
def test_the_profile_names_an_installed_executor_and_storage() -> None:
    profile = yaml.safe_load((ROOT / "profiles/kubernetes/config.yaml").read_text(encoding="utf-8"))
    assert (APART / f"snakemake_executor_plugin_{profile['executor']}").is_dir()
    assert (APART / f"snakemake_storage_plugin_{profile['default-storage-provider']}").is_dir()
    assert profile["set-resources"]["measure"]["scale"] == 0
